"""The time that a wait spins before it blocks: IMPI_SPIN, or adapted to earlier waits.

How it works: a wait that blocked for longer than the longest spin would have spun in vain, so the
next ones spin half as long. A wait that a spin would have caught doubles the time again.

Where ranks outnumber cores, a spin takes the core from the rank that it waits for. A sleep leaves
it, and costs a few us if the waker runs on the same core. But a core whose ranks all sleep halts,
and a wake-up of a halted core costs tens of us, most of all in a virtual machine. So one rank for
each core, a *keeper*, spins, and gives its core away between two looks. The other ranks sleep.
"""

from __future__ import annotations

from collections.abc import Callable
from os import sched_yield
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from impi.protocol.job import Job

ASKS: Final = 64
"""Polls of a library call in a row, before everything else has its turn."""
LONGEST_S: Final = 1e-3
"""Longest spin: many times the cost of a wake-up, and shorter than a user notices."""
_CROWDED_S: Final = 20e-6  # If ranks share cores, the awaited rank may need this one
_LEAST_S: Final = 20e-6
_NOTHING: Final = bool  # a call without a frame, as a spin makes many


class Patience:
    """Seconds that a wait spins before it blocks: :attr:`spin_s`.

    Where ranks share cores, a wait that nothing wakes gives its core away for :attr:`yield_s`
    before its first sleep: the shortest sleep of Linux lasts longer than a hop between two ranks.

    Args:
        asked_s: fixed value; None: at most 1 ms, less after waits in which spinning was in vain.
        crowded: whether ranks of this machine outnumber its cores; used without ``asked_s``.
        keeper: whether this rank keeps a core awake; used where ``crowded`` is.
    """

    __slots__ = ("_most_s", "adapts", "dozes", "pause", "spin_s", "yield_s")

    def __init__(
        self,
        asked_s: float | None = None,
        *,
        crowded: bool = False,
        keeper: bool = False,
    ) -> None:
        self.adapts = asked_s is None
        shares = crowded and self.adapts
        self._most_s = _CROWDED_S if crowded and not keeper else LONGEST_S
        self.spin_s = self._most_s if asked_s is None else asked_s
        self.yield_s = LONGEST_S if shares else 0.0
        self.dozes = shares and not keeper
        """Whether a wait for local messages sleeps at once if a descriptor ends the sleep."""
        self.pause: Callable[[], object] = sched_yield if shares else _NOTHING
        """Called between two looks of a spin: gives the core away where ranks share it."""

    def learn(self, waited_s: float) -> None:
        """Adapt to a wait that blocked for ``waited_s``: would spinning have been better?"""
        if self.adapts:
            long = waited_s > self._most_s
            self.spin_s = (
                max(self.spin_s / 2, _LEAST_S)
                if long
                else min(self.spin_s * 2, self._most_s)
            )


def patience_of(job: Job, rank: int, cores: int, asked_s: float | None) -> Patience:
    """Return the patience of a rank, among the ranks that share its machine's ``cores``."""

    here = [proc for proc in job.procs if proc.ipv6 == job.procs[rank].ipv6]

    # The first rank of a client often waits for other clients, and the rest waits for it. So that
    # one keeps a core awake, as long as there are cores. Two keepers of one core would only take
    # turns.
    firsts = list({proc.client: proc.rank for proc in reversed(here)}.values())
    keepers = sorted(firsts)[:cores]

    return Patience(asked_s, crowded=len(here) > cores, keeper=rank in keepers)
