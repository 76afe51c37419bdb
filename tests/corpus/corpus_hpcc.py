"""HPC Challenge of Debian, for Open MPI's ABI: seven benchmarks with checks of their own."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Final

from corpus_binaries import UNPACKED, Binary, packages, run_all

NAME: Final = "hpcc"
TITLE: Final = "HPC Challenge, Debian's build for Open MPI"
_ORDER, _BLOCK = 60, 8
"""Size of the matrix: all else follows from it."""


def judge(text: str, procs: int) -> str:
    """Return why an output is not right: the program's own verdicts, and its number of procs."""
    told = dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))
    if told.get("Success") != "1":
        return "Success is not 1"
    if told.get("CommWorldProcs") != str(procs):
        return f"CommWorldProcs is {told.get('CommWorldProcs')}, not {procs}"
    residuals = len(re.findall(r"\bPASSED\b", text))
    if "FAILED" in text or not residuals:
        return f"{residuals} residuals passed; {len(re.findall('FAILED', text))} failed"
    return ""


def settings(example: str) -> str:
    """Return the package's own example of an input file with a small matrix."""
    return re.sub(
        r"^80 ",
        f"{_BLOCK} ",
        re.sub(r"^1000 ", f"{_ORDER} ", example, flags=re.M),
        flags=re.M,
    )


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a verdict is not as it must be."""
    packages(("hpcc", "libblas3"), ("blas/libblas.so.3",))
    example = Path(UNPACKED, "usr/share/doc/hpcc/examples/_hpccinf.txt").read_text(
        encoding="utf-8"
    )
    files = {"hpccinf.txt": settings(example)}
    hpcc = Binary(
        name="hpcc",
        path=UNPACKED / "usr/bin/hpcc",
        judge=judge,
        files=files,
        out="hpccoutf.txt",
    )
    return run_all(NAME, [hpcc], options)
