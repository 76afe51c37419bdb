"""Time limits that stretch with the load of the machine: a busy machine is slow, not broken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

MOST_STRETCH: Final = 12.0
"""Most that a limit stretches, so that a job which makes no progress still ends."""


def runnable() -> int:
    """Return the number of threads on this machine that run or wait for a processor."""
    try:
        with open("/proc/loadavg") as file:  # noqa: PTH123  (asked fifty times a second)
            # The fourth field is RUNNABLE/ALL: threads at this moment, not an average over minutes.
            return int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


def crowding(own: int, others: int, cores: int) -> float:
    """Return the factor by which ``own`` procs take longer if ``others`` need processors, too."""
    # Alone the procs would share the cores among themselves; with others they get a share of that.
    return min(MOST_STRETCH, max(1.0, (own + others) / max(own, cores)))


class Patience:
    """A time limit that counts as if the job were alone on the machine.

    Args:
        seconds: the limit.
        procs: number of procs of the job.
        clock, threads, cores: replace the machine's, for tests.
    """

    def __init__(
        self,
        seconds: float,
        procs: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        threads: Callable[[], int] = runnable,
        cores: int | None = None,
    ) -> None:
        self.left = seconds
        self._procs, self._clock, self._threads = procs, clock, threads
        self._cores = cores or len(os.sched_getaffinity(0))
        self._since = self._last = clock()

    @property
    def waited(self) -> float:
        """Seconds of the clock since it began, or was renewed."""
        return self._clock() - self._since

    def ended(self) -> bool:
        """Return whether the time is over. Ask often: each call counts with the present load."""

        now = self._clock()
        # The job's own threads do not excuse the job.
        others = max(0, self._threads() - self._procs)
        self.left -= (now - self._last) / crowding(self._procs, others, self._cores)
        self._last = now

        return self.left < 0

    def renew(self, seconds: float) -> None:
        self.left, self._since = seconds, self._clock()

    def hurry(self, seconds: float) -> None:
        self.left = min(self.left, seconds)
