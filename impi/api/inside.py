"""Blocking collectives of communicators inside one client, by its MPI library alone (see :mod:`impi.api.prompt`).

Roots, counts and types are everybody's alike; where they are wrong, or anything is, the long way says so.

Where the procs share memory they agree in every call who goes which way (:mod:`impi.engine.rollcall`), and these are
the library's blocking collectives. Elsewhere they are its non-blocking ones, which meet those of the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from impi.api.prompt import SIZES, Spec, contiguous, datatype_of, divided, located, placed, writable
from impi.api.reductions import library_names
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import waiter
from impi.engine.rollcall import SIGN_BITS, RollCall
from impi.job import REPRODUCIBLE
from impi.vendors.base import INT_MAX, Prompt

if TYPE_CHECKING:
    from impi.api.op import Op

__all__ = ["Inside"]

Way = Callable[..., bool]
"""Whether the library has done a collective: a sign of what must be everybody's, then what the library takes."""

_BARRIER: Final = 1
_BCAST: Final = 2
_GATHER: Final = 3
_SCATTER: Final = 4
_ALLGATHER: Final = 5
_ALLTOALL: Final = 6
_ALLGATHERV: Final = 7
_REDUCE: Final = 8
_ALLREDUCE: Final = 9
_REDUCE_SCATTER: Final = 10
_GATHERV: Final = 11
_SCATTERV: Final = 12
_ALLTOALLV: Final = 13
_KINDS: Final = 16
_SIGNS: Final = 2**SIGN_BITS - 1


