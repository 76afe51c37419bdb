"""Time limits that stretch with the load of the machine: crowded is slow, not red."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

MOST_STRETCH: Final = 12.0
"""However crowded: a machine that never gets anywhere must be told from one that is busy."""


def runnable() -> int:
    """Return how many threads of this machine run or want to."""
    try:
        with open("/proc/loadavg") as file:  # noqa: PTH123  (asked fifty times a second)
            return int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


def crowding(own: int, others: int, cores: int) -> float:
    """Return how many times longer ``own`` procs take if ``others`` want the processors, too."""
    return min(MOST_STRETCH, max(1.0, (own + others) / max(own, cores)))


class Patience:
    """Seconds that a job of ``procs`` may take, counted as if it were alone on the machine."""

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
        self._last = clock()

    def ended(self) -> bool:
        """Whether the time is over. Ask often: the load is that of the moment."""
        now = self._clock()
        others = max(0, self._threads() - self._procs)
        self.left -= (now - self._last) / crowding(self._procs, others, self._cores)
        self._last = now
        return self.left < 0

    def renew(self, seconds: float) -> None:
        self.left = seconds

    def hurry(self, seconds: float) -> None:
        self.left = min(self.left, seconds)
