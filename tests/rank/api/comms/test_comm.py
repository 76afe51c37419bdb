"""Comm on a job of one proc: comparing, duplicating, splitting, freeing, and names of its own."""

from __future__ import annotations

from collections.abc import Callable


def test_comparing_and_duplicating(alone: Callable[..., list[str]]) -> None:
    alone("""
world = MPI.COMM_WORLD
key = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: value + 1)
world.Set_attr(key, 1)
copy, bare, (later, request) = world.Dup(MPI.Info.Create({"a": "b"})), world.Clone(), world.Idup()
request.Wait()
assert [each.Get_attr(key) for each in (world, copy, bare, later)] == [1, 2, None, 2]
assert (copy.Get_info().Get("a"), later.Get_info().Get("a")) == ("b", None)
assert MPI.Comm.Compare(world, MPI.Comm(world)) == MPI.IDENT
assert MPI.Comm.Compare(world, copy) == MPI.Comm.Compare(world, MPI.COMM_SELF) == MPI.CONGRUENT
copy.Delete_attr(key)
assert copy.Get_attr(key) is None
refused(MPI.ERR_KEYVAL, copy.Set_attr, MPI.TAG_UB, 1)
for each in (copy, bare, later):
    each.Free()
    assert each == MPI.COMM_NULL
refused(MPI.ERR_COMM, world.Free)
assert MPI.Comm.Free_keyval(key) == MPI.KEYVAL_INVALID
""")


def test_splitting(alone: Callable[..., list[str]]) -> None:
    alone("""
world = MPI.COMM_WORLD
assert world.Split(MPI.UNDEFINED) == MPI.COMM_NULL
assert world.Split_type(MPI.COMM_TYPE_HW_UNGUIDED) == MPI.COMM_NULL  # it would be no smaller
part = world.Split_type(MPI.COMM_TYPE_SHARED)
assert (part.size, part.Get_topology(), part.is_intra) == (1, MPI.UNDEFINED, True)
refused(MPI.ERR_ARG, world.Split, -5)
refused(MPI.ERR_ARG, world.Split_type, 77)
assert world.Create(MPI.GROUP_EMPTY) == MPI.COMM_NULL
part.Disconnect()
refused(MPI.ERR_COMM, part.Get_size)
""")


def test_attributes_of_the_program_are_refused_as_by_mpi4py(
    alone: Callable[..., list[str]],
) -> None:
    told = alone("""
class Mine(MPI.Intracomm):
    pass
mine = Mine(MPI.COMM_SELF)
mine.colour = "red"
mine.name = "named"
try:
    MPI.COMM_SELF.colour = "red"
except AttributeError as failure:
    print(failure)
print(mine.colour, MPI.COMM_SELF.Get_name())
""")
    assert told == [
        "'mpi4py.MPI.Intracomm' object has no attribute 'colour'",
        "red named",
    ]
