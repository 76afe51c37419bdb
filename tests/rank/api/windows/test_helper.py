"""The thread that serves windows while the program computes: where it is, and where not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMPUTES = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(16, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), np.int64)
comm.Barrier()
if comm.rank == 0:
    while memory[0] != 7:  # no call of MPI: only a helper can serve the window
        pass
else:
    window.Lock(0)
    window.Put(np.array([7]), 0)
    window.Unlock(0)
comm.Barrier()
window.Free()
print("served")
"""


@pytest.mark.parametrize(
    "clients",
    [["pure:1", "mpich:1"], ["mpich:1", "pure:1"], ["openmpi:2"]],
    ids="+".join,
)
def test_a_target_that_computes_is_served(
    clients: list[str], run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(COMPUTES)
    result = run_job([str(program)], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "served\n" * 2


ALONE = """
import threading
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
MPI.Win.Allocate(8).Free()
assert not [each for each in threading.enumerate() if each.name == "impi windows"]
info = MPI.Info.Create({"no_locks": "true"})
MPI.Win.Allocate(8, info=info, comm=MPI.COMM_WORLD).Free()
assert not [each for each in threading.enumerate() if each.name == "impi windows"]
print("alone")
"""


def test_no_helper_without_passive_targets(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ALONE)
    result = run_job([str(program)], ["pure:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "alone\n" * 2
