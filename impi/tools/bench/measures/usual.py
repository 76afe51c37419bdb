"""The usual case: numpy arrays, and the default waits and places of ranks.

One job measures messages, their rate and collectives, because starting a job takes longer than all
of these. In each round all pairs of vendors run once, and beside them the same program over MPICH's
and Open MPI's own TCP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Final

from impi.base.manifests import backed
from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import Effort, Pair, across, own
from impi.tools.bench.timed_jobs import STARTED, Alone, Imp, Job, Raw

USUAL: Final = ("latency", "rate", "collectives", "startup", "idle")
"""The measures of ``impi bench`` without a name."""
IN_ONE_JOB: Final = USUAL[:3]
CALLS: Final = ("Barrier", "Allreduce", "Bcast", "Allgather", "Alltoall")
_SIZES: Final = {
    "latency": (8, 16 << 10, 64 << 10, 1 << 20),
    "rate": (8,),
    "collectives": (8, 1024, 64 << 10, 1 << 20),
}
_SHORTEST: Final = 8  # octets of the plain sockets' messages
_ITERATIONS: Final = {1: 500, 2: 80}  # by the procs of a client
_PROGRAMS: Final = {"python": ("Python", "usual.py"), "c": ("C", "usual.c")}
LANGUAGES: Final = tuple(_PROGRAMS)
"""The languages of the measuring programs."""
_REFERENCE: Final = "mpich"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The jobs of one language and one number of procs a client."""

    procs: int  # procs of each of the two clients
    language: str
    argv: tuple[str, ...]
    sizes: dict[str, tuple[int, ...]]  # by measure
    effort: Effort

    @property
    def variant(self) -> str:
        """The rows' variant: language, procs of the clients, and what is tuned."""

        words = [_PROGRAMS[self.language][0], f"{self.procs}+{self.procs}"]
        if self.language == "python" and self.effort.data != "array":
            words.append(self.effort.data)

        if self.effort.spin_s is not None:
            words.append(f"spinning {self.effort.spin_s:g} s")

        if "--pin" in self.argv:
            words.append("pinned")

        return ", ".join(words)

    def ours(self, pair: Pair) -> Imp:
        return across(pair, self.argv, self.effort.spin_s, self.procs)

    def lines(self, references: tuple[int, ...]) -> Iterator[Line]:
        """Return a row for each result, compared with one of the references."""

        make = self._line
        for size in self.sizes.get("latency", ()):
            yield make("latency", size, references)

        for size in self.sizes.get("rate", ()):
            yield replace(
                make("rate", size, references), unit="messages/s", better="higher"
            )

        if "collectives" in self.sizes:
            yield make("Barrier", 0, references)
            yield from (
                make(name, size, references)
                for name in CALLS[1:]
                for size in self.sizes["collectives"]
            )

    def _line(self, measure: str, size: int, references: tuple[int, ...]) -> Line:
        return Line(
            measure=measure,
            key=f"{measure}/{size}",
            unit="us",
            size=size,
            variant=self.variant,
            references=references,
        )


def usual(
    names: Sequence[str], vendors: Sequence[str], effort: Effort
) -> Iterator[Experiment]:
    """Yield the experiments for those measures of :data:`IN_ONE_JOB` that are in ``names``."""
    for procs in (1, 2):
        # Messages need two ranks only.
        wanted = [
            name
            for name in IN_ONE_JOB
            if name in names and (procs == 1 or name == "collectives")
        ]
        if not wanted:
            continue

        layouts = [
            _layout(language, procs, wanted, effort)
            for language in _PROGRAMS
            if language in effort.languages
        ]
        for pair in combinations_with_replacement(vendors, 2):
            for layout in layouts:
                yield _experiment(layout, layouts[0], pair, vendors)


def startup(vendors: Sequence[str], _: Effort) -> Iterator[Experiment]:
    """Measure a job from its first process to the end of its last; one command starts each job."""
    argv = ("resources.py", "startup", "--json")
    for pair in combinations_with_replacement(vendors, 2):
        # A pair without any library stands beside MPICH.
        libraries = own(pair, argv, 4, ("shm",)) or own(
            (_REFERENCE,) * 2, argv, 4, ("shm",)
        )
        references = tuple(
            job for job in libraries if isinstance(job, Alone) and job.vendor in vendors
        )
        line = Line(
            measure="startup",
            key=STARTED,
            unit="s",
            variant="2 x 2 procs",
            references=tuple(range(len(references))),
        )
        ours = replace(across(pair, argv, None, 2), appfile=True)
        yield Experiment(
            name="startup",
            vendors="+".join(pair),
            ours=ours,
            references=references,
            lines=(line,),
            beside="startup",
        )


def _layout(
    language: str, procs: int, wanted: Sequence[str], effort: Effort
) -> _Layout:
    sizes = {name: effort.chosen(_SIZES[name]) for name in wanted}

    options = [
        word
        for name, of in sizes.items()
        for word in (f"--{name}", ",".join(map(str, of)))
    ]
    if language == "python" and effort.data != "array":
        options += ["--data", effort.data]

    count = _ITERATIONS[procs]
    argv = effort.program(
        _PROGRAMS[language][1],
        *options,
        iterations=count,
        skip=count // 10,
        procs=2 * procs,
    )

    return _Layout(
        procs=procs, language=language, argv=argv, sizes=sizes, effort=effort
    )


def _experiment(
    layout: _Layout, first: _Layout, pair: Pair, vendors: Sequence[str]
) -> Experiment:
    """Return a pair's experiment, beside libraries alone, sockets, and the program in Python."""

    jobs: list[Job] = []
    lines: list[Line] = []

    def held(
        job: Job, wanted: Callable[[Line], bool] = lambda _: True, key: str = ""
    ) -> None:
        jobs.append(job)
        found = (line for line in layout.lines((len(jobs) - 1,)) if wanted(line))
        lines.extend(replace(line, reference_key=key) for line in found)

    for vendor in vendors:
        # Every pair is compared with MPICH, and only Open MPI's own pair with Open MPI.
        if backed(vendor).has_library and (
            vendor == _REFERENCE or pair == (vendor, vendor)
        ):
            held(
                Alone(
                    vendor=vendor,
                    procs=2 * layout.procs,
                    transport="tcp",
                    argv=layout.argv,
                )
            )

    # Plain sockets have one length of messages.
    for measure, iterations in (("latency", 5000), ("rate", 300)):
        if _SHORTEST in layout.sizes.get(measure, ()):
            raw: Raw = layout.effort.raw(
                measure, "--spinning", iterations=iterations, skip=iterations // 10
            )
            held(
                raw,
                lambda line, of=measure: (line.measure, line.size) == (of, _SHORTEST),  # type: ignore[misc]
                measure,
            )

    # The program in C stands beside the same one in Python, too.
    if layout is not first:
        held(first.ours(pair))

    # Where no reference is installed, the values themselves are still of use.
    if not lines:
        lines = list(layout.lines(()))

    return Experiment(
        name=next(iter(layout.sizes)),
        vendors="+".join(pair),
        ours=layout.ours(pair),
        references=tuple(jobs),
        lines=tuple(lines),
        beside=f"{layout.procs}+{layout.procs}",
    )
