"""The Python side of MPI libraries, mpi4py: what to say where it is missing."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder


def no_mpi4py() -> str:
    """Return what a user without mpi4py has to know."""
    return (
        f"{sys.executable} has no mpi4py, through which MPI libraries are used; install it there with "
        f"'{sys.executable} -m pip install mpi4py', or use --vendor pure"
    )


def is_missing(*folders: str) -> bool:
    """Whether this Python finds no mpi4py, in its own path or in these folders."""
    return PathFinder.find_spec("mpi4py", [*folders, *sys.path]) is None
