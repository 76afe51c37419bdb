"""A second opinion: mpi4py's own osu_*.py, from its source package, run unchanged.

They send octets of memory maps, and time collectives without a barrier between two, so that the
root of a broadcast runs ahead. So their figures differ from those of the other measures, but the
ratios to MPICH can be compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.base.manifests import backed
from impi.cabi.library import cache
from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import Effort, across
from impi.tools.bench.timed_jobs import Alone

_MOST: Final = 1 << 20  # octets of the longest messages in collectives
_UNITS: Final = {"osu_bw": "MB/s", "osu_bibw": "MB/s"}
_OF_CALLS: Final = (
    "allgather",
    "alltoall",
    "alltoallv",
    "barrier",
    "bcast",
    "gather",
    "scatter",
)
PROGRAMS: Final = (
    "osu_latency",
    "osu_bw",
    "osu_bibw",
    "osu_multi_lat",
    *(f"osu_{name}" for name in _OF_CALLS),
)
_SIZES: Final = (8, 1024, 64 << 10, _MOST)
_SECONDS: Final = 120.0


def osu(vendors: Sequence[str], _: Effort) -> Iterator[Experiment]:
    """Yield experiments with two ranks of each pair, beside MPICH and Open MPI over own TCP."""
    folder = fetch()
    for program in PROGRAMS:
        for pair in combinations_with_replacement(vendors, 2):
            argv = (str(folder / f"{program}.py"),)
            libraries = [name for name in vendors if backed(name).has_library]
            references = tuple(
                Alone(vendor=name, procs=2, transport="tcp", argv=argv)
                for name in libraries
            )
            held: list[tuple[int, ...]] = [
                (number,) for number in range(len(references))
            ] or [()]
            yield Experiment(
                name="osu",
                vendors="+".join(pair),
                ours=across(pair, argv, None),
                references=references,
                lines=tuple(
                    _line(program, size, numbers)
                    for numbers in held
                    for size in (_SIZES if program != "osu_barrier" else (0,))
                ),
                beside=program,
            )


def fetch() -> Path:
    """Return the folder of the programs; pip fetches mpi4py's source package once.

    Raises:
        LaunchError: pip failed.
    """

    package = f"mpi4py-{version('mpi4py')}"
    demo = Path(cache.place(os.environ, package, ["demo"]), "demo")

    folder = demo.parents[1]
    if not demo.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # Not ":all:": pip would compile Cython, too, only to read name and version.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "mpi4py",
        ]

        argv = [*command, package.replace("-", "=="), "-d", str(folder)]
        try:
            subprocess.run(
                argv,
                check=True,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LaunchError(
                f"the source package of {package} could not be fetched: {error}"
            ) from None

        with tarfile.open(folder / f"{package}.tar.gz") as archive:
            # Python 3.11.4 and later
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)  # noqa: S202  (what pip has fetched, checked against its index)

    return demo


def _line(program: str, size: int, references: tuple[int, ...]) -> Line:
    unit = _UNITS.get(program, "us")
    return Line(
        measure=program,
        key=f"size {size}",
        unit=unit,
        better="lower" if unit == "us" else "higher",
        size=size,
        variant="Python, 1+1, as it is",
        references=references,
    )
