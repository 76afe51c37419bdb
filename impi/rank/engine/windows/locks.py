"""The locks of one target: holders, and the queue of waiting ranks.

Every request joins the queue, and the front of the queue gets the lock while it is compatible with
the holders. So shared requests behind an exclusive one wait, though they could be granted: else a
stream of readers would keep a writer waiting for ever.
"""

from __future__ import annotations

from collections import deque


class Locks:
    """First come, first served; a shared lock does not overtake an exclusive one that waits."""

    def __init__(self) -> None:
        self._holders: set[int] = set()
        self._is_exclusive = False
        self._waiting: deque[tuple[int, bool]] = deque()

    def request(self, rank: int, *, exclusive: bool) -> bool:
        """Ask for a lock; False: :meth:`release` will name the rank."""
        self._waiting.append((rank, exclusive))
        return rank in self._grant()

    def release(self, rank: int) -> list[int]:
        """Give a lock back; return the ranks that have one now."""
        self._holders.discard(rank)
        return self._grant()

    def _grant(self) -> list[int]:
        granted = []
        while self._waiting:
            rank, exclusive = self._waiting[0]
            if self._holders and (exclusive or self._is_exclusive):
                break

            self._waiting.popleft()
            self._holders.add(rank)
            self._is_exclusive = exclusive
            granted.append(rank)

        return granted
