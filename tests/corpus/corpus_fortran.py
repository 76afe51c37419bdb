"""A program in Fortran over Debian's Fortran library of MPICH, which calls our C library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

from corpus_binaries import BUILD, TREE, UNPACKED, Binary, packages, run_all

NAME: Final = "fortran"
TITLE: Final = "Fortran over libmpichfort of Debian's MPICH"
SOURCE: Final = Path(__file__).with_suffix(".f90")
_LAYOUTS: Final = ("pure:1,pure:1", "mpich:2,openmpi:1", "openmpi:1,pure:2", "mpich:1,openmpi:1,pure:1")


def judge(text: str, procs: int) -> str:
    """Return why an output is not right: a check has failed, or a rank says nothing."""
    if wrong := re.search(r"^rank \d+: wrong: .*$", text, re.MULTILINE):
        return wrong[0]
    said = set(re.findall(rf"^rank (\d+) of {procs}: right$", text, re.MULTILINE))
    return "" if said == {str(rank) for rank in range(procs)} else f"ranks {sorted(said)} of {procs} are right"


def compiled(compiler: str) -> Path:
    """Return the program, compiled with MPICH's modules and linked with its Fortran library."""
    packages(("libmpich-dev", "libmpich12", "libgfortran5", "libquadmath0"), ("libmpichfort.so.12",))
    modules, libraries = UNPACKED / "usr/include" / TREE.name / "mpich", UNPACKED / TREE
    out = BUILD / "fortran"
    argv = [compiler, "-w", "-fallow-argument-mismatch", f"-I{modules}", f"-J{BUILD}", "-o", str(out), str(SOURCE)]
    argv += [f"-L{libraries}", "-lmpichfort", "-lmpich", "-Wl,--allow-shlib-undefined"]
    subprocess.run(argv, check=True)
    return out


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a check fails."""
    compiler = shutil.which("gfortran")
    if compiler is None:
        print("fortran: left out, because gfortran is missing: install it by the package gfortran", file=sys.stderr)
        return 0
    binary = Binary(name="calls", path=compiled(compiler), judge=judge, layouts=_LAYOUTS)
    return run_all(NAME, [binary], options)
