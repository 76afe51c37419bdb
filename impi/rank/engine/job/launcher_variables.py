"""The variables in which mpiexec tells each proc its rank, as they are in a whole job.

A vendor's launcher knows its own client only. Programs read these variables to find out whether
mpiexec has started them, or to choose a device of their node. The libraries read them at MPI_Init,
so they are corrected after that.

PMIX_RANK stays: with PMIX_NAMESPACE it is Open MPI's name of the proc, not a rank in a job.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from impi.protocol.job import Job

VARIABLES: Final = {
    "rank in `MPI_COMM_WORLD`": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "size of `MPI_COMM_WORLD`": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "rank among the procs on its node": (
        "MPI_LOCALRANKID",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_NODE_RANK",
    ),
    "number of procs on its node": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""The names of the variables, by meaning. A pure client has those of MPICH."""


def of_client(rank: int, size: int, node_rank: int, node_size: int) -> dict[str, str]:
    """Return the variables of a proc without a launcher of its own: those of MPICH's."""
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "MPI_LOCALRANKID": str(node_rank),
        "MPI_LOCALNRANKS": str(node_size),
    }


def correct(environ: MutableMapping[str, str], job: Job, rank: int) -> None:
    """Give the variables that ``environ`` has the values of proc ``rank`` of the job.

    Procs with one address are on one node.
    """
    node = [proc.rank for proc in job.procs if proc.ipv6 == job.procs[rank].ipv6]

    values = (rank, len(job.procs), node.index(rank), len(node))
    for names, value in zip(VARIABLES.values(), values, strict=True):
        for name in names:
            if name in environ:
                environ[name] = str(value)
