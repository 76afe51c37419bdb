"""Watch the processes below a starter from outside: which are stopped, which are cut off.

A rank may compute for an hour without a call of MPI, so its silence proves nothing. Its state in
/proc does: T after SIGSTOP. And for each TCP connection the kernel counts unanswered
retransmissions and keepalive probes (:mod:`impi.base.remote.unacknowledged`). The kernel of a live
machine acknowledges for a busy or stopped process, too. So only a cut link or a dead machine keeps
these counters above 0.

Looks cost processor time that the ranks want. While all is well there is one a second; while
something may be lost there are two, and one more at the moment at which its time is over.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from impi.base.remote.processes import Family, Groups
from impi.base.remote.starter_lines import End
from impi.base.remote.unacknowledged import Connections, Ends, sockets

LOOK_S = 0.5
"""Seconds between two looks."""
QUIET_S = 1.0
"""The same while nothing looks lost."""


class Watch:
    """Keeps account of stopped processes and cut connections, and reports each once.

    Args:
        limit_s: seconds after which one is reported.
        clock: the time in seconds.
    """

    def __init__(
        self, limit_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit_s = limit_s
        self.family = Family()
        # Listeners of the job's hosts; only connections with these count
        self.ends: set[End] = set()
        self._connections = Connections()
        self._clock = clock
        self._last = clock() - QUIET_S
        self._told = False
        self._ago_s = 0.0  # estimated age of a change that the present look finds
        # Time at which each was first seen: stopped processes, and cut connections by inode.
        self._stopped: dict[int, float] = {}
        self._cut: dict[int, float] = {}

    @property
    def left_s(self) -> float:
        """Seconds until the next look; 0 or less: it is due."""

        # The kernel has told of a stopped child, so nothing is gained by
        # waiting for the usual time.
        if self._told:
            return 0.0

        # A reported process or connection stands here with infinity: it sets no moment of its own.
        since = [*self._stopped.values(), *self._cut.values()]
        if not since:
            return self._last + QUIET_S - self._clock()

        # Not later than the moment at which something seen becomes lost.
        return min(self._last + LOOK_S, self.limit_s + min(since)) - self._clock()

    def due(self) -> bool:
        """Return whether to look now, and count that as a look if so."""

        if self.left_s > 0:
            return False

        gap, self._last = self._clock() - self._last, self._clock()
        # A change since the last look is on average half of the longer gap old. Counting that keeps
        # reports as early as with looks every LOOK_S.
        self._ago_s = 0.0 if self._told else max(0.0, min(gap, QUIET_S) - LOOK_S) / 2
        self._told = False

        return True

    def hurry(self) -> None:
        """Make the next look due: the kernel has just reported a stopped child."""
        self._told = True

    def stopped(self, found: Groups) -> list[int]:
        """Return the processes among ``found`` that have been stopped for too long."""
        return self._overdue(self._stopped, found.stopped)

    def cut(self, found: Iterable[int]) -> list[Ends]:
        """Return the ends of connections of processes ``found`` that have been cut for too long."""

        if not self.ends:
            return []

        # By ports first, as the kernel can filter these; then by whole ends,
        # since ports are not unique.
        listed = self._connections.unacknowledged({port for _, port in self.ends})
        waiting = {
            inode: ends for inode, ends in listed if not self.ends.isdisjoint(ends)
        }
        # To find the owners of sockets is expensive, so it is done only if there are any.
        ours = sockets(found) if waiting else set()

        return [
            waiting[inode] for inode in self._overdue(self._cut, ours & waiting.keys())
        ]

    def _overdue(self, since: dict[int, float], seen: Iterable[int]) -> list[int]:
        """Note what is seen now, forget the rest, and return those whose time is over, once."""

        now, seen = self._clock(), set(seen)
        # Whoever goes on, or is acknowledged again, begins anew: only a state that lasts is a loss.
        for gone in since.keys() - seen:
            del since[gone]

        over = [
            one
            for one in seen
            if now - since.setdefault(one, now - self._ago_s) >= self.limit_s
        ]
        # Reported: at infinity it is never overdue again, and it stays noted while it lasts.
        since.update(dict.fromkeys(over, math.inf))

        return over
