"""Chapter 4 as generators of steps: sends and receives of every process, without I/O.

Each operation is ``operation(layout, rank, [root,] value, ..., [maxlinear=])``. Every process of
the communicator calls it in the same order, and a driver runs the steps that it yields
(:mod:`.steps`). Messages between clients follow chapter 4. Between processes of one client the
choice is ours, and such messages never reach the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from impi.protocol.collectives.chapter4.allgather import allgather
from impi.protocol.collectives.chapter4.allgatherv import (
    allgatherv,
    allgatherv_by_gathervs,
)
from impi.protocol.collectives.chapter4.allreduce import allreduce
from impi.protocol.collectives.chapter4.alltoall import alltoall, alltoall_by_masters
from impi.protocol.collectives.chapter4.alltoallv import alltoallv
from impi.protocol.collectives.chapter4.barrier import barrier
from impi.protocol.collectives.chapter4.bcast import bcast
from impi.protocol.collectives.chapter4.gather import gather, is_short
from impi.protocol.collectives.chapter4.gatherv import gatherv
from impi.protocol.collectives.chapter4.reduce import reduce
from impi.protocol.collectives.chapter4.reduce_scatter import reduce_scatter
from impi.protocol.collectives.chapter4.scan import exscan, scan
from impi.protocol.collectives.chapter4.scatter import scatter, scatter_by_masters
from impi.protocol.collectives.chapter4.scatterv import scatterv
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Fixed, Octets, Packing, Prefixed, Sized
from impi.protocol.collectives.reduction import Elements, Reduction
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send, Step

if TYPE_CHECKING:
    from impi.protocol.collectives.beyond.exchange import (
        allgather_by_exchange,
        barrier_by_exchange,
    )
    from impi.protocol.collectives.beyond.reproducible import (
        reproducible_allreduce,
        reproducible_reduce,
        reproducible_reduce_scatter,
    )
    from impi.protocol.collectives.beyond.shapes import SHAPES, Shape
    from impi.protocol.collectives.beyond.tuned_bcast import bcast_over
    from impi.protocol.collectives.beyond.tuned_reduce import (
        allreduce_by_elimination,
        reduce_by_elimination,
    )
    from impi.protocol.collectives.beyond.tuned_scatter import scatter_over
else:
    # Loaded with the first call that a table of decisions sends there: imports are most of a start.
    _LATER = {
        "allgather_by_exchange": "impi.protocol.collectives.beyond.exchange",
        "barrier_by_exchange": "impi.protocol.collectives.beyond.exchange",
        "reproducible_allreduce": "impi.protocol.collectives.beyond.reproducible",
        "reproducible_reduce": "impi.protocol.collectives.beyond.reproducible",
        "reproducible_reduce_scatter": "impi.protocol.collectives.beyond.reproducible",
        "SHAPES": "impi.protocol.collectives.beyond.shapes",
        "Shape": "impi.protocol.collectives.beyond.shapes",
        "bcast_over": "impi.protocol.collectives.beyond.tuned_bcast",
        "allreduce_by_elimination": "impi.protocol.collectives.beyond.tuned_reduce",
        "reduce_by_elimination": "impi.protocol.collectives.beyond.tuned_reduce",
        "scatter_over": "impi.protocol.collectives.beyond.tuned_scatter",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

        from importlib import import_module

        # Kept, so that the next use finds it without this function.
        globals()[name] = found = getattr(import_module(_LATER[name]), name)

        return found


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
    "allgather_by_exchange",
    "allgatherv",
    "allgatherv_by_gathervs",
    "allreduce",
    "allreduce_by_elimination",
    "alltoall",
    "alltoall_by_masters",
    "alltoallv",
    "barrier",
    "barrier_by_exchange",
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
    "reproducible_allreduce",
    "reproducible_reduce_scatter",
    "scan",
    "scatter",
    "scatter_by_masters",
    "scatter_over",
    "scatterv",
]
