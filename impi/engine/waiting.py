"""How long a wait spins before it blocks: IMPI_SPIN, or what waits have taught."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from impi.errors import UsageError

__all__ = ["ASKS", "LONGEST_S", "VARIABLE", "Patience", "spin_asked"]

VARIABLE: Final = "IMPI_SPIN"

ASKS: Final = 64
"""How often a library is asked for the end of one of its calls, without a pause, before all else has its turn."""
LONGEST_S: Final = 1e-3
"""Many times what it costs to be woken up; shorter than anybody notices."""
_CROWDED_S: Final = 20e-6
"""Where ranks share cores: who is waited for may need this one."""
_LEAST_S: Final = 20e-6


class Patience:
    """Seconds that a wait spins before it blocks: :attr:`spin_s`.

    Args:
        asked_s: so long, always; None: at most a millisecond, less after waits that spinning was in vain for.
        crowded: whether ranks of this machine outnumber its cores; only without ``asked_s``.
    """

    __slots__ = ("_most_s", "adapts", "spin_s")

    def __init__(self, asked_s: float | None = None, *, crowded: bool = False) -> None:
        self.adapts = asked_s is None
        self._most_s = _CROWDED_S if crowded else LONGEST_S
        self.spin_s = self._most_s if asked_s is None else asked_s

    def learn(self, waited_s: float) -> None:
        """A wait that had to block has taken so long: would spinning have been better?"""
        if self.adapts:
            long = waited_s > self._most_s
            self.spin_s = max(self.spin_s / 2, _LEAST_S) if long else min(self.spin_s * 2, self._most_s)


def spin_asked(environ: Mapping[str, str]) -> float | None:
    """What IMPI_SPIN says, in seconds; None where it is not set.

    Raises:
        UsageError: it is no number of seconds from 0.
    """
    text = environ.get(VARIABLE) or ""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (isfinite(seconds) and seconds >= 0):
        raise UsageError(f"{VARIABLE} is the seconds that a wait spins before it blocks, from 0, not {text!r}")
    return seconds
