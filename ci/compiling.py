"""Measure what compiling would bring: the protocol's packages by mypyc beside the same as they are.

``python ci/compiling.py [PAIRS]`` copies impi twice, compiles one copy, and runs jobs of two pure
clients on both by turns. It prints the median ratio of pairs, compiled to not, for each operation:
of wall time with waits as they are by default, and of processor time with waits that sleep.
docs/decisions/compiling.md has a run of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGES = ("impi/protocol/wire", "impi/protocol/transfer")
CLOCKS = {"perf_counter": {}, "process_time": {"IMPI_SPIN": "0"}}
PROGRAM = """
import json, sys, time
import numpy as np
from mpi4py import MPI

comm, clock = MPI.COMM_WORLD, getattr(time, sys.argv[1])
mate, one, other = 1 - comm.rank, np.zeros(1), np.zeros(1)
long, result, places = np.zeros(131072), np.zeros(131072), [np.zeros(1) for _ in range(64)]

def exchange(octets):
    array = np.zeros(octets // 8)
    def run():
        if comm.rank:
            comm.Recv(array, mate)
            comm.Send(array, mate)
        else:
            comm.Send(array, mate)
            comm.Recv(array, mate)
    return run

def window():
    if comm.rank:
        MPI.Request.Waitall([comm.Irecv(place, mate) for place in places])
    else:
        MPI.Request.Waitall([comm.Isend(one, mate) for _ in places])

operations = {
    "8 octets": (exchange(8), 1000), "64 KiB": (exchange(65536), 300), "1 MiB": (exchange(1 << 20), 50),
    "64 of 8 octets": (window, 50), "Barrier": (comm.Barrier, 1000),
    "Allreduce, 8 octets": (lambda: comm.Allreduce(one, other), 1000),
    "Allreduce, 1 MiB": (lambda: comm.Allreduce(long, result), 50),
}
found = {}
for name, (run, count) in operations.items():
    least = 1e9
    for _ in range(6):  # the first one warms up
        comm.Barrier()
        begun = clock()
        for _ in range(count):
            run()
        least = min(least, (clock() - begun) / count)
    found[name] = comm.reduce(least, op=MPI.MAX)
if comm.rank == 0:
    print(json.dumps(found))
"""


def trees(folder: Path) -> dict[str, Path]:
    """Return two copies of impi by name: as it is, and compiled."""
    found = {name: folder / name for name in ("as it is", "compiled")}
    for tree in found.values():
        for part in ("impi", "images"):
            shutil.copytree(
                ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        (tree / ".mpi").symlink_to(ROOT / ".mpi")
    message = found["compiled"] / PACKAGES[1] / "message.py"
    # The decorator reads annotations, which mypyc has made types.
    text = message.read_text("utf-8").replace("@record\n", "@dataclass(frozen=True)\n")
    message.write_text(
        text.replace(
            "from impi.base.records import record", "from dataclasses import dataclass"
        )
    )
    mypyc = Path(sys.executable).with_name("mypyc")
    subprocess.run(
        [str(mypyc), *PACKAGES],
        cwd=found["compiled"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return found


def times(tree: Path, program: Path, clock: str) -> dict[str, float]:
    """Run the program once; return seconds by operation."""
    client = ["-n", "1", "--vendor", "pure", str(program), clock]
    argv = [sys.executable, "-m", "impi.cli.impirun", *client, ":", *client]
    environ = {**os.environ, **CLOCKS[clock], "PYTHONPATH": str(tree)}
    done = subprocess.run(
        argv,
        cwd=tree,
        env=environ,
        check=True,
        capture_output=True,
        text=True,
        timeout=180,
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


def rows(pairs: int) -> Iterator[str]:
    """Yield the lines of a table in Markdown, after all runs."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        program = folder / "program.py"
        program.write_text(PROGRAM)
        found = trees(folder)
        runs = [
            {
                (name, clock): times(tree, program, clock)
                for clock in CLOCKS
                for name, tree in found.items()
            }
            for _ in range(pairs)
        ]
    yield "| | wall | processor |"
    yield "|---|---|---|"
    for operation in runs[0]["as it is", "perf_counter"]:
        ratios = {
            clock: [
                r["compiled", clock][operation] / r["as it is", clock][operation]
                for r in runs
            ]
            for clock in CLOCKS
        }
        yield (
            f"| {operation} | "
            + " | ".join(f"{median(each):.2f}" for each in ratios.values())
            + " |"
        )


if __name__ == "__main__":
    print(*rows(int(sys.argv[1]) if sys.argv[1:] else 9), sep="\n")
