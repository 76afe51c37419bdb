"""impifort: its command, and programs that it compiles."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from cabi_programs import ROOT

from impi.cli import impifort

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
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of 3: right" for rank in range(3)
    ]


def test_impifort_without_a_compiler_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FC", raising=False)
    assert impifort.main(["-o", "x", "x.f90"]) == 1
    assert (
        "need a Fortran compiler, and there is none: install gfortran"
        in capsys.readouterr().err
    )
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
