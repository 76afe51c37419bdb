"""The tags of chapter 4 (IMPI 4.25), which messages carry in a communicator's collective context.

Allgather, allgatherv, allreduce and reduce_scatter are compositions and use the tags of their
parts. Operations that MPI added later are ours: exscan shares the tag of scan, as one communicator
runs its collectives one after another.
"""

from __future__ import annotations

from typing import Final

BARRIER_TAG: Final = 110
BCAST_TAG: Final = 120
GATHER_TAG: Final = 130
GATHERV_TAG: Final = 140
SCATTER_TAG: Final = 150
SCATTERV_TAG: Final = 160
ALLTOALL_TAG: Final = 170
ALLTOALLV_TAG: Final = 180
REDUCE_TAG: Final = 190
SCAN_TAG: Final = 200
DUP_TAG: Final = 210
"""Between the two groups of an intercommunicator that is duplicated (IMPI 4.6)."""
MERGE_TAG: Final = 220
"""Between the two groups of an intercommunicator that is merged (IMPI 4.9)."""
COMM_FREE_TAG: Final = 230
"""Between the two groups of an intercommunicator that is freed (IMPI 4.5)."""

# Ours, above all of the specification.
FAULT_TAG: Final = 250
"""A process cannot take part in a collective, and tells all others of the communicator."""
SLOT_TAG: Final = 251
"""Packets between LCOs (:mod:`impi.protocol.slots`), in the collective context of
MPI_COMM_WORLD."""
SLOT_DATA_TAG: Final = 252
"""Octets of a message between LCOs that are too many for a packet."""
RECOVERY_TAG: Final = 253
"""On MPI_COMM_WORLD: a communicator is revoked, or procs agree although some may be lost."""
NEIGHBOR_TAG: Final = 256
"""Tag of topology edges; grids add the edge's number, so all are below :data:`GROUP_TAG`."""
GROUP_TAG: Final = 640
"""The first tag for groups that make a communicator without its parent (MPI 4.1, 7.4.2)."""
GROUP_TAGS: Final = 383
"""Number of these tags. The program's tag chooses one, so creations of several threads differ."""
PARTITIONED_TAG: Final = 1024
"""The first tag of partitioned point-to-point; the program's tag is added."""
