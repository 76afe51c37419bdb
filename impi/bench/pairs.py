"""Messages between two ranks: of two clients, and of one client beside another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from impi.bench.effort import SPIN_S, Effort, Pair, across, against, calls, own
from impi.bench.experiment import Experiment, Line
from impi.bench.jobs import Alone, Client, Imp, Raw
from impi.bench.rows import Bound, at_least, at_most

__all__ = ["bandwidth", "bidirectional", "blocked", "latency", "local", "local_only", "rate"]

_LATENCY: Final = (8, 1024, 65536, 1 << 20)
_LOCAL: Final = (8, 65536, 1 << 20)
_LARGE: Final = 1 << 24
_STREAM: Final = ("--window", "8")
_SHORT: Final = at_most(3, "difference", "us")
_LONG: Final = at_most(1.1)
_UNITS: Final = {"latency": "us", "bandwidth": "MB/s", "bidirectional": "MB/s", "rate": "messages/s"}


def latency(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Both ends spin."""
    argv = effort.program("pointtopoint.py", "latency", *_sizes(_LATENCY), iterations=5000, skip=500)
    raw = effort.raw("latency", "--spinning", iterations=20000, skip=2000)
    bounds = {raw.title: at_most(2) if pair == ("pure", "pure") else None}
    bounds |= {job.title: at_most(1.5) for job in own(pair, argv, 2, ("tcp",)) if pair[0] == pair[1]}
    yield _experiment("latency", pair, argv, raw, _LATENCY, "spinning", bounds)


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
        lines=(_line("latency", 8, "blocked", (0,), bound, "latency"),),
    )


def bandwidth(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """One way, as octets and as numbers that external32 turns round."""
    raw = effort.raw("bandwidth", "--size", str(_LARGE), *_STREAM, iterations=6, skip=1)
    for kind, limit in (("byte", 0.9), ("float64", 0.75)):
        options = ("--type", kind, *_sizes((_LARGE,)), *_STREAM)
        argv = effort.program("pointtopoint.py", "bandwidth", *options, iterations=60, skip=10)
        yield _experiment("bandwidth", pair, argv, raw, (_LARGE,), kind, {raw.title: at_least(limit)})


def bidirectional(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Both ways at once, against sockets one way."""
    raw = effort.raw("bandwidth", "--size", str(_LARGE), *_STREAM, iterations=6, skip=1)
    argv = effort.program("pointtopoint.py", "bidirectional", *_sizes((_LARGE,)), *_STREAM, iterations=60, skip=10)
    yield _experiment("bidirectional", pair, argv, raw, (_LARGE,), "byte", {})


def rate(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Short messages in windows of 64."""
    argv = effort.program("pointtopoint.py", "rate", iterations=500, skip=50)
    raw = effort.raw("rate", "--spinning", iterations=1000, skip=100)
    yield _experiment("rate", pair, argv, raw, (8,), "spinning", {raw.title: at_least(0.7)})


def local(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Two procs of one client, on a communicator that spans clients."""
    yield from _local(pair, effort, "local", "spanning communicator", ())


def local_only(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Two procs of one client, on a communicator of their own, and its collectives."""
    variant = "local-only communicator"
    yield from _local(pair, effort, "local-only", variant, ("--local", "2"))
    if pair[0] == pair[1] != "pure":
        argv = effort.program("collective.py", "--sizes", "8,65536", "--local", "2", iterations=500, skip=50)
        yield _beside(pair[0], "local-only", argv, calls((0,), variant, (_SHORT, _LONG)))


def _local(pair: Pair, effort: Effort, name: str, variant: str, options: tuple[str, ...]) -> Iterator[Experiment]:
    if pair[0] == pair[1] != "pure":
        argv = effort.program("pointtopoint.py", "latency", *_sizes(_LOCAL), *options, iterations=10000, skip=1000)
        lines = [_line("latency", size, variant, (0,), _SHORT if size < 65536 else _LONG) for size in _LOCAL]
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
    raw: Raw,
    sizes: Sequence[int],
    variant: str,
    bounds: dict[str, Bound | None],
) -> Experiment:
    """Two clients that spin, against sockets (at the first size) and libraries; ``bounds`` are of the first size."""
    jobs = own(pair, argv, 2)
    first = sizes[0]
    lines = [_line(measure, first, variant, (0,), bounds.get(raw.title), raw.argv[0])]
    for references in against(pair, jobs, 1):
        bound = bounds.get(jobs[references[0] - 1].title) if references else None
        for size in sizes if references else sizes[1:]:
            lines.append(_line(measure, size, variant, references, bound if size == first else None))
    return Experiment(
        name=measure,
        vendors="+".join(pair),
        ours=across(pair, argv, SPIN_S),
        references=(raw, *jobs),
        lines=tuple(lines),
    )


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


def _sizes(sizes: Sequence[int]) -> tuple[str, str]:
    return "--sizes", ",".join(map(str, sizes))
