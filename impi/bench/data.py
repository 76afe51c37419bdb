"""The cost of user data's form: values converted or not, derived datatypes packed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from impi.bench.effort import SPIN_S, Effort, Pair, across, listed
from impi.bench.experiment import Experiment, Line
from impi.bench.rows import at_least, octets

_PAIR: Final = ("pure", "pure")
"""Libraries take no part in messages to another client."""
_LARGE: Final = 1 << 24
_SIZES: Final = (1 << 16, 1 << 20)
_BLOCKS: Final = (16, 256, 1024, 2048, 4096, 65536)
_MOST: Final = 4096
"""Blocks of a message: more take seconds."""
_FROM: Final = 2048
"""Octets of a block from which in-place sending must not be slower: IMPI_ZERO_COPY's default."""
_STREAM: Final = ("--window", "8")
_IN_PLACE: Final = (("IMPI_ZERO_COPY", "0"),)
_PACKED: Final = (("IMPI_ZERO_COPY", "1000000000"),)


def derived(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure vectors of octets in place and packed: the basis of IMPI_ZERO_COPY's default."""
    if pair != _PAIR:
        return
    for size in _SIZES:
        blocks = [block for block in _BLOCKS if block < size <= block * _MOST]
        options = (*listed((size,)), "--blocks", ",".join(map(str, blocks)), *_STREAM)
        argv = effort.program("pointtopoint.py", "bandwidth", *options, iterations=60, skip=10)
        job = across(pair, argv, SPIN_S)
        yield Experiment(
            name="derived",
            vendors="+".join(pair),
            ours=replace(job, environ=_IN_PLACE),
            references=(replace(job, environ=_PACKED, called="packed"),),
            lines=tuple(
                _line(f"bandwidth/{size}/{block}", size, f"in place, blocks of {octets(block)}", block >= _FROM)
                for block in blocks
            ),
        )


def native(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure floats in memory form, which alike clients agree on, against external32."""
    if pair != _PAIR:
        return
    sizes = effort.chosen((_LARGE,))
    options = ("--type", "float64", *listed(sizes), *_STREAM)
    argv = effort.program("pointtopoint.py", "bandwidth", *options, iterations=60, skip=10)
    job = across(pair, argv, SPIN_S)
    yield Experiment(
        name="native",
        vendors="+".join(pair),
        ours=job,
        references=(replace(job, options=("--external32",), called="external32"),),
        lines=tuple(_line(f"bandwidth/{size}", size, "float64, native", size == _LARGE) for size in sizes),
    )


def _line(key: str, size: int, variant: str, bound: bool) -> Line:
    return Line(
        measure="bandwidth",
        key=key,
        unit="MB/s",
        better="higher",
        size=size,
        variant=variant,
        references=(0,),
        bound=at_least(1) if bound else None,
    )
