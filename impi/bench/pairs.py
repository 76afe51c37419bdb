"""Messages between two ranks: of two clients, and of one client beside another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from impi.bench.effort import INSIDE, LONG, SPIN_S, Effort, Pair, across, against, calls, listed, own
from impi.bench.experiment import Experiment, Line
from impi.bench.rows import Bound, at_least, at_most
from impi.bench.timed_jobs import Alone, Client, Imp, Raw

_SHORTEST: Final = 8
"""Octets of the plain sockets' reference messages; bounds of short messages refer to these."""
_LATENCY: Final = (_SHORTEST, 1024, LONG, 1 << 20)
_LOCAL: Final = (_SHORTEST, LONG, 1 << 20)
_LARGE: Final = 1 << 24
_STREAM: Final = ("--window", "8")
_FEW: Final = 8192
"""Octets above which the programs send a tenth as often."""
_SHORT: Final = at_most(3, "difference", "us")
_LONG: Final = at_most(1.1)
_UNITS: Final = {"latency": "us", "bandwidth": "MB/s", "bidirectional": "MB/s", "rate": "messages/s"}


def latency(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Both ends spin."""
    sizes = effort.chosen(_LATENCY)
    argv = effort.program("pointtopoint.py", "latency", *listed(sizes), iterations=5000, skip=500)
    raw = effort.raw("latency", "--spinning", iterations=20000, skip=2000)
    bounds = {raw.title: at_most(2) if pair == ("pure", "pure") else None}
    bounds |= {job.title: at_most(1.5) for job in own(pair, argv, 2, ("tcp",)) if pair[0] == pair[1]}
    yield _experiment("latency", pair, argv, sizes, "spinning", {_SHORTEST: raw}, (_SHORTEST, bounds))


def blocked(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Both ends block between messages."""
    argv = effort.program("pointtopoint.py", "latency", iterations=5000, skip=500)
    raw = effort.raw("latency", iterations=10000, skip=1000)
    bound = at_most(1.2) if pair == ("pure", "pure") else None
    yield Experiment(
        name="blocked",
        vendors="+".join(pair),
        ours=across(pair, argv, 0.0),
        references=(raw,),
        lines=(_line("latency", _SHORTEST, "blocked", (0,), bound, "latency"),),
    )


def bandwidth(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure one direction, with octets and with numbers that external32 reverses."""
    sizes = effort.chosen((_LARGE,))
    raws = _streams(effort, sizes)
    for kind, limit in (("byte", 0.9), ("float64", 0.75)):
        options = ("--type", kind, *listed(sizes), *_STREAM)
        argv = effort.program("pointtopoint.py", "bandwidth", *options, iterations=60, skip=10)
        bounds = {raw.title: at_least(limit) for raw in raws.values()}
        yield _experiment("bandwidth", pair, argv, sizes, kind, raws, (_LARGE, bounds))


def bidirectional(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Both ways at once, against sockets one way."""
    sizes = effort.chosen((_LARGE,))
    argv = effort.program("pointtopoint.py", "bidirectional", *listed(sizes), *_STREAM, iterations=60, skip=10)
    yield _experiment("bidirectional", pair, argv, sizes, "byte", _streams(effort, sizes), (_LARGE, {}))


def rate(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Short messages in windows of 64."""
    sizes = effort.chosen((_SHORTEST,))
    argv = effort.program("pointtopoint.py", "rate", *listed(sizes), iterations=500, skip=50)
    raw = effort.raw("rate", "--spinning", iterations=1000, skip=100)
    bounds = (_SHORTEST, {raw.title: at_least(0.7)})
    yield _experiment("rate", pair, argv, sizes, "spinning", {_SHORTEST: raw}, bounds)


def local(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Two procs of one client, on a communicator that spans clients."""
    yield from _local(pair, effort, "local", "spanning communicator", ())


def local_only(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure two procs of one client on their own communicator, and bounded collectives."""
    variant = "local-only communicator"
    yield from _local(pair, effort, "local-only", variant, ("--local", "2"))
    if pair[0] == pair[1] != "pure":
        only = ("--only", ",".join(INSIDE), "--local", "2")
        argv = effort.collectives(*only, iterations=500, skip=50, procs=2)
        yield _beside(pair[0], "local-only", argv, calls(effort, (0,), INSIDE, variant, (_SHORT, _LONG)))


def _local(pair: Pair, effort: Effort, name: str, variant: str, options: tuple[str, ...]) -> Iterator[Experiment]:
    if pair[0] == pair[1] != "pure":
        sizes = effort.chosen(_LOCAL)
        argv = effort.program("pointtopoint.py", "latency", *listed(sizes), *options, iterations=10000, skip=1000)
        bounds = {size: _LONG for size in sizes if size >= LONG} | {_SHORTEST: _SHORT}
        lines = [_line("latency", size, variant, (0,), bounds.get(size)) for size in sizes]
        yield _beside(pair[0], name, argv, lines)


def _beside(vendor: str, name: str, argv: tuple[str, ...], lines: Sequence[Line]) -> Experiment:
    """Two procs that spin, beside a client that sleeps, against the two alone."""
    return Experiment(
        name=name,
        vendors=vendor,
        ours=Imp(clients=(Client(vendor, 2, SPIN_S), Client("pure", 1, 0.0)), argv=argv),
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
    bounds: tuple[int, Mapping[str, Bound | None]],
) -> Experiment:
    """Return experiments of two clients that spin, against sockets and libraries.

    ``raws`` are the socket jobs by size, where they exist; ``bounds`` are those of the one size
    that has any, by the title of their reference.
    """
    jobs = own(pair, argv, 2)
    raws = {size: raw for size, raw in raws.items() if size in sizes}
    bounded, limits = bounds
    lines = []
    for number, (size, raw) in enumerate(raws.items()):
        bound = limits.get(raw.title) if size == bounded else None
        lines.append(_line(measure, size, variant, (number,), bound, raw.argv[0]))
    for references in against(pair, jobs, len(raws)):
        bound = limits.get(jobs[references[0] - len(raws)].title) if references else None
        for size in sizes:
            if references or size not in raws:
                lines.append(_line(measure, size, variant, references, bound if size == bounded else None))
    return Experiment(
        name=measure,
        vendors="+".join(pair),
        ours=across(pair, argv, SPIN_S),
        references=(*raws.values(), *jobs),
        lines=tuple(lines),
    )


def _streams(effort: Effort, sizes: Sequence[int]) -> dict[int, Raw]:
    """Plain sockets one way: no more than a fraction of a second each."""
    return {
        size: effort.raw("bandwidth", "--size", str(size), *_STREAM, iterations=6 if size > _FEW else 60, skip=1)
        for size in sizes
    }


def _line(
    measure: str, size: int, variant: str, references: tuple[int, ...], bound: Bound | None, key: str = ""
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
        bound=bound,
    )