class Inside:
    """The collectives of one communicator: functions that say whether they have done it; False is: nothing was done.

    Args:
        engine: of this proc.
        context: of the communicator.
        prompt: its library's communicator.
    """

    # fmt: off
    __slots__ = (
        "absent", "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "gather",
        "gatherv", "reduce", "reduce_scatter", "scatter", "scatterv",
    )
    # fmt: on

    def __init__(self, engine: Engine, context: Context, prompt: Prompt) -> None:
        calls = None if engine.board is None else engine.board.calls(engine, context)
        call = _Call(engine, context, prompt, calls)
        self.absent: Callable[[], object] = _nobody_asks if calls is None else calls.away
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

    def __init__(self, engine: Engine, context: Context, prompt: Prompt, calls: RollCall | None) -> None:
        self._context = context
        self._prompt = prompt
        self._calls = calls
        self._byte = prompt.byte
        self._rank = context.rank
        self._size = len(context.members)
        self._reduces = REPRODUCIBLE not in engine.job.collectives
        self._until = waiter(engine, prompt.failure, context)

    def barrier(self) -> Callable[[], bool]:
        """See MPI_Barrier."""
        way, away, faults, earlier = self._way("Barrier")

        def call() -> bool:
            if earlier or not faults.calm:
                return away()
            return way(_BARRIER)

        return call

    def bcast(self) -> Callable[[Any, Any], bool]:
        """See MPI_Bcast."""
        way, away, faults, earlier = self._way("Bcast")
        byte, size, rank = self._byte, self._size, self._rank

        def call(spec: Any, root: Any) -> bool:
            try:
                place = located(spec, byte)
                if place is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if not (contiguous if root == rank else writable)(place[0]):
                    return away()
                sign = (place[1] * size + root) * _KINDS + _BCAST
            except Exception:
                return away()
            return way(sign, place, root)

        return call

    def gather(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gather."""
        way, away, faults, earlier = self._way("Gather")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                mine = located(sendspec, byte)
                into = divided(recvspec, byte, size) if root == rank else None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if mine[1] * size > INT_MAX or not _fit(mine, into, root == rank):
                    return away()
                sign = (mine[1] * size + root) * _KINDS + _GATHER
            except Exception:
                return away()
            return way(sign, mine, into, root)

        return call

    def scatter(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatter."""
        way, away, faults, earlier = self._way("Scatter")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                into = located(recvspec, byte)
                pieces = divided(sendspec, byte, size) if root == rank else None
                if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if into[1] * size > INT_MAX or not writable(into[0]):
                    return away()
                if root == rank and (pieces is None or pieces[1] != into[1] or not contiguous(pieces[0])):
                    return away()
                sign = (into[1] * size + root) * _KINDS + _SCATTER
            except Exception:
                return away()
            return way(sign, pieces, into, root)

        return call

    def allgather(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgather."""
        way, away, faults, earlier = self._way("Allgather")
        byte, size = self._byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                mine, into = located(sendspec, byte), divided(recvspec, byte, size)
                if mine is None or not _fit(mine, into, True) or earlier or not faults.calm:
                    return away()
                sign = mine[1] * _KINDS + _ALLGATHER
            except Exception:
                return away()
            return way(sign, mine, into)

        return call

    def alltoall(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoall."""
        way, away, faults, earlier = self._way("Alltoall")
        byte, size = self._byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                pieces, into = divided(sendspec, byte, size), divided(recvspec, byte, size)
                if pieces is None or not _fit(pieces, into, True) or earlier or not faults.calm:
                    return away()
                sign = pieces[1] * _KINDS + _ALLTOALL
            except Exception:
                return away()
            return way(sign, pieces, into)

        return call

    def allgatherv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgatherv."""
        way, away, faults, earlier = self._way("Allgatherv")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                mine, (into, counts, displs) = located(sendspec, byte), placed(recvspec, size)
                if mine is None or mine[1] != counts[rank] or sum(counts) > INT_MAX or earlier or not faults.calm:
                    return away()
                if into.readonly or not contiguous(mine[0]):
                    return away()
                sign = (hash(tuple(counts)) * _KINDS & _SIGNS) + _ALLGATHERV
                there = [into, counts, displs, byte]
            except Exception:
                return away()
            return way(sign, mine, there)

        return call

    # ---- reductions ------------------------------------------------------------------------------------

    def reduce(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce."""
        way, away, faults, earlier = self._way("Reduce")
        known, size, rank = self._reduction(), self._size, self._rank

        def call(sendspec: Any, recvspec: Any, op: Any, root: Any) -> bool:
            try:
                state = datatype_of(sendspec)
                datatype, function, width, code = known(op, state)
                mine = located(sendspec, datatype)
                into = located(recvspec, datatype) if root == rank else None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if not _fit(mine, into, root == rank):
                    return away()
                if into is not None:
                    if datatype_of(recvspec) is not state:
                        return away()
                    into[1] //= width
                mine[1] //= width
                sign = (((mine[1] * size + root) * _KINDS + _REDUCE) ^ code) & _SIGNS
            except Exception:
                return away()
            return way(sign, mine, into, function, root)

        return call

    def allreduce(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Allreduce."""
        way, away, faults, earlier = self._way("Allreduce")
        known = self._reduction()

        def call(sendspec: Any, recvspec: Any, op: Any) -> bool:
            try:
                state = datatype_of(sendspec)
                datatype, function, width, code = known(op, state)
                mine, into = located(sendspec, datatype), located(recvspec, datatype)
                if mine is None or into is None or not _fit(mine, into, True):
                    return away()
                if datatype_of(recvspec) is not state or earlier or not faults.calm:
                    return away()
                mine[1] = into[1] = count = mine[1] // width
                sign = (count * _KINDS + _ALLREDUCE) ^ code
            except Exception:
                return away()
            return way(sign, mine, into, function)

        return call

    def reduce_scatter(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce_scatter."""
        way, away, faults, earlier = self._way("Reduce_scatter")
        known, size, rank = self._reduction(), self._size, self._rank

        def call(sendspec: Any, recvspec: Any, counts: Any, op: Any) -> bool:
            try:
                if type(counts) is not list or len(counts) != size or earlier or not faults.calm:
                    return away()
                state = datatype_of(sendspec)
                datatype, function, width, code = known(op, state)
                mine, into = located(sendspec, datatype), located(recvspec, datatype)
                if mine is None or into is None or min(counts) < 0 or datatype_of(recvspec) is not state:
                    return away()
                whole = sum(counts)
                if type(whole) is not int or mine[1] != whole * width or into[1] != counts[rank] * width:
                    return away()
                if mine[0] is into[0] or not (contiguous(mine[0]) and writable(into[0])):
                    return away()
                mine[1] //= width
                into[1] //= width
                sign = ((hash(tuple(counts)) * _KINDS + _REDUCE_SCATTER) ^ code) & _SIGNS
            except Exception:
                return away()
            return way(sign, mine, into, counts, function)

        return call

    def _reduction(self) -> Callable[[Any, Any], tuple[Any, Any, int, int]]:
        """A function for the library's datatype and operation, the octets of an element, and a code for them.

        It raises an Exception of any kind where the library has none.
        """
        found: dict[tuple[Any, Any], tuple[Any, Any, int, int]] = {}

        def known(op: Any, state: Any) -> tuple[Any, Any, int, int]:
            try:
                return found[op._state, state]
            except KeyError:
                names = library_names(op, state) if self._reduces else None
                if names is None:
                    raise
                code = crc32(" ".join(names).encode()) * _KINDS
                found[op._state, state] = (*self._prompt.reduction(names[1], names[0]), SIZES[state], code)
                return found[op._state, state]

        return known

    # ---- where not everybody knows all sizes -----------------------------------------------------------

    # The long way makes messages of these, so there is no other for a library's non-blocking collective.

    def gatherv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gatherv."""
        away, faults, earlier = self._order()
        if self._calls is None:
            return lambda sendspec, recvspec, root: False
        rooted, done = self._calls.rooted, self._done("Gatherv")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                mine, into, counts = located(sendspec, byte), None, None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if root == rank:
                    view, counts, displs = placed(recvspec, size)
                    if mine[1] != counts[rank] or sum(counts) > INT_MAX or view.readonly:
                        return away()
                    into = [view, counts, displs, byte]
                if not contiguous(mine[0]):
                    return away()
                sign = root * _KINDS + _GATHERV
            except Exception:
                return away()
            faults.begun += 1
            if not rooted(sign, root, mine[1], lambda r, nbytes: counts is not None and nbytes == counts[r]):
                faults.begun -= 1
                return False
            return done(mine, into, root)

        return call

    def scatterv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatterv."""
        away, faults, earlier = self._order()
        if self._calls is None:
            return lambda sendspec, recvspec, root: False
        rooted, done = self._calls.rooted, self._done("Scatterv")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                into, pieces, counts = located(recvspec, byte), None, None
                if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if root == rank:
                    view, counts, displs = placed(sendspec, size)
                    if into[1] < counts[rank] or sum(counts) > INT_MAX:
                        return away()
                    pieces = [view, counts, displs, byte]
                if not writable(into[0]):
                    return away()
                sign = root * _KINDS + _SCATTERV
            except Exception:
                return away()
            faults.begun += 1
            if not rooted(sign, root, into[1], lambda r, nbytes: counts is not None and nbytes >= counts[r]):
                faults.begun -= 1
                return False
            return done(pieces, into, root)

        return call

    def alltoallv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoallv."""
        away, faults, earlier = self._order()
        if self._calls is None:
            return lambda sendspec, recvspec: False
        matched, done = self._calls.matched, self._done("Alltoallv")
        byte, size, rank = self._byte, self._size, self._rank

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                view, sent, begins = placed(sendspec, size)
                into, counts, displs = placed(recvspec, size)
                if sent[rank] != counts[rank] or into.readonly or earlier or not faults.calm:
                    return away()
                if sum(sent) > INT_MAX or sum(counts) > INT_MAX:
                    return away()
            except Exception:
                return away()
            faults.begun += 1
            if not matched(_ALLTOALLV, sent, counts):
                faults.begun -= 1
                return False
            return done([view, sent, begins, byte], [into, counts, displs, byte])

        return call

    # ---- ways ------------------------------------------------------------------------------------------

    def _way(self, name: str) -> tuple[Way, Callable[[], bool], Any, Any]:
        """For a collective of that name: how the library does it, how it is left to the long way, and what must be so
        that one can begin now: nobody has refused one, and none is under way.
        """
        calls = self._calls
        return (self._asked(name) if calls is None else self._agreed(name, calls)), *self._order()

    def _order(self) -> tuple[Callable[[], bool], Any, Any]:
        calls, context = self._calls, self._context
        if calls is None:
            return _nobody_asks, context.faults, context.collectives
        absent = calls.away

        def away() -> bool:
            absent()
            return False

        return away, context.faults, context.collectives

    def _agreed(self, name: str, calls: RollCall) -> Way:
        """A blocking collective, once all have come to it."""
        together, faults, counter = calls.together, self._context.faults, self._prompt.counter
        call, failure = getattr(self._prompt.comm, name), self._prompt.failure

        def meeting(sign: int) -> bool:
            faults.begun += 1
            if together(sign):
                return True
            faults.begun -= 1
            return False

        def way(sign: int, *what: Any) -> bool:
            faults.begun += 1
            if not together(sign):
                faults.begun -= 1
                return False
            counter.messages += 1
            try:
                call(*what)
            except failure as found:
                raise self._prompt.translated(found) from None
            return True

        # To have come together is all there is of a barrier.
        return meeting if name == "Barrier" else way

    def _done(self, name: str) -> Callable[..., bool]:
        """A blocking collective to which all have come."""
        call, counter, failure = getattr(self._prompt.comm, name), self._prompt.counter, self._prompt.failure

        def done(*what: Any) -> bool:
            counter.messages += 1
            try:
                call(*what)
            except failure as found:
                raise self._prompt.translated(found) from None
            return True

        return done

    def _asked(self, name: str) -> Way:
        """A non-blocking collective, which is asked for its end."""
        start, faults = getattr(self._prompt.comm, f"I{name.lower()}"), self._context.faults
        counter, failure, until = self._prompt.counter, self._prompt.failure, self._until

        def way(sign: int, *what: Any) -> bool:
            try:
                request = start(*what)
            except Exception:
                return False
            counter.messages += 1
            faults.begun += 1
            try:
                until(request.Test, what)
            except failure as found:
                raise self._prompt.translated(found) from None
            return True

        return way


def _nobody_asks() -> bool:
    """For the way of one proc."""
    return False


def _fit(mine: Spec, into: Spec | None, receives: bool) -> bool:
    """Whether blocks that are sent and blocks that are received are as many octets, and memory the library can use."""
    if not receives:
        return contiguous(mine[0])
    if into is None or mine[1] != into[1] or mine[0] is into[0]:
        return False
    return contiguous(mine[0]) and writable(into[0])
