"""Counted packets of one path that wait for credit, and which of them goes next (IMPI 3.6).

Why three lanes: an acknowledgement behind a long message would keep the peer waiting for all of it,
and so would a short message. Why turns and no priorities: with few packets of
credit, a stream of acknowledgements or of short messages would stop the long ones for good.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from impi.protocol.transfer.message import Outgoing

AFTER_FIRST: Final = 2
"""The lane after that of first packets."""


class Lanes:
    """Three lanes, each first in, first out, which take turns, so that none can starve another."""

    __slots__ = ("_all", "acks", "firsts", "longs", "turn")

    def __init__(self) -> None:
        self.acks: deque[bytes] = deque()
        """Acknowledgements."""
        self.firsts: deque[Outgoing | bytes] = deque()
        """First packets of messages, and CANCELs behind them."""
        self.longs: deque[Outgoing] = deque()
        """Continued long messages, each of which sends one packet in turn."""
        self._all: tuple[deque[bytes], deque[Outgoing | bytes], deque[Outgoing]] = (
            self.acks,
            self.firsts,
            self.longs,
        )
        self.turn = 0
        """The lane that comes next."""

    @property
    def queued(self) -> bool:
        return bool(self.acks or self.firsts or self.longs)

    def pop(self) -> Outgoing | bytes:
        """Take the next message, or acknowledgement. Only while :attr:`queued`."""

        # An empty lane loses its turn, so the credit that there is never waits for it.
        turn = self.turn
        while not self._all[turn]:
            turn = (turn + 1) % 3

        self.turn = (turn + 1) % 3

        return self._all[turn].popleft()
