"""Blocking collectives of communicators inside one client, by its MPI library alone (see :mod:`impi.api.prompt`).

Roots, counts and types are everybody's alike; where they are wrong, or anything is, the long way says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from impi.api.prompt import SIZES, Spec, datatype_of, divided, located, placed, truncated, writable
from impi.api.reductions import library_names
from impi.collectives.tags import ALLTOALLV_TAG, GATHERV_TAG, SCATTERV_TAG
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import waiter
from impi.job import REPRODUCIBLE
from impi.semantics.errors import MPIException
from impi.vendors.base import INT_MAX, Prompt

if TYPE_CHECKING:
    from impi.api.op import Op

__all__ = ["Inside"]


class Inside:
    """The collectives of one communicator: functions that say whether they have done it; False is: nothing was done.

    Args:
        engine: of this proc.
        context: of the communicator.
        prompt: its library's communicator.
    """

    # fmt: off
    __slots__ = (
        "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "gather", "gatherv",
        "reduce", "reduce_scatter", "scatter", "scatterv",
    )
    # fmt: on

    def __init__(self, engine: Engine, context: Context, prompt: Prompt) -> None:
        call = _Call(engine, context, prompt)
        self.barrier: Callable[[], bool] = call.barrier()
        self.bcast: Callable[[Any, Any], bool] = call.bcast()
        self.gather: Callable[[Any, Any, Any], bool] = call.gather()
        self.scatter: Callable[[Any, Any, Any], bool] = call.scatter()
        self.allgather: Callable[[Any, Any], bool] = call.allgather()
        self.alltoall: Callable[[Any, Any], bool] = call.alltoall()
        self.gatherv: Callable[[Any, Any, Any], bool] = call.gatherv()
        self.scatterv: Callable[[Any, Any, Any], bool] = call.scatterv()
        self.allgatherv: Callable[[Any, Any], bool] = call.allgatherv()
        self.alltoallv: Callable[[Any, Any], bool] = call.alltoallv()
        self.reduce: Callable[[Any, Any, Op, Any], bool] = call.reduce()
        self.allreduce: Callable[[Any, Any, Op], bool] = call.allreduce()
        self.reduce_scatter: Callable[[Any, Any, Any, Op], bool] = call.reduce_scatter()

    @classmethod
    def of(cls, engine: Engine, context: Context) -> Inside | None:
        """None: not all members are procs of one client with a library, there is only one, or somebody has chosen other
        ways of collectives than ours.
        """
        shadow, job = context.shadow, engine.job
        if shadow is None or shadow.prompt is None or context.is_inter or job.verify or engine.reduce_on_p2p:
            return None
        if set(job.collectives) - {REPRODUCIBLE}:
            return None
        return cls(engine, context, shadow.prompt) if 1 < len(context.members) == shadow.size else None


class _Call:
    """Makes the functions of :class:`Inside`."""

    def __init__(self, engine: Engine, context: Context, prompt: Prompt) -> None:
        self._context = context
        self._prompt = prompt
        self._comm = prompt.comm
        self._byte = prompt.byte
        self._rank = context.rank
        self._size = len(context.members)
        self._others = [(context.rank + i) % self._size for i in range(1, self._size)]
        self._finish = _waiter(engine, context, prompt)
        self._reduces = REPRODUCIBLE not in engine.job.collectives

    def barrier(self) -> Callable[[], bool]:
        """See MPI_Barrier."""
        start, finish, faults, earlier = self._comm.Ibarrier, self._finish, *self._order()

        def call() -> bool:
            if earlier or not faults.calm:
                return False
            try:
                request = start()
            except Exception:
                return False
            return finish(request.Test, None)

        return call

    def bcast(self) -> Callable[[Any, Any], bool]:
        """See MPI_Bcast."""
        start, finish, faults, earlier = self._comm.Ibcast, self._finish, *self._order()
        byte, size = self._byte, self._size

        def call(spec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                place = located(spec, byte)
                if place is None or not 0 <= root < size:
                    return False
                request = start(place, root)
            except Exception:
                return False
            return finish(request.Test, place)

        return call

    def gather(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gather."""
        start, finish, faults, earlier = self._comm.Igather, self._finish, *self._order()
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine = located(sendspec, byte)
                into = divided(recvspec, byte, size) if root == rank else None
                if mine is None or (into is None and root == rank) or not 0 <= root < size:
                    return False
                if mine[1] * size > INT_MAX:
                    return False
                request = start(mine, into, root)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def scatter(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatter."""
        start, finish, faults, earlier = self._comm.Iscatter, self._finish, *self._order()
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                into = located(recvspec, byte)
                pieces = divided(sendspec, byte, size) if root == rank else None
                if into is None or (pieces is None and root == rank) or not 0 <= root < size:
                    return False
                if into[1] * size > INT_MAX:
                    return False
                request = start(pieces, into, root)
            except Exception:
                return False
            return finish(request.Test, (into, pieces))

        return call

    def allgather(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgather."""
        start, finish, faults, earlier = self._comm.Iallgather, self._finish, *self._order()
        byte, size = self._byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine, into = located(sendspec, byte), divided(recvspec, byte, size)
                if mine is None or into is None or mine[1] * size > INT_MAX:
                    return False
                request = start(mine, into)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def alltoall(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoall."""
        start, finish, faults, earlier = self._comm.Ialltoall, self._finish, *self._order()
        byte, size = self._byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                pieces, into = divided(sendspec, byte, size), divided(recvspec, byte, size)
                if pieces is None or into is None:
                    return False
                request = start(pieces, into)
            except Exception:
                return False
            return finish(request.Test, (pieces, into))

        return call

    def allgatherv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgatherv."""
        start, finish, faults, earlier = self._comm.Iallgatherv, self._finish, *self._order()
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine, (into, counts, displs) = located(sendspec, byte), placed(recvspec, size)
                if mine is None or mine[1] != counts[rank] or sum(counts) > INT_MAX:
                    return False
                request = start(mine, [into, counts, displs, byte])
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    # ---- reductions ------------------------------------------------------------------------------------

    def reduce(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce."""
        start, finish, faults, earlier = self._comm.Ireduce, self._finish, *self._order()
        known, size, rank = self._reduction(), self._size, self._rank

        def call(sendspec: Any, recvspec: Any, op: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                state = datatype_of(sendspec)
                datatype, function, width = known(op, state)
                mine = located(sendspec, datatype)
                into = located(recvspec, datatype) if root == rank else None
                if mine is None or not 0 <= root < size:
                    return False
                if root == rank:
                    if into is None or mine[1] != into[1] or datatype_of(recvspec) is not state:
                        return False
                    into[1] //= width
                mine[1] //= width
                request = start(mine, into, function, root)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def allreduce(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Allreduce."""
        start, finish, faults, earlier = self._comm.Iallreduce, self._finish, *self._order()
        known = self._reduction()

        def call(sendspec: Any, recvspec: Any, op: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                state = datatype_of(sendspec)
                datatype, function, width = known(op, state)
                mine, into = located(sendspec, datatype), located(recvspec, datatype)
                if mine is None or into is None or mine[1] != into[1] or datatype_of(recvspec) is not state:
                    return False
                mine[1] = into[1] = mine[1] // width
                request = start(mine, into, function)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def reduce_scatter(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce_scatter."""
        start, finish, faults, earlier = self._comm.Ireduce_scatter, self._finish, *self._order()
        known, size, rank = self._reduction(), self._size, self._rank

        def call(sendspec: Any, recvspec: Any, counts: Any, op: Any) -> bool:
            if earlier or not faults.calm or type(counts) is not list or len(counts) != size:
                return False
            try:
                state = datatype_of(sendspec)
                datatype, function, width = known(op, state)
                mine, into = located(sendspec, datatype), located(recvspec, datatype)
                if mine is None or into is None or min(counts) < 0 or datatype_of(recvspec) is not state:
                    return False
                if mine[1] != sum(counts) * width or into[1] != counts[rank] * width:
                    return False
                mine[1] //= width
                into[1] //= width
                request = start(mine, into, counts, function)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def _reduction(self) -> Callable[[Any, Any], tuple[Any, Any, int]]:
        """A function for the library's datatype and operation, and the octets of an element.

        It raises an Exception of any kind where the library has none.
        """
        found: dict[tuple[Any, Any], tuple[Any, Any, int]] = {}

        def known(op: Any, state: Any) -> tuple[Any, Any, int]:
            try:
                return found[op._state, state]
            except KeyError:
                names = library_names(op, state) if self._reduces else None
                if names is None:
                    raise
                found[op._state, state] = (*self._prompt.reduction(names[1], names[0]), SIZES[state])
                return found[op._state, state]

        return known

    # ---- where not everybody knows all sizes -----------------------------------------------------------

    # Both ways make messages of these, each between its two procs.

    def gatherv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gatherv."""
        finish, (receive, send), (waiting, faults, earlier) = self._finish, self._messages(GATHERV_TAG), self._first()
        byte, size, rank, others = self._byte, self._size, self._rank, self._others

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm or waiting():
                return False
            try:
                mine = located(sendspec, byte)
                if mine is None or not 0 <= root < size:
                    return False
                if root == rank:
                    into, counts, displs = placed(recvspec, size)
                    if mine[1] != counts[rank]:
                        return False
                    into[displs[rank] : displs[rank] + mine[1]] = memoryview(mine[0]).cast("B")[: mine[1]]
            except Exception:
                return False
            if root != rank:
                return finish(send(mine, root).Test, mine)
            return finish(_all([receive([into, (counts[r], displs[r]), byte], r) for r in others]), into)

        return call

    def scatterv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatterv."""
        finish, (receive, send), (waiting, faults, earlier) = self._finish, self._messages(SCATTERV_TAG), self._first()
        byte, size, rank, others = self._byte, self._size, self._rank, self._others

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm or waiting():
                return False
            try:
                into = located(recvspec, byte)
                if into is None or not 0 <= root < size or not writable(into[0]):
                    return False
                if root == rank:
                    view, counts, displs = placed(sendspec, size)
                    if into[1] < counts[rank]:
                        return False
                    own = view[displs[rank] : displs[rank] + counts[rank]]
                    memoryview(into[0]).cast("B")[: counts[rank]] = own
            except Exception:
                return False
            if root != rank:
                return finish(receive(into, root).Test, into)
            return finish(_all([send([view, (counts[r], displs[r]), byte], r) for r in others]), view)

        return call

    def alltoallv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoallv."""
        finish, (receive, send), (waiting, faults, earlier) = self._finish, self._messages(ALLTOALLV_TAG), self._first()
        byte, size, rank, others = self._byte, self._size, self._rank, self._others

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm or waiting():
                return False
            try:
                view, sent, begins = placed(sendspec, size)
                into, counts, displs = placed(recvspec, size)
                if sent[rank] != counts[rank]:
                    return False
                into[displs[rank] : displs[rank] + counts[rank]] = view[begins[rank] : begins[rank] + sent[rank]]
            except Exception:
                return False
            requests = [receive([into, (counts[r], displs[r]), byte], r) for r in others]
            requests += [send([view, (sent[r], begins[r]), byte], r) for r in others]
            return finish(_all(requests), (view, into))

        return call

    def _messages(self, tag: int) -> tuple[Callable[[Spec, int], Any], Callable[[Spec, int], Any]]:
        """Functions that start to receive from, and to send to a rank."""
        native, counter = 2 * tag + 1, self._prompt.counter
        receives, sends = self._comm.Irecv, self._comm.Isend

        def receive(place: Spec, source: int) -> Any:
            return receives(place, source, native)

        def send(piece: Spec, dest: int) -> Any:
            counter.messages += 1
            return sends(piece, dest, native)

        return (partial(_Probed, self._context, self._prompt, tag) if self._prompt.probes else receive), send

    # ---- order -----------------------------------------------------------------------------------------

    def _order(self) -> tuple[Any, Any]:
        """What must be so that one can begin now: nobody has refused one, and none is under way."""
        return self._context.faults, self._context.collectives

    def _first(self) -> tuple[Callable[[], bool], Any, Any]:
        """The same for messages; and no older one waits to be matched by us."""
        posted, unexpected = self._context.matchers[1].lines()
        return lambda: bool(posted or unexpected), *self._order()


def _all(requests: list[Any]) -> Callable[[], bool]:
    """Asks for the end of all."""
    if len(requests) == 1:
        return requests[0].Test  # type: ignore[no-any-return]

    def test() -> bool:
        # Each is asked, for one may wait for what another proc's asking brings about.
        requests[:] = [request for request in requests if not request.Test()]
        return not requests

    return test


class _Probed:
    """A receive of a part of a collective, where the library must be asked for messages first."""

    __slots__ = ("_context", "_failure", "_pending", "_place", "_prompt", "_source", "_tag")

    def __init__(self, context: Context, prompt: Prompt, tag: int, place: Spec, source: int) -> None:
        self._context = context
        self._prompt = prompt
        self._tag, self._place, self._source = tag, place, source
        self._pending: Any = None
        self._failure: MPIException | None = None

    def Test(self) -> bool:
        """As that of a request.

        Raises:
            Exception: ERR_TRUNCATE, more has come than there is room for; it is gone.
        """
        if self._pending is None:
            arrival = self._arrival()
            if arrival is None:
                return False
            buf, room, _ = self._place
            view, start = memoryview(buf).cast("B"), 0
            if type(room) is tuple:
                room, start = room
            if arrival.nbytes > room:
                view, start = memoryview(bytearray(arrival.nbytes)), 0
                self._failure = truncated(self._source, self._tag, room)
            self._pending = arrival.receive(view[start:])
        done: bool = self._pending.test()
        if done and self._failure is not None:
            raise self._failure
        return done

    def _arrival(self) -> Any:
        matcher = self._context.matchers[1]
        if matcher.lines()[1]:
            # Something else has had its turn and taken it off the library's queue.
            message = matcher.take(self._source, self._tag)
            if message is not None:
                return message.local
        status = self._prompt.status()
        message = self._prompt.comm.Improbe(self._source, 2 * self._tag + 1, status)
        return None if message is None else self._prompt.arrival(message, status)


def _waiter(engine: Engine, context: Context, prompt: Prompt) -> Callable[[Callable[[], bool], Any], bool]:
    """A function that waits for a collective of the library that has been started, with what must live until then."""
    faults, counter, failure = context.faults, prompt.counter, prompt.failure
    until = waiter(engine, failure, context)

    def wait(test: Callable[[], bool], keep: Any) -> bool:
        counter.messages += 1
        faults.begun += 1
        try:
            until(test, keep)
        except failure as found:
            raise prompt.translated(found) from None
        return True

    return wait
