"""Chapter 4 as generators of steps: sends and receives of every process, without I/O.

Each operation is ``operation(layout, rank, [root,] value, ..., [maxlinear=])``. Every process of
the communicator calls it in the same order, and a driver runs the steps that it yields
(:mod:`.steps`). Messages between clients follow chapter 4. Between processes of one client the
choice is ours, and such messages never reach the wire.
"""

from __future__ import annotations

from impi.collectives.allgather import allgather
from impi.collectives.allgatherv import allgatherv, allgatherv_by_gathervs
from impi.collectives.allreduce import allreduce
from impi.collectives.alltoall import alltoall, alltoall_by_masters
from impi.collectives.alltoallv import alltoallv
from impi.collectives.barrier import barrier
from impi.collectives.bcast import bcast
from impi.collectives.gather import gather, is_short
from impi.collectives.gatherv import gatherv
from impi.collectives.layout import Layout
from impi.collectives.packing import Fixed, Octets, Packing, Prefixed, Sized
from impi.collectives.reduce import reduce
from impi.collectives.reduce_scatter import reduce_scatter
from impi.collectives.reduction import Elements, Reduction
from impi.collectives.reproducible import reproducible_reduce, reproducible_reduce_scatter
from impi.collectives.scan import exscan, scan
from impi.collectives.scatter import scatter, scatter_by_masters
from impi.collectives.scatterv import scatterv
from impi.collectives.shapes import SHAPES, Shape
from impi.collectives.steps import Algorithm, Local, Recv, Send, Step
from impi.collectives.tuned_bcast import bcast_over
from impi.collectives.tuned_reduce import allreduce_by_elimination, reduce_by_elimination
from impi.collectives.tuned_scatter import scatter_over

__all__ = [
    "SHAPES",
    "Algorithm",
    "Elements",
    "Fixed",
    "Layout",
    "Local",
    "Octets",
    "Packing",
    "Prefixed",
    "Recv",
    "Reduction",
    "Send",
    "Shape",
    "Sized",
    "Step",
    "allgather",
    "allgatherv",
    "allgatherv_by_gathervs",
    "allreduce",
    "allreduce_by_elimination",
    "alltoall",
    "alltoall_by_masters",
    "alltoallv",
    "barrier",
    "bcast",
    "bcast_over",
    "exscan",
    "gather",
    "gatherv",
    "is_short",
    "reduce",
    "reduce_by_elimination",
    "reduce_scatter",
    "reproducible_reduce",
    "reproducible_reduce_scatter",
    "scan",
    "scatter",
    "scatter_by_masters",
    "scatter_over",
    "scatterv",
]
