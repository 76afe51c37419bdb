"""The effect of Finalize on the attributes of COMM_SELF (MPI 4.1, 11.2.4); rank 0 prints it.

``implicit``: the end of the program finalizes.
"""

import sys

from mpi4py import MPI

world, own = MPI.COMM_WORLD, MPI.COMM_SELF
rank = world.rank


def deleted(comm: MPI.Comm, keyval: int, value: object) -> None:
    """A delete function may communicate."""
    total = world.allreduce(1) + own.sendrecv(1, 0)
    if rank == 0:
        print(
            f"{value} {comm == own} {total - world.size} {MPI.Is_finalized()}",
            flush=True,
        )
    if value == "fails":
        raise ValueError("told, and Finalize goes on")


keyvals = [MPI.Comm.Create_keyval(None, deleted) for _ in range(4)]
for keyval, value in zip(keyvals, ("first", "second", "fails", "last"), strict=True):
    own.Set_attr(keyval, value)
own.Delete_attr(keyvals[1])
own.Set_attr(keyvals[1], "again")
if "implicit" not in sys.argv:
    MPI.Finalize()
    if rank == 0:
        print(f"finalized {MPI.Is_finalized()}")
