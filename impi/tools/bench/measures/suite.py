"""The experiments by name, with the bounds of :mod:`impi.tools.bench.measures.limits`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Final

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures import data, pairs
from impi.tools.bench.measures.effort import (
    COLLECTIVES,
    Effort,
    Pair,
    across,
    against,
    calls,
    own,
)
from impi.tools.bench.measures.limits import limited
from impi.tools.bench.measures.osu import osu
from impi.tools.bench.measures.rma import rma
from impi.tools.bench.measures.usual import USUAL, startup, usual
from impi.tools.bench.timed_jobs import Client, Imp


def experiments(
    names: Sequence[str], vendors: Sequence[str], effort: Effort
) -> Iterator[Experiment]:
    """Yield the experiments of these names, in catalogue order, for every pair of these vendors."""
    yield from map(limited, _chosen(names, vendors, effort))


def _chosen(
    names: Sequence[str], vendors: Sequence[str], effort: Effort
) -> Iterator[Experiment]:
    yield from usual(names, vendors, effort)
    for name, whole in _OF_ALL.items():
        if name in names:
            yield from whole(vendors, effort)

    for name, make in _CORNERS.items():
        if name in names:
            for pair in combinations_with_replacement(vendors, 2):
                yield from make(pair, effort)


def _all_calls(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    argv = effort.collectives(iterations=100, skip=10, procs=4)
    jobs = own(pair, argv, 4)
    yield Experiment(
        name="all-collectives",
        vendors="+".join(pair),
        ours=across(pair, argv, None, 2),
        references=tuple(jobs),
        lines=tuple(
            line
            for references in against(pair, jobs)
            for line in calls(effort, references, variant="all, 2+2")
        ),
    )


def _overlap(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure overlap with one proc a client, because each computation needs a core."""

    argv = effort.collectives("--overlap", iterations=50, skip=5, procs=2)
    jobs = own(pair, argv, 2)
    lines = tuple(
        Line(
            measure=f"I{name.lower()}",
            key=f"I{name.lower()}/{size}/overlap",
            unit="%",
            better="higher",
            size=size,
            variant="overlap",
            references=references,
        )
        for references in against(pair, jobs)
        for name in COLLECTIVES
        for size in effort.sizes_of(name)
    )
    yield Experiment(
        name="overlap",
        vendors="+".join(pair),
        ours=across(pair, argv, None),
        references=tuple(jobs),
        lines=lines,
    )


def _memory(pair: Pair, _: Effort) -> Iterator[Experiment]:
    argv = ("resources.py", "memory", "--json")
    jobs = own(pair, argv, 2, ("shm",))
    numbers = tuple(range(len(jobs)))
    lines = [
        Line(
            measure="memory",
            key=key,
            unit="MiB",
            variant=key.upper(),
            references=numbers,
        )
        for key in ("rss", "pss")
    ]
    ours = across(pair, argv, None)
    yield Experiment(
        name="memory",
        vendors="+".join(pair),
        ours=ours,
        references=tuple(jobs),
        lines=tuple(lines),
    )


def _idle(vendors: Sequence[str], effort: Effort) -> Iterator[Experiment]:
    """Measure a waiting job of all vendors: all its processes together, and its last rank."""

    argv = (
        "resources.py",
        "idle",
        "--json",
        "--seconds",
        "1" if effort.quick else "10",
    )
    lines = (
        Line(
            measure="idle", key="job", unit="%", variant="whole job, 2 procs a client"
        ),
        Line(measure="idle", key="idle", unit="%", variant="CPU in Recv"),
        Line(measure="idle", key="wakeup", unit="us", variant="wake-up"),
    )
    job = Imp(clients=tuple(Client(vendor, 2) for vendor in vendors), argv=argv)
    yield Experiment(name="idle", vendors="+".join(vendors), ours=job, lines=lines)


_OF_ALL: Final[dict[str, Callable[[Sequence[str], Effort], Iterator[Experiment]]]] = {
    "startup": startup,
    "idle": _idle,
    "osu": osu,
}
"""Functions by measure; each makes the experiments of all vendors together."""
_CORNERS: Final[dict[str, Callable[[Pair, Effort], Iterator[Experiment]]]] = {
    "blocked": pairs.blocked,
    "bandwidth": pairs.bandwidth,
    "bidirectional": pairs.bidirectional,
    "native": data.native,
    "derived": data.derived,
    "local": pairs.local,
    "local-only": pairs.local_only,
    "memory": _memory,
    "all-collectives": _all_calls,
    "overlap": _overlap,
    "rma": rma,
}
"""Functions by measure; each makes the experiments of one pair of vendors."""
MEASURES: Final = (*USUAL, "osu", *_CORNERS)
"""The names of all measures."""
SIZED: Final = tuple(
    name
    for name in MEASURES
    if name not in {"osu", "blocked", "derived", "startup", "memory", "idle", "rma"}
)
"""Measures with messages of any size."""
OF_NUMBERS: Final = tuple(name for name in SIZED if name != "bidirectional")
"""Measures with float64: their sizes are multiples of 8."""
