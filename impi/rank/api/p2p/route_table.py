"""The routes of a communicator by rank: one for each rank, chosen at its first message.

How it works: a table is a dictionary, so the usual call is one lookup, ``table[rank]``. A rank
without an entry comes to ``__missing__``, which checks it, chooses the class and keeps the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.protocol.semantics.constants import ANY_SOURCE, PROC_NULL
from impi.protocol.semantics.errors import MPIException, again, error
from impi.rank.api import runtime
from impi.rank.api.handles.integers import fitting, integer
from impi.rank.api.p2p.routes import ChannelRoute, NullRoute, QueuedRoute, Route
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine


class Routes(dict[int, Route]):
    """The routes of one communicator by rank; created on demand.

    Args:
        engine: of this proc.
        context: of the communicator.
        receiving: the ranks are sources of receives, MPI_ANY_SOURCE included.
        to: makes the route to or from a rank that there is.

    Raises:
        Exception: ERR_RANK: no such rank.
    """

    def __init__(
        self,
        engine: Engine,
        context: Context,
        *,
        receiving: bool,
        to: Callable[[Engine, Context, int], Route] | None = None,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._context = context
        self._receiving = receiving
        self._to = to or _to

    def __missing__(self, rank: int) -> Route:
        engine, context = self._engine, self._context

        known = context.nsources if self._receiving else context.npeers
        if type(rank) is not int:
            # An integer of another class leads to the route of the int that it stands for.
            return self[integer(rank)]

        if rank == PROC_NULL:
            route: Route = NullRoute(engine)
        elif rank == ANY_SOURCE and self._receiving:
            route = QueuedRoute(engine, context, rank)
        elif not 0 <= fitting(rank) < known:
            what = "source" if self._receiving else "destination"
            raise error("ERR_RANK", f"{what} rank {rank} is not in 0..{known - 1}")
        else:
            route = self._to(engine, context, rank)

        self[rank] = route

        return route


class _NoRoutes(dict[int, Route]):
    def __missing__(self, rank: int) -> Route:
        runtime.engine()  # raises if MPI is not active
        raise error("ERR_COMM", "null communicator")


class Closed:
    """The routes of a null or freed communicator: every access raises."""

    destinations: dict[int, Route] = _NoRoutes()
    sources: dict[int, Route] = _NoRoutes()


CLOSED: Final = Closed()


class Revoked(dict[int, Route]):
    """The routes of a revoked communicator: every access raises."""

    def __init__(self, failure: MPIException) -> None:
        super().__init__()
        self._failure = failure

    def __missing__(self, rank: int) -> Route:
        raise again(self._failure)


def _to(engine: Engine, context: Context, rank: int) -> Route:
    if engine.reduce_on_p2p or engine.job.is_resilient:
        # Only the engine knows collectives by tag, and can end operations that wait for a lost
        # proc.
        return QueuedRoute(engine, context, rank)

    if rank not in context.shadow.rank_of:
        return ChannelRoute(engine, context, rank)

    if context.shadow.comm is None or context.shadow.comm.native is None:
        return QueuedRoute(engine, context, rank)

    # Other ranks need not load it
    from impi.rank.api.p2p.library_route import library_route

    return library_route(engine, context, context.shadow.comm.native, rank)
