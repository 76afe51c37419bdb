"""What experiments have in common: how long jobs take, where ranks are, what a pair of vendors is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from impi.bench.experiment import Line
from impi.bench.jobs import Alone, Client, Imp, Job, Raw
from impi.bench.rows import Bound

__all__ = ["COLLECTIVES", "SPIN_S", "Effort", "Pair", "across", "against", "calls", "own", "sizes_of"]

Pair = tuple[str, str]
SPIN_S: Final = 1.0
"""Longer than any wait of a measure: "both spinning"."""
COLLECTIVES: Final = (
    *("Allgather", "Allgatherv", "Allreduce", "Alltoall", "Alltoallv", "Barrier", "Bcast", "Gather", "Gatherv"),
    *("Reduce", "Reduce_scatter", "Scatter", "Scatterv"),
)
_SIZES: Final = (8, 65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long jobs take, and where their ranks are."""

    quick: bool = False
    """A tenth of the iterations."""
    cores: tuple[int, ...] = ()
    """One for each rank that measures, where all of them get one of their own; else nothing is pinned."""

    def program(self, *argv: str, iterations: int, skip: int, procs: int = 2) -> tuple[str, ...]:
        """A program of ours, where ranks 0 to ``procs`` - 1 measure."""
        pins = ("--pin", ",".join(map(str, self.cores[:procs]))) if len(self.cores) >= procs else ()
        return (*argv, "--json", *self._counts(iterations, skip), *pins)

    def raw(self, measure: str, *argv: str, iterations: int, skip: int) -> Raw:
        """Plain sockets."""
        pins = ("--pin", *map(str, self.cores[:2])) if len(self.cores) >= 2 else ()
        return Raw(argv=(measure, *argv, *self._counts(iterations, skip), *pins))

    def _counts(self, iterations: int, skip: int) -> tuple[str, ...]:
        counts = [max(number // 10, 2) if self.quick else number for number in (iterations, skip)]
        return "--iterations", str(counts[0]), "--skip", str(counts[1])


def across(pair: Pair, argv: tuple[str, ...], spin_s: float | None, procs: int = 1) -> Imp:
    """A job of two clients."""
    return Imp(clients=tuple(Client(vendor, procs, spin_s) for vendor in pair), argv=argv)


def own(pair: Pair, argv: tuple[str, ...], procs: int, transports: Sequence[str] = ("tcp", "shm")) -> list[Job]:
    """Jobs of the pair's libraries alone: of one library by each transport, of two each by the first transport."""
    libraries = sorted({*pair} - {"pure"})
    wanted = transports if pair[0] == pair[1] else transports[:1]
    return [Alone(vendor=name, procs=procs, transport=how, argv=argv) for how in wanted for name in libraries]


def against(pair: Pair, jobs: Sequence[Job], first: int = 0) -> list[tuple[int, ...]]:
    """The references of each row, by number from ``first``: each job alone; two libraries' jobs together; or none."""
    numbers = tuple(range(first, first + len(jobs)))
    return [(number,) for number in numbers] if pair[0] == pair[1] and jobs else [numbers]


def sizes_of(collective: str) -> tuple[int, ...]:
    """The octets of each rank with which it is measured; 0 where nothing is moved."""
    return _SIZES if collective != "Barrier" else (0,)


def calls(references: tuple[int, ...], variant: str = "", bounds: Sequence[Bound | None] = (None, None)) -> list[Line]:
    """A row for each collective and size; ``bounds`` of short and of long ones."""
    lines = []
    for name in COLLECTIVES:
        for size in sizes_of(name):
            key = f"{name}/{size}"
            line = Line(
                measure=name,
                key=key,
                unit="us",
                size=size,
                variant=variant,
                references=references,
                bound=bounds[0 if size < _SIZES[1] else 1],
                extra={"min": f"{key}/min", "max": f"{key}/max"},
            )
            lines.append(line)
    return lines
