"""Fortran over our libraries, played by C: MPICH's own library for it, and Open MPI's in our form.

``make corpus ARGS="fortran petsc"`` runs programs that gfortran has compiled.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from cabi_programs import PROGRAMS, ROOT

from impi.cabi import abi_tables, build, emit, fortran_header, fortran_library
from impi.cli import impifort


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("clients", [("pure:1", "pure:1"), ("mpich:1", "pure:1")], ids="+".join)
def test_helpers_of_fortran_libraries(compiled, run_job, clients):
    program = compiled("helpers", "mpich", "-Wno-cast-function-type")
    done = run_job([program], list(clients))
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(2)]


@pytest.fixture(scope="module")
def as_fortran(tmp_path_factory, compiled):
    """The path of a program that calls Open MPI's Fortran functions."""
    out = tmp_path_factory.mktemp("fortran") / "as_fortran"
    *_, c, fortran = build.preloaded("openmpi", os.environ)
    argv = ["cc", "-Wall", "-Wextra", "-Werror", "-o", str(out), str(PROGRAMS / "as_fortran.c"), str(fortran), str(c)]
    subprocess.run(argv, check=True)
    return str(out)


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("clients", [("pure:1", "pure:1"), ("openmpi:2", "mpich:1")], ids="+".join)
def test_programs_in_fortran_for_open_mpi(as_fortran, run_job, clients):
    done = run_job([as_fortran], list(clients))
    procs = sum(int(client.partition(":")[2]) for client in clients)
    assert done.codes == [0] * (1 + len(clients)), done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(procs)]


def test_every_function_is_there_for_fortran():
    """By the names that Open MPI's own library has, among those of MPI 4."""
    abi, functions = abi_tables.abi("openmpi"), abi_tables.functions()
    text = fortran_library.source(abi, functions, emit.types(abi))
    named = set(re.findall(r"\b(mpi_\w+_) __attribute__", text))
    assert {"mpi_send_", "mpi_op_create_", "mpi_f_sync_reg_", "mpi_win_allocate_cptr_", "mpi_alltoallw_"} <= named
    left = {each.name for each in functions if f"{each.name.lower()}_" not in named}
    assert all(
        name.startswith(("MPI_T_", "MPI_Abi_")) or "2" in name or "int" in name or "_c" in name or "errh" in name
        for name in left
    ), left


FIXED = """
      program fixed
      implicit none
      include 'mpif.h'
      integer error, rank, total
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_ALLREDUCE(rank, total, 1, MPI_INTEGER, MPI_SUM,
     &  MPI_COMM_WORLD, error)
      print '(a,i0,a,i0)', 'rank ', rank, ': ', total
      call MPI_FINALIZE(error)
      end
"""


def has_gfortran():
    if shutil.which("gfortran") is None:
        pytest.skip("gfortran is missing: install the package gfortran")


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_impifort_compiles_without_an_mpi(run_job, tmp_path):
    has_gfortran()
    fixed = tmp_path / "fixed.f"
    fixed.write_text(FIXED)
    sources = {"fixed": fixed, "calls": ROOT / "tests/corpus/corpus_fortran.f90"}
    for name, source in sources.items():
        # The folder of the program's own modules.
        argv = ["-w", f"-J{tmp_path}", "-o", str(tmp_path / name), str(source)]
        subprocess.run(impifort.command_of(argv, os.environ), check=True)
    done = run_job([str(tmp_path / "fixed")], ["pure:1", "mpich:2"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: 3" for rank in range(3)]
    done = run_job([str(tmp_path / "calls")], ["pure:1", "mpich:2"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank} of 3: right" for rank in range(3)]


def test_the_header_stands_in_both_forms_of_source():
    lines = fortran_header.text().splitlines()
    assert len(lines) > 500
    assert all(line[:6] == "      " and len(line) < 73 and "&" not in line for line in lines)
    assert "      parameter (MPI_MAX_PROCESSOR_NAME=255)" in lines
    assert "      parameter (MPI_DOUBLE_PRECISION=17)" in lines


def test_impifort_without_a_compiler_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FC", raising=False)
    assert impifort.main(["-o", "x", "x.f90"]) == 1
    assert "need a Fortran compiler, and there is none: install gfortran" in capsys.readouterr().err
    monkeypatch.setenv("FC", "nosuch")
    assert impifort.main(["x.f90"]) == 1
    assert "FC is nosuch, and there is no such program" in capsys.readouterr().err
    assert impifort.main([]) == 4
    assert "usage: impifort" in capsys.readouterr().out


def test_impifort_shows_its_command(capsys):
    has_gfortran()
    assert impifort.main(["-show", "-c", "x.f90"]) == 0
    assert capsys.readouterr().out.split()[-2:] == ["-c", "x.f90"]
    assert impifort.main(["-show", "x.f90"]) == 0
    assert "libmpi_mpifh.so.40" in capsys.readouterr().out
