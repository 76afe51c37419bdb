"""The cost of the form of user data: values converted or not, derived datatypes packed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import SPIN_S, Effort, Pair, across, listed
from impi.tools.bench.rows import octets

_PAIR: Final = ("pure", "pure")  # libraries take no part in messages to another client
_LARGE: Final = 1 << 24
_SIZES: Final = (1 << 16, 1 << 20)
_BLOCKS: Final = (16, 256, 1024, 2048, 4096, 65536)
_MOST: Final = 4096  # most blocks of a message: more would take seconds
_STREAM: Final = ("--window", "8")
_IN_PLACE: Final = (("IMPI_ZERO_COPY", "0"),)
_PACKED: Final = (("IMPI_ZERO_COPY", "1000000000"),)


def derived(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure vectors of octets in place and packed: the basis of IMPI_ZERO_COPY's default."""
    if pair != _PAIR:
        return

    for size in _SIZES:
        # At least two blocks, or there would be nothing to pack.
        blocks = [block for block in _BLOCKS if block < size <= block * _MOST]
        options = (
            "--data",
            "byte",
            *listed((size,)),
            "--blocks",
            ",".join(map(str, blocks)),
            *_STREAM,
        )
        argv = effort.program(
            "pointtopoint.py", "bandwidth", *options, iterations=60, skip=10
        )
        job = across(pair, argv, SPIN_S)
        yield Experiment(
            name="derived",
            vendors="+".join(pair),
            ours=replace(job, environ=_IN_PLACE),
            references=(replace(job, environ=_PACKED, called="packed"),),
            lines=tuple(
                _line(
                    f"bandwidth/{size}/{block}",
                    size,
                    f"in place, blocks of {octets(block)}",
                )
                for block in blocks
            ),
        )


def native(pair: Pair, effort: Effort) -> Iterator[Experiment]:
    """Measure floats in memory form, which equal clients agree on, against external32."""

    if pair != _PAIR:
        return

    sizes = effort.chosen((_LARGE,))
    options = ("--data", "float64", *listed(sizes), *_STREAM)
    argv = effort.program(
        "pointtopoint.py", "bandwidth", *options, iterations=60, skip=10
    )
    job = across(pair, argv, SPIN_S)
    yield Experiment(
        name="native",
        vendors="+".join(pair),
        ours=job,
        references=(replace(job, options=("--external32",), called="external32"),),
        lines=tuple(
            _line(f"bandwidth/{size}", size, "float64, native") for size in sizes
        ),
    )


def _line(key: str, size: int, variant: str) -> Line:
    return Line(
        measure="bandwidth",
        key=key,
        unit="MB/s",
        better="higher",
        size=size,
        variant=variant,
        references=(0,),
    )
