"""Common settings of experiments: durations of jobs, placement of ranks, references of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from impi.tools.bench.experiment import Line
from impi.tools.bench.timed_jobs import Alone, Client, Imp, Job, Raw

Pair = tuple[str, str]
SPIN_S: Final = 1.0
"""Seconds of spinning that exceed any wait of a measure, so that both ends always spin."""
COLLECTIVES: Final = (
    *(
        "Allgather",
        "Allgatherv",
        "Allreduce",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
        "Barrier",
        "Bcast",
        "Exscan",
    ),
    *(
        "Gather",
        "Gatherv",
        "Reduce",
        "Reduce_scatter",
        "Reduce_scatter_block",
        "Scan",
        "Scatter",
        "Scatterv",
    ),
)
INSIDE: Final = tuple(
    name
    for name in COLLECTIVES
    if name not in {"Alltoallw", "Exscan", "Reduce_scatter_block", "Scan"}
)
"""Collectives inside a client with bounds: they go straight to the client's library."""
LONG: Final = 65536
"""Octets from which a message counts as long."""
_SIZES: Final = (8, LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Durations of jobs, and placement of ranks."""

    quick: bool = False  # a tenth of the iterations
    # A core for each measuring rank, if there are enough; else no rank is pinned
    cores: tuple[int, ...] = ()
    spin_s: float | None = None  # IMPI_SPIN of the usual measures; None: the default
    # Form of messages between two ranks in Python, see programs/pointtopoint.py
    data: str = "array"
    languages: tuple[str, ...] = ("python", "c")  # languages of the programs
    sizes: tuple[int, ...] = ()  # octets of messages, in place of the measures' own

    def program(
        self, *argv: str, iterations: int, skip: int, procs: int = 2
    ) -> tuple[str, ...]:
        """Return the command of a program of ours in which ranks 0 to ``procs`` - 1 measure."""
        pins = (
            ("--pin", ",".join(map(str, self.cores[:procs])))
            if len(self.cores) >= procs
            else ()
        )
        return (*argv, "--json", *self._counts(iterations, skip), *pins)

    def collectives(
        self, *argv: str, iterations: int, skip: int, procs: int
    ) -> tuple[str, ...]:
        """Return the command of the program for collectives, with sizes from :meth:`sizes_of`."""
        return self.program(
            "collective.py",
            *listed(self.chosen(_SIZES)),
            *argv,
            iterations=iterations,
            skip=skip,
            procs=procs,
        )

    def sizes_of(self, collective: str) -> tuple[int, ...]:
        """Return the sizes, in octets for each rank, of a collective; 0 if it moves no data."""
        return self.chosen(_SIZES) if collective != "Barrier" else (0,)

    def chosen(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        """Return the user's sizes, or else a measure's own."""
        return self.sizes or usual

    def raw(self, measure: str, *argv: str, iterations: int, skip: int) -> Raw:
        pins = ("--pin", *map(str, self.cores[:2])) if len(self.cores) >= 2 else ()
        return Raw(argv=(measure, *argv, *self._counts(iterations, skip), *pins))

    def _counts(self, iterations: int, skip: int) -> tuple[str, ...]:
        counts = [
            max(number // 10, 2) if self.quick else number
            for number in (iterations, skip)
        ]
        return "--iterations", str(counts[0]), "--skip", str(counts[1])


def across(
    pair: Pair, argv: tuple[str, ...], spin_s: float | None, procs: int = 1
) -> Imp:
    """Return a job of two clients."""
    return Imp(
        clients=tuple(Client(vendor, procs, spin_s) for vendor in pair), argv=argv
    )


def own(
    pair: Pair,
    argv: tuple[str, ...],
    procs: int,
    transports: Sequence[str] = ("tcp", "shm"),
) -> list[Job]:
    """Return jobs of the pair's libraries alone: one library by each transport, two by one."""
    libraries = sorted({*pair} - {"pure"})
    wanted = transports if pair[0] == pair[1] else transports[:1]

    return [
        Alone(vendor=name, procs=procs, transport=how, argv=argv)
        for how in wanted
        for name in libraries
    ]


def against(pair: Pair, jobs: Sequence[Job], first: int = 0) -> list[tuple[int, ...]]:
    """Return each row's references by number: each job, two libraries' jobs together, or none."""
    numbers = tuple(range(first, first + len(jobs)))
    return (
        [(number,) for number in numbers] if pair[0] == pair[1] and jobs else [numbers]
    )


def listed(sizes: Sequence[int]) -> tuple[str, str]:
    """Return sizes as the value of the programs' option."""
    return "--sizes", ",".join(map(str, sizes))


def calls(
    effort: Effort,
    references: tuple[int, ...],
    names: Sequence[str] = COLLECTIVES,
    variant: str = "",
) -> list[Line]:
    """Return a row for each collective and size."""
    return [
        Line(
            measure=name,
            key=f"{name}/{size}",
            unit="us",
            size=size,
            variant=variant,
            references=references,
            extra={end: f"{name}/{size}/{end}" for end in ("min", "max")},
        )
        for name in names
        for size in effort.sizes_of(name)
    ]
