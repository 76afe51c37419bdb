"""Tests for pytest-isolate-mpi, which starts mpiexec for each."""

import pytest


@pytest.mark.mpi(ranks=2)
def test_sum(comm):
    assert comm.allreduce(1) == 2
