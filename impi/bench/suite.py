"""The experiments by name, with their bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Final

from impi.bench import data, pairs
from impi.bench.effort import COLLECTIVES, Effort, Pair, across, against, calls, own
from impi.bench.experiment import Experiment, Line
from impi.bench.rma import rma
from impi.bench.rows import at_most
from impi.bench.timed_jobs import STARTED


def experiments(names: Sequence[str], vendors: Sequence[str], effort: Effort) -> Iterator[Experiment]:
    """Yield the experiments of these names, in catalogue order, for every pair of these vendors."""
    for name, make in MEASURES.items():
        if name in names:
            for pair in combinations_with_replacement(vendors, 2):
                yield from make(pair, effort)


def _collectives(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure two procs a client."""
    argv = effort.collectives(iterations=100, skip=10, procs=4)
    jobs = own(pair, argv, 4)
    yield Experiment(
        name="collectives",
        vendors="+".join(pair),
        ours=across(pair, argv, None, 2),
        references=tuple(jobs),
        lines=tuple(line for references in against(pair, jobs) for line in calls(effort, references)),
    )


def _overlap(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure one proc a client: a computation needs a core."""
    argv = effort.collectives("--overlap", iterations=50, skip=5, procs=2)
    jobs = own(pair, argv, 2)
    lines = []
    for references in against(pair, jobs):
        for name in COLLECTIVES:
            for size in effort.sizes_of(name):
                line = Line(
                    measure=f"I{name.lower()}",
                    key=f"I{name.lower()}/{size}/overlap",
                    unit="%",
                    better="higher",
                    size=size,
                    variant="overlap",
                    references=references,
                )
                lines.append(line)
    yield Experiment(
        name="overlap",
        vendors="+".join(pair),
        ours=across(pair, argv, None),
        references=tuple(jobs),
        lines=tuple(lines),
    )


def _startup(pair: Pair, _: Effort) -> Iterator[Experiment]:
    """From the first process of a job to the end of its last; one command starts either job."""
    argv = ("resources.py", "startup", "--json")
    jobs = own(pair, argv, 4, ("shm",))
    line = Line(
        measure="startup",
        key=STARTED,
        unit="s",
        variant="2 x 2 procs",
        references=tuple(range(len(jobs))),
        bound=at_most(1.5) if jobs else None,
    )
    ours = replace(across(pair, argv, None, 2), appfile=True)
    yield Experiment(name="startup", vendors="+".join(pair), ours=ours, references=tuple(jobs), lines=(line,))


def _memory(pair: Pair, _: Effort) -> Iterator[Experiment]:
    argv = ("resources.py", "memory", "--json")
    jobs = own(pair, argv, 2, ("shm",))
    numbers = tuple(range(len(jobs)))
    lines = [
        Line(measure="memory", key=key, unit="MiB", variant=key.upper(), references=numbers) for key in ("rss", "pss")
    ]
    ours = across(pair, argv, None)
    yield Experiment(name="memory", vendors="+".join(pair), ours=ours, references=tuple(jobs), lines=tuple(lines))


def _idle(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """The rank of the second client waits."""
    argv = ("resources.py", "idle", "--json", "--seconds", "1" if effort.quick else "10")
    bound = at_most(5, "value", "%")
    lines = (
        Line(measure="idle", key="idle", unit="%", variant="CPU in Recv", bound=bound),
        Line(measure="idle", key="wakeup", unit="us", variant="wake-up"),
    )
    yield Experiment(name="idle", vendors="+".join(pair), ours=across(pair, argv, None), lines=lines)


MEASURES: Final[dict[str, Callable[[Pair, Effort], Iterator[Experiment]]]] = {
    "latency": pairs.latency,
    "blocked": pairs.blocked,
    "bandwidth": pairs.bandwidth,
    "rate": pairs.rate,
    "bidirectional": pairs.bidirectional,
    "native": data.native,
    "derived": data.derived,
    "local": pairs.local,
    "local-only": pairs.local_only,
    "startup": _startup,
    "memory": _memory,
    "idle": _idle,
    "collectives": _collectives,
    "overlap": _overlap,
    "rma": rma,
}
"""By the names that users select; each makes the experiments of one pair of vendors."""
SIZED: Final = tuple(
    name for name in MEASURES if name not in {"blocked", "derived", "startup", "memory", "idle", "rma"}
)
"""Measures with messages of any size."""
OF_NUMBERS: Final = ("bandwidth", "native", "local-only", "collectives", "overlap")
"""Measures that include float64: sizes are multiples of 8."""
