"""Blocking collectives of communicators inside one client, by its MPI library alone (see :mod:`impi.api.prompt`).

Roots, counts and types are everybody's alike; where they are wrong, or anything is, the long way says so.

Where the procs share memory they agree in every call who goes which way (:mod:`impi.engine.rollcall`), and these are
the library's blocking collectives. Elsewhere they are its non-blocking ones, which meet those of the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from impi.api.prompt import (
    SIZES,
    Layouts,
    apart_by,
    contiguous,
    datatype_of,
    divided,
    given,
    placed,
    taken,
    writable,
)
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

_Reduction = tuple[Any, Any, int, int]

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
_ALLTOALLV: Final = 13  # and 14
_KINDS: Final = 16
_SIGNS: Final = 2**SIGN_BITS - 1


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
        call = _Call(engine, context, prompt, calls)
        self.agreed = call.agreed
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
        self._apart = apart_by(prompt.address)
        self._layouts = Layouts(self._size)
        self.agreed: set[str] = set()
        """The names of those that all procs enter together."""

    def barrier(self) -> Callable[[], bool]:
        """See MPI_Barrier."""
        together, start, away, faults, earlier = self._way("Barrier")
        suffices = "Barrier" in self.agreed

        def call() -> bool:
            if earlier or not faults.calm:
                return away()
            if not together(_BARRIER):
                return False
            if not suffices:
                start()
            return True

        return call

    def bcast(self) -> Callable[[Any, Any], bool]:
        """See MPI_Bcast."""
        together, start, away, faults, earlier = self._way("Bcast")
        byte, size, rank = self._byte, self._size, self._rank

        def call(spec: Any, root: Any) -> bool:
            try:
                place = given(spec, byte) if root == rank else taken(spec, byte)
                if place is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                sign = (place[1] * size + root) * _KINDS + _BCAST
            except Exception:
                return away()
            if not together(sign):
                return False
            start(place, root)
            return True

        return call

    def gather(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gather."""
        together, start, away, faults, earlier = self._way("Gather")
        byte, size, rank = self._byte, self._size, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                mine, into = given(sendspec, byte), None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                nbytes = mine[1]
                if root == rank:
                    into = divided(recvspec, byte, size, writable)
                    if into is None or nbytes != into[1] or not apart(mine[0], into[0]):
                        return away()
                elif nbytes * size > INT_MAX:
                    return away()
                sign = (nbytes * size + root) * _KINDS + _GATHER
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, into, root)
            return True

        return call

    def scatter(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatter."""
        together, start, away, faults, earlier = self._way("Scatter")
        byte, size, rank = self._byte, self._size, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                into, pieces = taken(recvspec, byte), None
                if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                nbytes = into[1]
                if root == rank:
                    pieces = divided(sendspec, byte, size, contiguous)
                    if pieces is None or nbytes != pieces[1] or not apart(pieces[0], into[0]):
                        return away()
                elif nbytes * size > INT_MAX:
                    return away()
                sign = (nbytes * size + root) * _KINDS + _SCATTER
            except Exception:
                return away()
            if not together(sign):
                return False
            start(pieces, into, root)
            return True

        return call

    def allgather(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgather."""
        together, start, away, faults, earlier = self._way("Allgather")
        byte, size = self._byte, self._size
        apart = self._apart

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                mine, into = given(sendspec, byte), divided(recvspec, byte, size, writable)
                if mine is None or into is None or mine[1] != into[1] or not apart(mine[0], into[0]):
                    return away()
                if earlier or not faults.calm:
                    return away()
                sign = mine[1] * _KINDS + _ALLGATHER
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, into)
            return True

        return call

    def alltoall(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoall."""
        together, start, away, faults, earlier = self._way("Alltoall")
        byte, size = self._byte, self._size
        apart = self._apart

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                pieces, into = divided(sendspec, byte, size, contiguous), divided(recvspec, byte, size, writable)
                if pieces is None or into is None or pieces[1] != into[1] or not apart(pieces[0], into[0]):
                    return away()
                if earlier or not faults.calm:
                    return away()
                sign = pieces[1] * _KINDS + _ALLTOALL
            except Exception:
                return away()
            if not together(sign):
                return False
            start(pieces, into)
            return True

        return call

    def allgatherv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgatherv."""
        together, start, away, faults, earlier = self._way("Allgatherv")
        byte, rank, known = self._byte, self._rank, self._layouts
        apart = self._apart

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                mine, (into, layout) = given(sendspec, byte), placed(recvspec, known, writable)
                if (
                    mine is None
                    or mine[1] != layout.counts[rank]
                    or not apart(mine[0], into)
                    or earlier
                    or not faults.calm
                ):
                    return away()
                sign = (layout.code * _KINDS & _SIGNS) + _ALLGATHERV
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, [into, layout.counts, layout.displs, byte])
            return True

        return call

    # ---- reductions ------------------------------------------------------------------------------------

    def reduce(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce."""
        together, start, away, faults, earlier = self._way("Reduce")
        (known, learn), size, rank = self._reduction(), self._size, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, op: Any, root: Any) -> bool:
            try:
                state = datatype_of(sendspec)
                datatype, function, width, code = known.get((op._state, state)) or learn(op, state)
                mine, into = given(sendspec, datatype), None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                if root == rank:
                    into = taken(recvspec, datatype)
                    if (
                        into is None
                        or mine[1] != into[1]
                        or not apart(mine[0], into[0])
                        or datatype_of(recvspec) is not state
                    ):
                        return away()
                    into[1] //= width
                mine[1] //= width
                sign = ((mine[1] * size + root) * _KINDS + _REDUCE) ^ code
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, into, function, root)
            return True

        return call

    def allreduce(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Allreduce."""
        together, start, away, faults, earlier = self._way("Allreduce")
        known, learn = self._reduction()
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, op: Any) -> bool:
            try:
                state = datatype_of(sendspec)
                datatype, function, width, code = known.get((op._state, state)) or learn(op, state)
                mine, into = given(sendspec, datatype), taken(recvspec, datatype)
                if mine is None or into is None or mine[1] != into[1] or not apart(mine[0], into[0]):
                    return away()
                if datatype_of(recvspec) is not state or earlier or not faults.calm:
                    return away()
                mine[1] = into[1] = elements = mine[1] // width
                sign = (elements * _KINDS + _ALLREDUCE) ^ code
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, into, function)
            return True

        return call

    def reduce_scatter(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce_scatter."""
        together, start, away, faults, earlier = self._way("Reduce_scatter")
        (known, learn), lengths, rank = self._reduction(), self._layouts, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, counts: Any, op: Any) -> bool:
            try:
                state = datatype_of(sendspec)
                datatype, function, width, code = known.get((op._state, state)) or learn(op, state)
                key = (1, *counts, *counts)
                layout = lengths[key]
                if type(sum(key)) is not int:
                    return away()
                mine, into = given(sendspec, datatype), taken(recvspec, datatype)
                if mine is None or into is None or not apart(mine[0], into[0]) or datatype_of(recvspec) is not state:
                    return away()
                mine[1] //= width
                into[1] //= width
                if mine[1] != layout.whole or into[1] != layout.counts[rank] or earlier or not faults.calm:
                    return away()
                sign = ((layout.code * _KINDS & _SIGNS) + _REDUCE_SCATTER) ^ code
            except Exception:
                return away()
            if not together(sign):
                return False
            start(mine, into, layout.counts, function)
            return True

        return call

    def _reduction(self) -> tuple[dict[tuple[Any, Any], _Reduction], Callable[[Any, Any], _Reduction]]:
        """The library's datatype and operation, the octets of an element, and a code for them, by the states of ours:
        those that are known, and a function that finds them. It raises KeyError where the library has none.
        """
        known: dict[tuple[Any, Any], _Reduction] = {}

        def learn(op: Any, state: Any) -> _Reduction:
            names = library_names(op, state) if self._reduces else None
            if names is None:
                raise KeyError(op)
            code = crc32(" ".join(names).encode()) * _KINDS
            known[op._state, state] = found = (*self._prompt.reduction(names[1], names[0]), SIZES[state], code)
            return found

        return known, learn

    # ---- where not everybody knows all sizes -----------------------------------------------------------

    # The long way makes messages of these, so there is no other for a library's non-blocking collective.

    def gatherv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gatherv."""
        _, start, away, faults, earlier = self._way("Gatherv")
        if self._calls is None:
            return lambda sendspec, recvspec, root: False
        rooted, of_all, known = self._calls.rooted, self._calls.of_all, self._layouts
        byte, size, rank = self._byte, self._size, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                mine, into = given(sendspec, byte), None
                if mine is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                nbytes = mine[1]
                if root == rank:
                    view, layout = placed(recvspec, known, writable)
                    if nbytes != layout.counts[rank] or not apart(mine[0], view):
                        return away()
                    into, nbytes = [view, layout.counts, layout.displs, byte], of_all(layout.counts, root)
            except Exception:
                return away()
            if not rooted(root * _KINDS + _GATHERV, root, nbytes):
                return False
            start(mine, into, root)
            return True

        return call

    def scatterv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatterv."""
        _, start, away, faults, earlier = self._way("Scatterv")
        if self._calls is None:
            return lambda sendspec, recvspec, root: False
        rooted, of_all, known = self._calls.rooted, self._calls.of_all, self._layouts
        byte, size, rank = self._byte, self._size, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            try:
                into, pieces = taken(recvspec, byte), None
                if into is None or type(root) is not int or not 0 <= root < size or earlier or not faults.calm:
                    return away()
                nbytes = into[1]
                if root == rank:
                    view, layout = placed(sendspec, known, contiguous)
                    if nbytes != layout.counts[rank] or not apart(into[0], view):
                        return away()
                    pieces, nbytes = [view, layout.counts, layout.displs, byte], of_all(layout.counts, root)
            except Exception:
                return away()
            if not rooted(root * _KINDS + _SCATTERV, root, nbytes):
                return False
            start(pieces, into, root)
            return True

        return call

    def alltoallv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoallv."""
        _, start, away, faults, earlier = self._way("Alltoallv")
        if self._calls is None:
            return lambda sendspec, recvspec: False
        matched, known = self._calls.matched, self._layouts
        byte, rank = self._byte, self._rank
        apart = self._apart

        def call(sendspec: Any, recvspec: Any) -> bool:
            try:
                (pieces, sent), (into, room) = placed(sendspec, known, contiguous), placed(recvspec, known, writable)
                if sent.counts[rank] != room.counts[rank] or not apart(pieces, into) or earlier or not faults.calm:
                    return away()
            except Exception:
                return away()
            if not matched(_ALLTOALLV, sent.counts, room.counts):
                return False
            start([pieces, sent.counts, sent.displs, byte], [into, room.counts, room.displs, byte])
            return True

        return call

    # ---- ways ------------------------------------------------------------------------------------------

    def _way(self, name: str) -> tuple[Callable[[int], bool], Callable[..., object], Callable[[], bool], Any, Any]:
        """Of the collective of that name: whether all go this way, by a sign of what must be everybody's; the library's
        own call; how it is left to the long way, which is False; and what must be so that one can begin now: nobody has
        refused one, and none is under way.
        """
        calls, context = self._calls, self._context
        if calls is None or name in self._prompt.prompter:
            return self._alone, self._asked(name), _nobody_asks, context.faults, context.collectives
        self.agreed.add(name)
        return calls.together, getattr(self._prompt.comm, name), calls.away, context.faults, context.collectives

    def _alone(self, sign: int) -> bool:
        """What the library is asked for meets what it is asked for on the long way."""
        self._context.faults.begun += 1
        self._prompt.counter.messages += 1
        return True

    def _asked(self, name: str) -> Callable[..., None]:
        """A non-blocking collective, which is asked for its end."""
        start, faults, until = getattr(self._prompt.comm, f"I{name.lower()}"), self._context.faults, self._until

        def call(*what: Any) -> None:
            try:
                request = start(*what)
            except Exception as failure:
                faults.abandon(name, failure)
                raise
            until(request.Test, what)

        return call


def _nobody_asks() -> bool:
    """For the way of one proc."""
    return False
