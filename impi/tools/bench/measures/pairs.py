"""Messages between two ranks: of two clients, and of one client that has another one beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import (
    INSIDE,
    LONG,
    SPIN_S,
    Effort,
    Pair,
    across,
    against,
    calls,
    listed,
    own,
)
from impi.tools.bench.timed_jobs import Alone, Client, Imp, Raw

_SHORTEST: Final = 8  # octets of a message of the reference over plain sockets
_LOCAL: Final = (_SHORTEST, LONG, 1 << 20)
_LARGE: Final = 1 << 24
_STREAM: Final = ("--window", "8")
_FEW: Final = 8192  # octets above which the programs send a tenth as often
_UNITS: Final = {"latency": "us", "bandwidth": "MB/s", "bidirectional": "MB/s"}


def blocked(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure messages between two ends that block."""
    argv = effort.program(
        "pointtopoint.py", "latency", "--data", "bytearray", iterations=5000, skip=500
    )
    raw = effort.raw("latency", iterations=10000, skip=1000)
    yield Experiment(
        name="blocked",
        vendors="+".join(pair),
        ours=across(pair, argv, 0.0),
        references=(raw,),
        lines=(_line("latency", _SHORTEST, "blocked", (0,), "latency"),),
    )


def bandwidth(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure one direction, with octets and with numbers that external32 reverses."""
    sizes = effort.chosen((_LARGE,))

    raws = _streams(effort, sizes)
    for kind in ("byte", "float64"):
        options = ("--data", kind, *listed(sizes), *_STREAM)
        argv = effort.program(
            "pointtopoint.py", "bandwidth", *options, iterations=60, skip=10
        )
        yield _experiment("bandwidth", pair, argv, sizes, kind, raws)


def bidirectional(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure both directions at once, against sockets in one direction."""

    sizes = effort.chosen((_LARGE,))
    options = ("--data", "byte", *listed(sizes), *_STREAM)
    argv = effort.program(
        "pointtopoint.py", "bidirectional", *options, iterations=60, skip=10
    )
    yield _experiment(
        "bidirectional", pair, argv, sizes, "byte", _streams(effort, sizes)
    )


def local(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure two procs of one client, on a communicator that spans clients."""
    yield from _local(pair, effort, "local", "spanning communicator", ())


def local_only(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure two procs of one client on their own communicator, and bounded collectives."""
    variant = "local-only communicator"

    yield from _local(pair, effort, "local-only", variant, ("--local", "2"))
    if pair[0] == pair[1] != "pure":
        only = ("--only", ",".join(INSIDE), "--local", "2")
        argv = effort.collectives(*only, iterations=500, skip=50, procs=2)
        yield _beside(pair[0], "local-only", argv, calls(effort, (0,), INSIDE, variant))


def _local(
    pair: Pair, effort: Effort, name: str, variant: str, options: tuple[str, ...]
) -> Iterator[Experiment]:
    if pair[0] == pair[1] != "pure":
        sizes = effort.chosen(_LOCAL)
        argv = effort.program(
            "pointtopoint.py",
            "latency",
            *listed(sizes),
            *options,
            iterations=10000,
            skip=1000,
        )
        lines = [_line("latency", size, variant, (0,)) for size in sizes]
        yield _beside(pair[0], name, argv, lines)


def _beside(
    vendor: str, name: str, argv: tuple[str, ...], lines: Sequence[Line]
) -> Experiment:
    """Return the experiment of two spinning procs beside a sleeping client, and of two alone."""
    return Experiment(
        name=name,
        vendors=vendor,
        ours=Imp(
            clients=(Client(vendor, 2, SPIN_S), Client("pure", 1, 0.0)), argv=argv
        ),
        references=(Alone(vendor=vendor, procs=2, transport="shm", argv=argv),),
        lines=tuple(lines),
    )


def _experiment(
    measure: str,
    pair: Pair,
    argv: tuple[str, ...],
    sizes: Sequence[int],
    variant: str,
    raws: Mapping[int, Raw],
) -> Experiment:
    """Return experiments of two spinning clients, against sockets and libraries.

    Args:
        raws: jobs of plain sockets, by size; not every size has one.
    """

    jobs = own(pair, argv, 2)
    raws = {size: raw for size, raw in raws.items() if size in sizes}

    lines = [
        _line(measure, size, variant, (number,), raw.argv[0])
        for number, (size, raw) in enumerate(raws.items())
    ]
    for references in against(pair, jobs, len(raws)):
        # A size that has a row beside sockets needs none without a reference.
        lines += [
            _line(measure, size, variant, references)
            for size in sizes
            if references or size not in raws
        ]

    return Experiment(
        name=measure,
        vendors="+".join(pair),
        ours=across(pair, argv, SPIN_S),
        references=(*raws.values(), *jobs),
        lines=tuple(lines),
    )


def _streams(effort: Effort, sizes: Sequence[int]) -> dict[int, Raw]:
    """Return jobs of plain sockets in one direction, each for a fraction of a second at most."""
    return {
        size: effort.raw(
            "bandwidth",
            "--size",
            str(size),
            *_STREAM,
            iterations=6 if size > _FEW else 60,
            skip=1,
        )
        for size in sizes
    }


def _line(
    measure: str, size: int, variant: str, references: tuple[int, ...], key: str = ""
) -> Line:
    unit = _UNITS[measure]
    return Line(
        measure=measure,
        key=f"{measure}/{size}",
        unit=unit,
        better="lower" if unit == "us" else "higher",
        size=size,
        variant=variant,
        references=references,
        reference_key=key,
    )
