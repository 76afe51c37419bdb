"""Runs fuzz targets: seeded inputs in one process, bounds of time and memory, a report.

An *input* is one whole conversation: some packets or commands, most of them in the right place and
with the right values, some of them broken, cut into random pieces. Input ``n`` of seed ``s`` is
always the same, so a finding is ``--target T --seed S --first N --inputs 1``.
"""

from __future__ import annotations

import faulthandler
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

__all__ = ["Choices", "Crash", "Octets", "Report", "Target", "run", "without_numbers"]

BATCH = 1000
_HANG_S = 60.0
"""A batch takes a fraction of a second; after this time it hangs: print and end all."""
_MEMORY_EVERY = 997
_MEMORY_FIXED = 1 << 20
_MEMORY_PER_OCTET = 64
"""Memory that an input may make a machine keep: a constant, and a share for each octet."""


class Crash(Exception):
    """A finding: an undeclared exception, a broken invariant, memory without bound."""


class Octets:
    """Counts what was fed, so that memory can be compared with it."""

    fed = 0


class Choices(Random):
    """Reads its bits from octets; afterwards it is a generator with that seed."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(len(octets))
        self._octets = octets
        self._at = 0

    def getrandbits(self, k: int, /) -> int:
        nbytes = (k + 7) // 8
        part = self._octets[self._at : self._at + nbytes]
        self._at += nbytes
        return (
            int.from_bytes(part) >> (8 * nbytes - k)
            if len(part) == nbytes
            else super().getrandbits(k)
        )

    def random(self) -> float:
        return self.getrandbits(53) * 2.0**-53


Target = Callable[[Random, Counter[str]], bool]
"""Plays one input, counts states and errors, and returns whether it passed AUTH or a header."""


def without_numbers(sentence: str) -> str:
    """An error's sentence without numbers and octets, to count equal errors together."""
    words = (
        sentence.partition(" [octets")[0]
        .replace(",", "")
        .replace("(", "")
        .replace(")", "")
        .split()
    )
    return " ".join(word for word in words if not any(c.isdigit() for c in word))[:70]


@dataclass
class Report:
    """The result of a run of one target."""

    target: str
    inputs: int = 0
    deep: int = 0
    seconds: float = 0.0
    peak: int = 0
    """Most octets that one of the examined inputs allocated."""
    reached: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterable[str]:
        """For people."""
        rate = self.inputs / self.seconds if self.seconds else 0.0
        share = 100 * self.deep / self.inputs if self.inputs else 0.0
        yield f"{self.target}: {self.inputs} inputs, {share:.1f} % of them deep, {rate:.0f} a second of processor"
        yield f"    {self.peak:>9}  most octets that one of the examined inputs allocated"
        for name, times in sorted(self.reached.items()):
            yield f"    {times:>9}  {name}"


def run(name: str, target: Target, *, seed: int, first: int, inputs: int) -> Report:
    """Play inputs ``first`` to ``first + inputs - 1``.

    Raises:
        Crash: the first finding, with the command that repeats it.
    """
    report = Report(name)
    begin = time.process_time()
    rng = Random()
    number = first
    try:
        for number in range(first, first + inputs):
            if number % BATCH == 0 or number == first:
                faulthandler.dump_traceback_later(_HANG_S, exit=True)
            rng.seed(seed << 40 | number)
            if number % _MEMORY_EVERY == 0:
                report.deep += _measured(target, rng, report)
            else:
                report.deep += target(rng, report.reached)
            report.inputs += 1
    except Exception as error:
        raise Crash(
            f"{name}: input {number} ends with {type(error).__name__}: {error}; "
            f"repeat it: --target {name} --seed {seed} --first {number} --inputs 1"
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    report.seconds = time.process_time() - begin
    return report


def _measured(target: Target, rng: Random, report: Report) -> bool:
    """One input, with an eye on its memory."""
    Octets.fed = 0
    tracemalloc.start()
    try:
        deep = target(rng, report.reached)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    report.peak = max(report.peak, peak)
    if peak > _MEMORY_FIXED + _MEMORY_PER_OCTET * Octets.fed:
        raise Crash(f"{Octets.fed} octets made it allocate {peak}")
    return deep
