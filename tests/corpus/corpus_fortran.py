"""Programs in Fortran: for Debian's MPICH and Open MPI, for Intel MPI, and by impifort."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

import corpus_imb
from corpus_binaries import BUILD, LIBRARIES, TREE, UNPACKED, Binary, packages, run_all

from impi.cli import impifort

NAME: Final = "fortran"
TITLE: Final = (
    "Fortran, compiled for Debian's MPICH and Open MPI, for Intel MPI, and by impifort"
)
SOURCE: Final = Path(__file__).with_suffix(".f90")
MODERN: Final = SOURCE.with_stem("corpus_fortran_08")
_LAYOUTS: Final = (
    "pure:1,pure:1",
    "mpich:2,openmpi:1",
    "openmpi:1,pure:2",
    "mpich:1,openmpi:1,pure:1",
)
_PACKAGES: Final = (
    *(
        "libmpich-dev",
        "libmpich12",
        "libopenmpi-dev",
        "libopenmpi3",
        "libgfortran5",
        "libquadmath0",
    ),
)
_LIBRARIES: Final = (
    "libmpichfort.so.12",
    "libmpi_usempi_ignore_tkr.so.40",
    "libmpi_usempif08.so.40",
)
"""Libraries that the programs need besides ours."""
_INTEL: Final = BUILD / "intel"
_MODULES: Final = {
    "mpich": UNPACKED / TREE / "fortran/gfortran-mod-15/mpich",
    "openmpi": UNPACKED / TREE / "fortran/gfortran-mod-15/openmpi",
    "intel": _INTEL / "modules",
}


def judge(text: str, procs: int) -> str:
    """Return why an output is not right: a check has failed, or a rank says nothing."""
    if wrong := re.search(r"^rank \d+: wrong: .*$", text, re.MULTILINE):
        return wrong[0]
    said = set(re.findall(rf"^rank (\d+) of {procs}: right$", text, re.MULTILINE))
    return (
        ""
        if said == {str(rank) for rank in range(procs)}
        else f"ranks {sorted(said)} of {procs} are right"
    )


def compiled(
    compiler: str, source: Path, build: str, libraries: tuple[str, ...]
) -> Path:
    """Return a program, compiled with the modules of a build and linked with its libraries."""
    out = BUILD / f"{source.stem}-{build}"
    argv = [
        compiler,
        "-w",
        "-fallow-argument-mismatch",
        f"-I{_MODULES[build]}",
        f"-J{BUILD}",
    ]
    argv += [
        "-o",
        str(out),
        str(source),
        f"-L{UNPACKED / TREE}",
        f"-L{_INTEL}",
        *(f"-l:{name}" for name in libraries),
    ]
    subprocess.run([*argv, "-Wl,--allow-shlib-undefined"], check=True)
    return out


def _fetch() -> None:
    """Fetch packages of Debian and of Intel, whose C library is not wanted."""
    packages(_PACKAGES, _LIBRARIES)
    corpus_imb.unpacked("impi-rt", ["lib/libmpifort.so.12"], _INTEL)
    names = ("mpi", "mpi_base", "mpi_constants", "mpi_sizeofs", "pmpi_base")
    corpus_imb.unpacked(
        "impi-devel",
        [f"include/mpi/gfortran/12.4.0/{name}.mod" for name in names],
        _MODULES["intel"],
    )


def _by_impifort() -> Path:
    """Return the program, compiled by impifort."""
    out = BUILD / "fortran-impifort"
    argv = ["-w", f"-J{BUILD / 'libraries'}", "-o", str(out), str(SOURCE)]
    subprocess.run(impifort.command_of(argv, os.environ), check=True)
    return out


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a check fails."""
    compiler = shutil.which("gfortran")
    if compiler is None:
        print(
            "fortran: left out, because gfortran is missing: install it by the package gfortran",
            file=sys.stderr,
        )
        return 0
    _fetch()
    openmpi = ("libmpi_mpifh.so.40", "libmpi.so.40")
    rows = (
        ("calls mpich", SOURCE, "mpich", ("libmpichfort.so.12", "libmpich.so.12")),
        ("calls intel", SOURCE, "intel", ("libmpifort.so.12",)),
        (
            "calls openmpi",
            SOURCE,
            "openmpi",
            ("libmpi_usempi_ignore_tkr.so.40", *openmpi),
        ),
        ("modern openmpi", MODERN, "openmpi", ("libmpi_usempif08.so.40", *openmpi)),
    )
    binaries = [
        Binary(
            name=name,
            path=compiled(compiler, source, build, libraries),
            judge=judge,
            layouts=_LAYOUTS,
            environ={"LD_LIBRARY_PATH": str(_INTEL if build == "intel" else LIBRARIES)},
        )
        for name, source, build, libraries in rows
    ]
    binaries.append(
        Binary(
            name="calls impifort", path=_by_impifort(), judge=judge, layouts=_LAYOUTS
        )
    )
    return run_all(NAME, binaries, options)
