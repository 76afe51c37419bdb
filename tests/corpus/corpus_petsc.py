"""Debian's petsc4py and h5py, extension modules for Open MPI: solvers, files of parallel HDF5."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Final

from compat_run import ROOT
from corpus_binaries import TREE, UNPACKED, Binary, packages, run_all
from corpus_libraries import linked

from impi.cabi.library import build

NAME: Final = "petsc"
TITLE: Final = "solvers by Debian's petsc4py, files by its h5py, with handles of C"
DRIVERS: Final = ROOT / "tests/programs/drivers"
_PYTHON: Final = "/usr/bin/python3"
"""Debian's: its modules are for it."""
_LAYOUTS: Final = (
    "pure:1,pure:1",
    "mpich:2,openmpi:1",
    "openmpi:1,pure:2",
    "mpich:1,openmpi:1,pure:1",
)
_SOLVERS: Final = (
    "cg jacobi petsc",
    "gmres bjacobi petsc",
    "preonly lu mumps",
    "cg hypre petsc",
)
_PACKAGES: Final = (
    *(
        "libpetsc-real3.18",
        "python3-petsc4py-real3.18",
        "python3-mpi4py",
        "python3-numpy",
        "python3-cffi-backend",
        "libopenmpi3",
    ),
    *(
        "libaec0",
        "libamd2",
        "libblas3",
        "libbtf1",
        "libcamd2",
        "libccolamd2",
        "libcholmod3",
        "libcolamd2",
    ),
    *(
        "libcombblas1.16.0",
        "libevent-core-2.1-7",
        "libevent-pthreads-2.1-7",
        "libfftw3-double3",
        "libfftw3-mpi3",
    ),
    *(
        "libgfortran5",
        "libhdf5-openmpi-103-1",
        "libhwloc15",
        "libhypre-2.26.0",
        "libklu1",
        "liblapack3",
        "libmetis5",
    ),
    *(
        "libmumps-5.5",
        "libptscotch-7.0",
        "libquadmath0",
        "libscalapack-openmpi2.2",
        "libscotch-7.0",
        "libspqr2",
    ),
    *(
        "libsuitesparseconfig5",
        "libsuperlu-dist8",
        "libsuperlu5",
        "libsz2",
        "libumfpack5",
        "ocl-icd-libopencl1",
    ),
    *(
        f"libtrilinos-{name}-13.2"
        for name in ("amesos", "aztecoo", "epetra", "epetraext", "galeri", "ifpack")
    ),
    *(
        f"libtrilinos-{name}-13.2"
        for name in ("kokkos", "ml", "teuchos", "trilinosss", "triutils", "zoltan")
    ),
    *(
        "libx11-6",
        "libxext6",
        "libxcb1",
        "libxau6",
        "libxdmcp6",
        "libyaml-0-2",
        "libgomp1",
        "libbsd0",
        "libmd0",
    ),
    *("libevent-2.1-7", "libnuma1", "libudev1"),
    *("python3-h5py", "python3-h5py-mpi", "libhdf5-openmpi-hl-100", "liblzf1"),
)
_NEEDED: Final = ("libpetsc_real.so.3.18", "libhdf5_openmpi_hl.so.100", "liblzf.so.1")
"""Libraries of the modules, which need all others."""


def judge(text: str, procs: int) -> str:
    """Return why an output is not right: a solver has failed, or a rank saw another world."""
    for solver in _SOLVERS:
        if not re.search(rf"^{solver} right$", text, re.MULTILINE):
            return f"{solver} is not right"
    said = set(
        re.findall(rf"^rank (\d+) of {procs}: {procs} impi$", text, re.MULTILINE)
    )
    return (
        ""
        if said == {str(rank) for rank in range(procs)}
        else f"ranks {sorted(said)} of {procs} are right"
    )


def judge_files(text: str, procs: int) -> str:
    """Return why an output is not right: a rank has not read what all have written."""
    said = set(
        re.findall(rf"^rank (\d+) of {procs}: {procs} impi right$", text, re.MULTILINE)
    )
    return (
        ""
        if said == {str(rank) for rank in range(procs)}
        else f"ranks {sorted(said)} of {procs} are right"
    )


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a solver fails."""
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = subprocess.run(
        [_PYTHON, "--version"], capture_output=True, text=True, check=False
    ).stdout
    if not told.startswith(f"Python {mine}."):
        print(
            f"petsc: left out, because {_PYTHON} is not Python {mine}, as this one is",
            file=sys.stderr,
        )
        return 0
    packages(_PACKAGES, ())
    # Debian's cffi, below, is another one than this Python's
    build.preloaded("openmpi", os.environ)
    petsc4py = next(
        (UNPACKED / "usr/lib/petscdir").glob("petsc*/*-real/lib/python3/dist-packages")
    )
    modules = [petsc4py, UNPACKED / "usr/lib/python3/dist-packages"]
    environ = {
        **linked(NAME, [UNPACKED / TREE / name for name in _NEEDED]),
        "PYTHONPATH": os.pathsep.join(map(str, modules)),
    }
    solvers = Binary(
        name="solvers",
        path=Path(_PYTHON),
        argv=(str(DRIVERS / "petsc_solve.py"),),
        judge=judge,
        layouts=_LAYOUTS,
        environ=environ,
        handles="openmpi",
    )
    files = replace(
        solvers,
        name="files",
        argv=(str(DRIVERS / "h5py_parallel.py"), "table.h5"),
        judge=judge_files,
    )
    return run_all(NAME, [solvers, files], options)
