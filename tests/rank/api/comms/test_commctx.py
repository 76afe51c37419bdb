"""The demands of mpi4py's utilities: one duplicate with changing tags, and locks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_one_duplicate_and_a_tag_for_each_call(alone: Callable[..., list[str]]) -> None:
    alone("""
from impi.rank.api.comms import commctx
comm = MPI.COMM_WORLD.Dup()
calls = [commctx._commctx_intra(comm) for _ in range(3)]
assert [tag for _, tag in calls] == [0, 1, 2]
duplicate = calls[0][0]
assert all(made == duplicate for made, _ in calls)
assert MPI.Comm.Compare(duplicate, comm) == MPI.CONGRUENT
comm._alive().companions.next_tag = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
assert commctx._commctx_intra(comm)[1] == MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
assert commctx._commctx_intra(comm)[1] == 0
assert commctx._comm_lock(comm, "a") is commctx._comm_lock(comm, "a") is not commctx._comm_lock(comm, "b")
assert set(commctx._comm_lock_table(comm)) == {"a", "b"}
comm.Free()
refused(MPI.ERR_COMM, duplicate.Get_size)  # it goes with what it is of
""")


INTER = """
from mpi4py import MPI
from impi.rank.api.comms.commctx import _commctx_inter
world = MPI.COMM_WORLD
inter = MPI.COMM_SELF.Create_intercomm(0, world, 1 - world.rank)
duplicate, tag, local, is_low = _commctx_inter(inter)
assert (duplicate.remote_size, local.size, is_low) == (1, 1, world.rank == 0)
again = _commctx_inter(inter)
assert (again[0] == duplicate, tag, again[1]) == (True, 0, 1)
print("right")
"""


def test_between_two_groups(run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INTER)
    result = run_job([str(program)], ["pure:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "right\n" * 2
