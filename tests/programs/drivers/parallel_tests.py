"""Tests for mpi-pytest: as many ranks as the mark says."""

import pytest
from mpi4py import MPI


@pytest.mark.parallel(4)
def test_size():
    assert MPI.COMM_WORLD.size == 4


@pytest.mark.parallel(4)
def test_sum():
    assert MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank) == 6
