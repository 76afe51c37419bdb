"""Windows of several clients: random epochs, targets that compute, errors, clients without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "windows_random.py")
LAYOUTS = (["pure:1", "pure:2"], ["mpich:2", "openmpi:1"], ["mpich:1", "openmpi:1", "pure:1"])


@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
def test_random_epochs_against_a_model(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, "1", "6"], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
def test_many_random_epochs(clients: list[str], seed: int, run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, str(seed), "40"], clients, deadline_s=300.0)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3


@pytest.mark.parametrize("clients", [["pure:1", "pure:1"], ["mpich:2"], ["openmpi:1", "pure:1"]], ids="+".join)
def test_a_get_has_the_values_of_its_epoch(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([str(Path(PROGRAM).with_name("windows_late.py"))], clients)
    assert set(result.codes) == {0}, str(result)


@pytest.mark.parametrize("more", [["--hosts", "client"], ["--datalen", "256", "--hiwater", "4", "--ackmark", "2"]])
def test_with_agents_and_little_room(more: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, "2", "4"], ["pure:2", "pure:1"], options={0: more, 1: more})
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3


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


@pytest.mark.parametrize("clients", [["pure:1", "mpich:1"], ["mpich:1", "pure:1"], ["openmpi:2"]], ids="+".join)
def test_a_target_that_computes_is_served(clients: list[str], run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COMPUTES)
    result = run_job([str(program)], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "served\n" * 2


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


def test_mistakes_are_told_to_who_made_them(run_job: Callable[..., Any], tmp_path: Path) -> None:
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


def test_a_client_of_the_specification_alone(run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LACKS)
    result = run_job([str(program)], ["pure:2", "pure:1"], options={1: ["--impi-version", "0.0"]})
    assert set(result.codes) == {0}, str(result)
    assert result.out == "lacking\n" * 3


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


def test_no_helper_without_passive_targets(run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ALONE)
    result = run_job([str(program)], ["pure:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "alone\n" * 2
