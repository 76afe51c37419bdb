"""Sizes of Split_type's communicators from COMM_WORLD, by split type and hint; rank 0 prints them.

``psets``: process sets, too, which MPICH does not know.
"""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
HINTS = [
    {},
    {"other": "mpi_shared_memory"},
    *({"mpi_hw_resource_type": name} for name in ("mpi_shared_memory", "no")),
]
if "psets" in sys.argv:
    HINTS += [{"mpi_pset_name": name} for name in ("mpi://WORLD", "mpi://self", "no")]


def sizes(comm: MPI.Comm, split_type: int, info: MPI.Info) -> list[int]:
    """Split; the sizes of all ranks' parts, 0 for COMM_NULL."""
    part = comm.Split_type(split_type, -world.rank, info)
    size = part.size if part else 0
    assert not part or split_type != MPI.COMM_TYPE_HW_UNGUIDED or size < comm.size
    if part:
        assert part.rank == sorted(part.allgather(world.rank), reverse=True).index(
            world.rank
        )
        part.Free()
    return comm.allgather(size)


for name in ("SHARED", "HW_UNGUIDED", "HW_GUIDED", "RESOURCE_GUIDED"):
    split_type = getattr(MPI, f"COMM_TYPE_{name}")
    for hint in HINTS:
        info = MPI.Info.Create(hint)
        found = sizes(world, split_type, info)
        new = {key: value for key, value in info.items() if hint.get(key) != value}
        info.Free()
        if world.rank == 0:
            print(name, hint, found, new)
    found = sizes(world, split_type, MPI.INFO_NULL)
    if world.rank == 0:
        print(name, "INFO_NULL", found)
some = sizes(
    world, MPI.UNDEFINED if world.rank == 0 else MPI.COMM_TYPE_SHARED, MPI.INFO_NULL
)
if world.rank == 0:
    print("UNDEFINED", some)
