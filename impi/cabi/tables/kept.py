"""The variables that a program gets back if its environment is cleared before it is a rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

KEPT: Final = (
    "IMPI_",
    "PMI",
    "OMPI_",
    "OPAL_",
    "PRTE_",
    "MPI4PY_",
    "MPIR_CVAR_",
    "MPICH_",
    "HYDRA_",
    "FI_",
    "UCX_",
    "HOME=",
    "PATH=",
    "TMPDIR=",
    "LD_PRELOAD=",
    "PYTHONPATH=",
)
"""Beginnings of rows ``NAME=VALUE`` of the job, of process managers and of MPI libraries.

HOME and TMPDIR lead to the cache, and PATH to programs by name.
"""


def c_text() -> str:
    """Return the C text of these beginnings, and of the functions that keep such rows."""
    rows = ", ".join(json.dumps(each) for each in KEPT)
    text = Path(__file__).absolute().parent.parent.joinpath("kept.c").read_text("utf-8")

    return f"#define IMPI_KEPT {rows}\n{text}"


def is_kept(name: str) -> bool:
    """Return whether a variable is one of these."""
    return f"{name}=".startswith(KEPT)
