"""Intercomm: two groups, how they are made, seen and merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
own, other = [[0, 2], [1]][world.rank % 2], [[1], [0, 2]][world.rank % 2]
half = world.Split(world.rank % 2)
made = half.Create_intercomm(0, world, other[0], 3)
named = MPI.Intercomm.Create_from_groups(world.group.Incl(own), 0, world.group.Incl(other), 0, "tag")
for inter in (made, named):
    assert type(inter) is MPI.Intercomm and inter.is_inter
    assert (inter.size, inter.remote_size, inter.rank) == (len(own), len(other), own.index(world.rank))
    assert inter.remote_group.Translate_ranks() == other
    # The group with "high" comes second; of equal ones, that with the lower rank comes first.
    for highs, order in (((False, True), [0, 2, 1]), ((True, False), [1, 0, 2]), ((True, True), [0, 2, 1])):
        merged = inter.Merge(highs[world.rank % 2])
        assert merged.allgather(world.rank) == order, (highs, order)
        merged.Free()
for wrong in (lambda: half.Create_intercomm(5, world, 0), lambda: MPI.Intercomm(world)):
    try:
        wrong()
    except (MPI.Exception, TypeError) as failure:
        assert not isinstance(failure, MPI.Exception) or failure.Get_error_class() == MPI.ERR_RANK
    else:
        raise AssertionError("not refused")
print("right")
"""


def test_two_groups(run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = run_job([str(program)], ["pure:2", "mpich:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "right\n" * 3
