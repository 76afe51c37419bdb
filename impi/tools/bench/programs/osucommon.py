"""Common parts of the programs: options, pinning, output as OSU's tables or as a line of JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence

from mpi4py import MPI

# As in impi.tools.bench.programs: the programs import nothing of impi
_MARK = "IMPI-BENCH "


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all programs have."""

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--iterations", type=int, default=1000, help="how many are timed"
    )
    parser.add_argument(
        "--skip", type=int, default=100, help="how many before those are not"
    )
    parser.add_argument(
        "--sizes", type=numbers, default=[8], metavar="LIST", help="octets of a message"
    )
    parser.add_argument(
        "--pin",
        type=numbers,
        default=[],
        metavar="LIST",
        help="the core of each rank, by rank",
    )
    parser.add_argument(
        "--json", action="store_true", help="one line of JSON in place of a table"
    )

    return parser


def numbers(text: str) -> list[int]:
    """Parse a list with commas."""
    return [int(number) for number in text.split(",")]


def pin(cores: Sequence[int]) -> None:
    """Bind this thread to its rank's core, if it has one; threads of the library stay free."""
    rank = MPI.COMM_WORLD.Get_rank()
    if rank < len(cores):
        os.sched_setaffinity(0, {cores[rank]})


def tell(title: str, unit: str, results: Mapping[str, float], *, as_json: bool) -> None:
    """Print results, which are named ``measure/size`` with sizes in octets."""

    if as_json:
        print(_MARK + json.dumps(dict(results)), flush=True)
        return

    print(f"# {title}")

    print(f"{'# Size':<24}{unit:>20}")
    for name, value in results.items():
        print(f"{name:<24}{value:>20.2f}", flush=True)
