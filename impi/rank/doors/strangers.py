"""Connections that have proved nothing yet: limits of their number and time, and reports on them.

A listener that others can reach is full of strangers on a bad day. :class:`Strangers` keeps the
account for one listener. It accepts connections, says which one goes first when there are too many,
and which ones have had their time. A listener's owner keeps sockets and loop. :class:`Refusals`
prints one line for each address and reason, and the rest as counts.

Who goes first: a connection that has said nothing for a second goes before others, then one of an
address with more connections than all members would have, then the one that came or spoke first.
Who is honest proves itself in one answer or two, so the newest have their chance.

An address stands for all that one machine may have: the first 64 bits of IPv6, all of 127/8.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from impi.base.records import record

K = TypeVar("K", bound=Hashable)

# A mistyped secret costs its user no time; a search waits for each further guess.
_FREE_GUESSES: Final = 3
_PAUSES_S: Final = (0.1, 2.0)
"""Pause after the first wrong secret that is one too many; each more doubles it; the longest."""
_MOST_ADDRESSES: Final = 1024

MOST: Final = 512
"""Strangers at one listener, besides its members before they have proved what they are."""
_LEAST: Final = 16
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
AGE_S: Final = 10.0
"""Seconds in which a connection must have proved what it is."""
_WORDLESS_S: Final = 1.0
"""Time for which a stranger may be silent: on a busy machine honest peers send late."""
_MOST_REASONS: Final = 32


def room(members: int) -> int:
    """Return how many strangers a door has room for: half of its files still to open.

    ``members``: that are awaited. They may all come at once, and have proved nothing yet, either.
    """
    used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  (importing pathlib takes 5 ms)
    return max(_LEAST, min(MOST + members, (os.sysconf("SC_OPEN_MAX") - used) // 2))


@record(frozen=False, eq=False)
class _Stranger:
    network: str
    number: int
    since: float


class _Crowd(Generic[K]):
    """The strangers of one address, those that came or spoke first before the others."""

    __slots__ = ("silent", "spoke")

    def __init__(self) -> None:
        self.silent: dict[K, _Stranger] = {}
        self.spoke: dict[K, _Stranger] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.spoke)


class Strangers(Generic[K]):
    """The account of one listener's strangers, each under a key of the owner; close it at the end.

    Args:
        members: number of awaited members; that many connections of one address are not a crowd.
        most: how many there may be; None: see :func:`room`.
        age_s: seconds that each has.
    """

    def __init__(
        self, members: int = 0, *, most: int | None = None, age_s: float = AGE_S
    ) -> None:
        self._members = members
        self._most = room(members) if most is None else most
        self._age_s = age_s
        # So that who goes is found among addresses, and not among all strangers: in a storm each
        # connection that is accepted asks that.
        self._crowds: dict[str, _Crowd[K]] = {}
        self._there: dict[K, _Stranger] = {}
        self._number = 0
        self._crowded = False
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """A descriptor that is given up for a moment where there is no other; -1: it is lost."""

    def close(self) -> None:
        """Close the reserve; the sockets are the owner's. Idempotent."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def __len__(self) -> int:
        return len(self._there)

    def accept(self, listener: socket.socket) -> tuple[socket.socket, str, int] | None:
        """Return a connection that does not block, its address and port; None: there is none.

        The owner has made room before (:meth:`surplus`). Without a free descriptor
        :meth:`surplus` names a stranger, and the connection waits for its place. Where there is no
        stranger it is closed at once, because the listener would stay ready for ever.
        """
        try:
            sock, peer = listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM and not self._there:
                self._close_next(listener)
            elif error.errno in _NO_ROOM:
                self._crowded = True

            return None

        sock.setblocking(False)

        return (sock, *endpoint_of(peer))

    def _close_next(self, listener: socket.socket) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

        with contextlib.suppress(OSError):
            listener.accept()[0].close()

        with contextlib.suppress(OSError):  # another thread may have taken it meanwhile
            self._reserve = os.open(os.devnull, os.O_RDONLY)

    def add(self, key: K, address: str) -> None:
        self._there[key] = stranger = _Stranger(
            _network(address), self._number, time.monotonic()
        )
        crowd = self._crowds.setdefault(stranger.network, _Crowd())
        crowd.silent[key] = stranger
        self._number += 1

    def spoke(self, key: K) -> None:
        """Note that a connection has said something, right or wrong."""
        if key in self._there:
            crowd = self._crowds[self._there[key].network]
            if (stranger := crowd.silent.pop(key, None)) is not None:
                crowd.spoke[key] = stranger

    def discard(self, key: K) -> None:
        """A connection is not a stranger any more: a member, or closed."""
        if (stranger := self._there.pop(key, None)) is not None:
            crowd = self._crowds[stranger.network]
            crowd.silent.pop(key, None)
            crowd.spoke.pop(key, None)
            if not crowd:
                del self._crowds[stranger.network]

    @property
    def full(self) -> bool:
        """Whether one has to go before the next one is accepted."""
        return bool(self._there) and (self._crowded or len(self._there) >= self._most)

    def surplus(self) -> K | None:
        """Return a connection to be closed before the next one is accepted; None: there is room."""

        if not self.full:
            return None

        self._crowded = False

        before = time.monotonic() - _WORDLESS_S

        # A silent connection costs an attacker least. Those of one machine give way to each other
        # before they take the place of another's.
        def worth(found: tuple[_Crowd[K], bool, K]) -> tuple[bool, int, int]:
            crowd, spoke, key = found
            stranger = self._there[key]
            return (
                spoke or stranger.since > before,
                -max(0, len(crowd) - self._members),
                stranger.number,
            )

        firsts = [
            (crowd, spoke, next(iter(some)))
            for crowd in self._crowds.values()
            for spoke, some in ((False, crowd.silent), (True, crowd.spoke))
            if some
        ]

        return min(firsts, key=worth)[2]

    def overdue(self) -> list[K]:
        before = time.monotonic() - self._age_s
        return [
            key for key, stranger in self._there.items() if stranger.since <= before
        ]

    @property
    def patience(self) -> float:
        """Seconds until :meth:`overdue` has one more; infinite: there is none."""
        oldest = min(
            (stranger.since for stranger in self._there.values()), default=float("inf")
        )
        return max(0.0, oldest + self._age_s - time.monotonic())


