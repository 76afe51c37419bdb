"""Fortran over our libraries, played by C: MPICH's own library for it, and Open MPI's in our form.

``make corpus ARGS="fortran petsc"`` runs programs that gfortran has compiled.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from cabi_programs import PROGRAMS

from impi.cabi.library import build
from impi.cabi.tables import abi_tables
from impi.cabi.text import emit, fortran_library


@pytest.fixture(scope="module")
def as_fortran(tmp_path_factory, compiled):
    """The path of a program that calls Open MPI's Fortran functions."""
    out = tmp_path_factory.mktemp("fortran") / "as_fortran"
    *_, c, fortran = build.preloaded("openmpi", os.environ)
    argv = [
        "cc",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(out),
        str(PROGRAMS / "as_fortran.c"),
        str(fortran),
        str(c),
    ]
    subprocess.run(argv, check=True)
    return str(out)


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    "clients", [("pure:1", "pure:1"), ("openmpi:2", "mpich:1")], ids="+".join
)
def test_programs_in_fortran_for_open_mpi(as_fortran, run_job, clients):
    done = run_job([as_fortran], list(clients))
    procs = sum(int(client.partition(":")[2]) for client in clients)
    assert done.codes == [0] * (1 + len(clients)), done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: right" for rank in range(procs)
    ]


def test_every_function_is_there_for_fortran():
    """By the names that Open MPI's own library has, among those of MPI 4."""
    abi, functions = abi_tables.abi("openmpi"), abi_tables.functions()
    text = fortran_library.source(abi, functions, emit.types(abi))
    named = set(re.findall(r"\b(mpi_\w+_) __attribute__", text))
    assert {
        "mpi_send_",
        "mpi_op_create_",
        "mpi_f_sync_reg_",
        "mpi_win_allocate_cptr_",
        "mpi_alltoallw_",
    } <= named
    left = {each.name for each in functions if f"{each.name.lower()}_" not in named}
    assert all(
        name.startswith(("MPI_T_", "MPI_Abi_"))
        or "2" in name
        or "int" in name
        or "_c" in name
        or "errh" in name
        for name in left
    ), left
