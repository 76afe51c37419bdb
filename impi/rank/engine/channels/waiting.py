"""How long a wait spins before it blocks: IMPI_SPIN, or adapted to earlier waits."""

from __future__ import annotations

from typing import Final

ASKS: Final = 64
"""Polls of a library call in a row, before everything else has its turn."""
LONGEST_S: Final = 1e-3
"""Many times the cost of a wake-up; shorter than a user notices."""
_CROWDED_S: Final = 20e-6  # If ranks share cores, the awaited rank may need this one
_LEAST_S: Final = 20e-6


class Patience:
    """Seconds that a wait spins before it blocks: :attr:`spin_s`.

    Where ranks share cores, a wait that nothing wakes gives its core away for :attr:`yield_s`
    before its first sleep: the shortest sleep of Linux lasts longer than a hop between two ranks.

    Args:
        asked_s: fixed value; None: at most 1 ms, less after waits in which spinning was in vain.
        crowded: whether ranks of this machine outnumber its cores; used without ``asked_s``.
    """

    __slots__ = ("_most_s", "adapts", "spin_s", "yield_s")

    def __init__(self, asked_s: float | None = None, *, crowded: bool = False) -> None:
        self.adapts = asked_s is None
        self._most_s = _CROWDED_S if crowded else LONGEST_S
        self.spin_s = self._most_s if asked_s is None else asked_s
        self.yield_s = LONGEST_S if crowded and self.adapts else 0.0

    def learn(self, waited_s: float) -> None:
        """Adapt to a wait that blocked for ``waited_s``: would spinning have been better?"""
        if self.adapts:
            long = waited_s > self._most_s
            self.spin_s = max(self.spin_s / 2, _LEAST_S) if long else min(self.spin_s * 2, self._most_s)