class Guesses:
    """Wrong secrets by address: from the fourth on, the next connections from there have to wait.

    Others of that address wait, too, but no longer than any of them; others do not wait.
    """

    def __init__(self) -> None:
        self._wrong: Counter[str] = Counter()

    def add(self, address: str) -> None:
        # A bounded table: the address with the fewest wrong guesses is forgotten, not the worst
        # one.
        network = _network(address)
        if network not in self._wrong and len(self._wrong) >= _MOST_ADDRESSES:
            del self._wrong[min(self._wrong, key=self._wrong.__getitem__)]

        self._wrong[network] += 1

    def pause_s(self, address: str) -> float:
        """Return the seconds before anything of a new connection of ``address`` is read."""
        more = self._wrong[_network(address)] - _FREE_GUESSES
        first, longest = _PAUSES_S

        return 0.0 if more <= 0 else min(longest, first * 2.0 ** min(more - 1, 16))


class Refusals:
    """Says why connections were closed: once for an address and a kind of reason, then counts.

    Args:
        say: prints one sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._more: Counter[tuple[str, str]] = Counter()
        self._told: set[tuple[str, str]] = set()

    def tell(self, address: str, kind: str, sentence: str) -> None:
        """Report a closed connection of ``address``; ``kind``: the reason without particulars."""

        what = (address, kind)
        if what in self._told or len(self._told) >= _MOST_REASONS:
            self._more[
                what
                if what in self._told
                else ("other addresses", "for reasons such as these")
            ] += 1
            return

        self._told.add(what)
        self._say(sentence)

    def summary(self) -> None:
        """Print the counts of further refusals, and begin to count anew."""
        for (address, kind), count in self._more.items():
            self._say(
                f"closed {count} more connection{'s' if count > 1 else ''} of {address}: {kind}"
            )

        self._more.clear()


def _network(address: str) -> str:
    """Return what one machine may have all of."""
    if ":" not in address:
        return "127" if address.startswith("127.") else address

    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()


def endpoint_of(peer: object) -> tuple[str, int]:
    """Return address and port of a socket's name; a Unix socket has neither."""
    if not isinstance(peer, tuple):
        return "this node", 0

    address = str(peer[0])

    # IPv4 on an IPv6 socket is ::ffff:10.0.0.1.
    return address.removeprefix("::ffff:") if "." in address else address, int(peer[1])
