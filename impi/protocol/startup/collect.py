"""The server's collection of labels, without knowing a single one of them (IMPI 2.3.5).

How it works: each client has a queue of submitted labels, which ascend. The lowest label at the
heads of all queues is complete as soon as every client has one waiting, or has said DONE: then no
client can still submit it. A client that submits many labels ahead of the others fills its queue,
so the octets of each queue are bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from impi.base.errors import PeerError

MAX_WAITING: Final = 1 << 24
"""Most octets of labels that may wait for other clients, per client: bounds the server's memory."""

_OVERHEAD: Final = 64  # A label without data occupies memory, too


class Broadcast(NamedTuple):
    """One complete label: the contributing clients, and their data in ascending order."""

    label: int
    client_mask: int
    data: bytes


class Collector:
    """Collects labels of ``nclients`` clients and gives them out as soon as they are complete.

    A client's labels ascend. So a label is complete once every client has submitted it, or a higher
    one, or has finished. Call :meth:`add` and :meth:`finish`, then drain :meth:`complete`.
    """

    def __init__(self, nclients: int) -> None:
        self._waiting: list[deque[tuple[int, bytes]]] = [
            deque() for _ in range(nclients)
        ]
        self._octets = [0] * nclients
        self._last: list[int | None] = [None] * nclients
        self._finished = [False] * nclients

    @property
    def finished(self) -> bool:
        """Whether no client has a label left, submitted or to come."""
        return all(self._finished) and not any(self._waiting)

    def add(self, client: int, label: int, data: bytes) -> None:
        """Take one label of ``client``.

        Raises:
            PeerError: it does not ascend, comes after DONE, or too much is waiting.
        """

        last = self._last[client]
        if self._finished[client]:
            raise PeerError(f"submitted label {label:#06x} after DONE", clause="2.3.6")

        if last is not None and label <= last:
            raise PeerError(
                f"submitted label {label:#06x} after {last:#06x}, but labels must ascend",
                clause="2.3.5",
            )

        # Bounded for each client: one that runs ahead of the others pays for it alone.
        self._octets[client] += len(data) + _OVERHEAD
        if self._octets[client] > MAX_WAITING:
            raise PeerError(
                f"has over {MAX_WAITING} octets of labels waiting for other clients",
                clause="2.3.5",
            )

        self._last[client] = label
        self._waiting[client].append((label, data))

    def finish(self, client: int) -> None:
        """Note that ``client`` has no further label.

        Raises:
            PeerError: it said so before.
        """
        if self._finished[client]:
            raise PeerError("sent DONE twice", clause="2.3.6")

        self._finished[client] = True

    def complete(self) -> Iterator[Broadcast]:
        while (label := self._complete_label()) is not None:
            mask = 0

            parts = []
            for client, waiting in enumerate(self._waiting):
                if waiting and waiting[0][0] == label:
                    data = waiting.popleft()[1]
                    self._octets[client] -= len(data) + _OVERHEAD
                    parts.append(data)
                    mask |= 1 << client

            yield Broadcast(label, mask, b"".join(parts))

    def _complete_label(self) -> int | None:
        # Labels ascend at each client, so the lowest at all heads can only be joined
        # by a client whose queue is empty. While one such client is not done, it may
        # still submit a label as low.
        lowest = min(
            (waiting[0][0] for waiting in self._waiting if waiting), default=None
        )
        if all(
            waiting or done
            for waiting, done in zip(self._waiting, self._finished, strict=True)
        ):
            return lowest

        return None
