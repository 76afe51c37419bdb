"""Accesses to windows, beside messages for the same work and beside the libraries' own windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import Effort, Pair, across, own
from impi.tools.bench.timed_jobs import Client, Imp

MANY: Final = 100
"""Short accesses in an epoch, measured besides epochs with one."""
_KINDS: Final = ("fence", "start-complete", "lock-unlock", "flush")
_FORMS: Final = (
    *(f"{kind}/{count}" for count in (1, MANY) for kind in _KINDS),
    "get",
    "fetch",
)
_LARGE: Final = 1 << 24


def rma(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Yield short and long accesses of two ranks, and empty fences of three, with default waits."""

    argv = effort.program("accessing.py", "accesses", iterations=300, skip=0)
    jobs = own(pair, argv, 2, ("tcp",))
    references = tuple(range(len(jobs)))

    # Three rows for each form: its time, and two ratios that the program
    # itself has taken, turn by turn.
    lines = []
    for form in _FORMS:
        lines.append(_line(form, form, "us", references))
        lines.append(_line(f"{form} over naive", f"{form}, in its naive form", "x", ()))
        lines.append(
            _line(f"{form} over round trip", f"{form}, in round trips", "trips", ())
        )

    yield Experiment(
        name="rma",
        vendors="+".join(pair),
        ours=across(pair, argv, None),
        references=tuple(jobs),
        lines=tuple(lines),
    )
    yield _long(pair, effort)
    fences = effort.program("accessing.py", "fence", iterations=1000, skip=0, procs=3)
    three = (*pair, pair[1])
    yield Experiment(
        name="rma",
        vendors="+".join(three),
        ours=Imp(clients=tuple(Client(vendor) for vendor in three), argv=fences),
        lines=(
            _line("empty fence", "empty fence", "us", ()),
            _line(
                "empty fence over Allreduce", "empty fence, in Allreduces", "calls", ()
            ),
        ),
    )


def _long(pair: Pair, effort: Effort) -> Experiment:
    argv = effort.program("accessing.py", "long", "--turns", "2", iterations=2, skip=0)
    stream = effort.raw(
        "bandwidth", "--size", str(_LARGE), "--window", "8", iterations=6, skip=1
    )
    jobs = own(pair, argv, 2, ("tcp",))
    lines = [
        _stream((0,)),
        *([_stream(tuple(range(1, 1 + len(jobs))))] if jobs else []),
    ]

    return Experiment(
        name="rma",
        vendors="+".join(pair),
        ours=across(pair, argv, None),
        references=(stream, *jobs),
        lines=tuple(lines),
    )


def _stream(references: tuple[int, ...]) -> Line:
    line = _line("stream", "8 x Put, and flush", "MB/s", references)
    return replace(
        line,
        better="higher",
        size=_LARGE,
        reference_key="bandwidth" if references == (0,) else "",
    )


def _line(key: str, variant: str, unit: str, references: tuple[int, ...]) -> Line:
    return Line(
        measure="rma",
        key=key,
        unit=unit,
        variant=variant,
        size=0 if key == "stream" or "empty" in key else 8,
        references=references,
    )
