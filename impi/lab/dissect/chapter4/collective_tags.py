"""The tags of chapter 4: one table for all judges of collectives' messages (IMPI 4.25)."""

from __future__ import annotations

from enum import IntEnum


class Tag(IntEnum):
    """The tag of each operation; composed ones, such as Allreduce, have the tags of their parts."""

    BARRIER = 110
    BCAST = 120
    GATHER = 130
    GATHERV = 140
    SCATTER = 150
    SCATTERV = 160
    ALLTOALL = 170
    ALLTOALLV = 180
    REDUCE = 190
    SCAN = 200
    DUP = 210
    MERGE = 220
    FREE = 230
