"""Each rank prints what its launcher's variables say before and after MPI is initialised."""

import os

WORDS = ("RANK", "SIZE", "LOCALRANKID", "LOCALNRANKS")


def found() -> dict[str, str]:
    names = [
        name
        for name in os.environ
        if name.startswith(("PMI_", "OMPI_COMM_WORLD_", "MPI_LOCAL"))
    ]
    return {name: os.environ[name] for name in names if name.endswith(WORDS)}


before = found()

from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
after = found()
rank, size = (str(world.rank), str(world.size))
assert before and before.keys() == after.keys(), (before, after)
for name, value in after.items():
    # All clients are on this machine.
    expected = rank if name.endswith(("RANK", "RANKID")) else size
    assert value == expected, (name, value, expected)
ranks = world.gather(
    (
        before.get("PMI_RANK", before.get("OMPI_COMM_WORLD_RANK")),
        before.get("MPI_LOCALNRANKS"),
    )
)
if world.rank == 0:
    print(ranks)
