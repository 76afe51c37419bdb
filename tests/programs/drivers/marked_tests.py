"""Tests for pytest-mpi: marks, and a folder that all ranks share."""

import pytest
from mpi4py import MPI


@pytest.mark.mpi
def test_size():
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size


@pytest.mark.mpi(min_size=3)
def test_shared_folder(mpi_tmp_path):
    assert len(set(MPI.COMM_WORLD.allgather(str(mpi_tmp_path)))) == 1


@pytest.mark.mpi_skip
def test_never():
    raise AssertionError
