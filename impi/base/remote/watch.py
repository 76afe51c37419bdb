"""What a starter sees of the processes below it from outside: which are stopped, which cut off.

A rank may compute for an hour without a call of MPI, so its silence says nothing. Its state in
/proc does: T after SIGSTOP. And the kernel knows of each TCP connection how often it has repeated
octets, or probes of keepalive, that nobody has acknowledged
(:mod:`impi.base.remote.unacknowledged`). The kernel of a live machine acknowledges for a process
that is busy or stopped, too, so only a cut link or a dead machine makes these counters stay above
0.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from impi.base.remote.processes import Family, Groups
from impi.base.remote.starter_lines import End
from impi.base.remote.unacknowledged import Ends, sockets, unacknowledged

LOOK_S = 0.5
QUIET_S = 1.0
"""Seconds between two looks while a job runs and nothing may be lost."""


class Watch:
    """Looks at processes and connections, and tells each that has been lost for too long, once.

    Args:
        limit_s: seconds that it may be so.
        clock: in seconds.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_s
        self.family = Family()
        self.ends: set[End] = set()  # where hosts of the job listen: only connections from or to there are looked at
        self._clock = clock
        self._last = clock() - QUIET_S
        self._told = False
        self._ago_s = 0.0  # how long ago what this look finds has been so
        # When each was first seen: stopped processes; connections, by inode, without an answer.
        self._stopped: dict[int, float] = {}
        self._cut: dict[int, float] = {}

    @property
    def left_s(self) -> float:
        """Seconds until the next look; not above 0: it is due."""
        if self._told:
            return 0.0
        since = [*self._stopped.values(), *self._cut.values()]
        if self.ends and not since:
            return self._last + QUIET_S - self._clock()
        # No later than what may be lost is.
        return min(self._last + LOOK_S, self.limit_s + min(since, default=math.inf)) - self._clock()

    def due(self) -> bool:
        if self.left_s > 0:
            return False
        gap, self._last = self._clock() - self._last, self._clock()
        # Half of what a longer time between two looks hides: it is told no later on average.
        self._ago_s = 0.0 if self._told else max(0.0, min(gap, QUIET_S) - LOOK_S) / 2
        self._told = False
        return True

    def hurry(self) -> None:
        """Look at once: a process has been stopped now."""
        self._told = True

    def stopped(self, found: Groups) -> list[int]:
        return self._overdue(self._stopped, found.stopped)

    def cut(self, found: Iterable[int]) -> list[Ends]:
        """Return the ends of connections of processes ``found`` that have been cut for too long."""
        if not self.ends:
            return []
        listed = unacknowledged({port for _, port in self.ends})
        waiting = {inode: ends for inode, ends in listed if not self.ends.isdisjoint(ends)}
        # Sockets of which process: only if there is a reason to ask.
        ours = sockets(found) if waiting else set()
        return [waiting[inode] for inode in self._overdue(self._cut, ours & waiting.keys())]

    def _overdue(self, since: dict[int, float], seen: Iterable[int]) -> list[int]:
        """Keep account of what is seen now; return those for which the time is over."""
        now, seen = self._clock(), set(seen)
        for gone in since.keys() - seen:
            del since[gone]
        over = [one for one in seen if now - since.setdefault(one, now - self._ago_s) >= self.limit_s]
        since.update(dict.fromkeys(over, math.inf))
        return over
