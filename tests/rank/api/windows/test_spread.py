"""Windows of procs without shared memory: mistakes, and clients that have no windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

WRONG = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
def refused(call, code):
    try:
        call()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == code, failure
    else:
        raise AssertionError("not refused")
refused(lambda: MPI.Win.Create(None, 0 if comm.rank else 1, comm=comm), MPI.ERR_DISP)
refused(lambda: MPI.Win.Allocate(-1 if comm.rank else 8, comm=comm), MPI.ERR_SIZE)
window = MPI.Win.Allocate(8, 8, comm=comm)
other, data = 1 - comm.rank, np.ones(1)
refused(lambda: window.Put(data, other), MPI.ERR_RMA_SYNC)
window.Lock(other)
refused(lambda: window.Put(data, other, 1), MPI.ERR_RMA_RANGE)
refused(lambda: window.Accumulate(data, other, op=MPI.BXOR), MPI.ERR_OP)
refused(lambda: window.Fence(), MPI.ERR_RMA_SYNC)
refused(lambda: window.Free(), MPI.ERR_RMA_SYNC)
window.Unlock(other)
window.Free()
refused(lambda: window.Fence(), MPI.ERR_WIN)
dynamic = MPI.Win.Create_dynamic(comm=comm)
dynamic.Lock(other)
dynamic.Put(data, other, 4096)
refused(lambda: dynamic.Flush(other), MPI.ERR_RMA_RANGE)
found = np.full(1, -1.0)
dynamic.Get(found, other, 4096)
refused(lambda: dynamic.Unlock(other), MPI.ERR_RMA_RANGE)
assert found[0] == -1
dynamic.Free()
print("refused")
"""


def test_mistakes_are_told_to_who_made_them(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WRONG)
    result = run_job([str(program)], ["pure:1", "mpich:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "refused\n" * 2


LACKS = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
try:
    MPI.Win.Allocate(8, comm=comm)
except NotImplementedError as failure:
    assert "IMPI 0.0 has no one-sided communication" in str(failure), failure
mine = comm.Split(MPI.COMM_WORLD.Get_attr(MPI.IMPI_CLIENT_COLOR))
window = MPI.Win.Allocate(8, comm=mine)
window.Fence()
window.Free()
print("lacking")
"""


def test_a_client_of_the_specification_alone(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(LACKS)
    result = run_job(
        [str(program)], ["pure:2", "pure:1"], options={1: ["--impi-version", "0.0"]}
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "lacking\n" * 3
