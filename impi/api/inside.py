"""Blocking collectives of communicators inside one client: by memory that its procs share, or by its MPI library alone.

Roots, counts and types are everybody's alike; where they are wrong, or anything is, the long way says so.

Where the procs share memory they agree in every call who goes which way (:mod:`impi.engine.rollcall`). What is short
enough then goes by slots (:mod:`impi.engine.slots`), the rest by the library's blocking collectives. Elsewhere its
non-blocking ones are called, which meet those of the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from impi.api import insideblocks as blocks
from impi.api import insidecounts as counts
from impi.api import insidereductions as reductions
from impi.api.insideways import Ways
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.vendors.base import Prompt

if TYPE_CHECKING:
    from impi.api.op import Op

__all__ = ["Inside"]


class Inside:
    """The collectives of one communicator: functions that say whether they have done it; False is: nothing was done.

    They raise what the library raises, ``failure``; what a program should see of it says ``translated``. Those that are
    ``agreed`` on have begun everywhere then.

    Args:
        engine: of this proc.
        context: of the communicator.
        prompt: its library's communicator.
    """

    # fmt: off
    __slots__ = (
        "agreed", "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "failure",
        "gather", "gatherv", "reduce", "reduce_scatter", "scatter", "scatterv", "translated",
    )
    # fmt: on

    def __init__(self, engine: Engine, context: Context, prompt: Prompt) -> None:
        calls = None if engine.board is None else engine.board.calls(engine, context)
        self.translated = prompt.translated
        self.failure = prompt.failure
        ways = Ways(engine, context, prompt, calls)
        self.agreed = ways.agreed
        self.barrier: Callable[[], bool] = blocks.barrier(ways)
        self.bcast: Callable[[Any, Any], bool] = blocks.bcast(ways)
        self.gather: Callable[[Any, Any, Any], bool] = blocks.gather(ways)
        self.scatter: Callable[[Any, Any, Any], bool] = blocks.scatter(ways)
        self.allgather: Callable[[Any, Any], bool] = blocks.allgather(ways)
        self.alltoall: Callable[[Any, Any], bool] = blocks.alltoall(ways)
        self.gatherv: Callable[[Any, Any, Any], bool] = counts.gatherv(ways)
        self.scatterv: Callable[[Any, Any, Any], bool] = counts.scatterv(ways)
        self.allgatherv: Callable[[Any, Any], bool] = counts.allgatherv(ways)
        self.alltoallv: Callable[[Any, Any], bool] = counts.alltoallv(ways)
        self.reduce: Callable[[Any, Any, Op, Any], bool] = reductions.reduce(ways)
        self.allreduce: Callable[[Any, Any, Op], bool] = reductions.allreduce(ways)
        self.reduce_scatter: Callable[[Any, Any, Any, Op], bool] = reductions.reduce_scatter(ways)
