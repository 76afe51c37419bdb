"""Calls that go from the program straight to the MPI library of its client, with the program's own memory.

Blocking messages between procs of one client, and blocking collectives of communicators inside one, of elements that
lie one after the other: nothing is packed, queued or matched by us. Every way here gives up where anything is unusual,
having done nothing, and says so; then the long way (``point_to_point``, ``collective``) decides, which also has the
words for mistakes. Both make the same calls of the library, so each proc chooses for itself.

The library is never waited in: who waits asks it again and again, and serves all else in between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from impi.api import datatype as datatypes
from impi.api.buffers import plain
from impi.api.datatype import Datatype, _typedict
from impi.api.reductions import library_names
from impi.api.typestate import TypeState
from impi.collectives.tags import ALLTOALLV_TAG, GATHERV_TAG, SCATTERV_TAG
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import ASKS, finish
from impi.errors import ImpiError
from impi.job import REPRODUCIBLE
from impi.semantics.errors import MPIException, error
from impi.vendors.base import INT_MAX, Prompt

if TYPE_CHECKING:
    from impi.api.op import Op
    from impi.api.status import Status

__all__ = ["Inside", "receiver", "sender"]

_Spec = list[Any]
"""What the library's mpi4py takes: memory, count, type."""

_SIZES: Final[dict[Any, int]] = {}
"""Octets of one element, by predefined datatypes whose elements are one value without gaps."""

for _datatype in vars(datatypes).values():
    if isinstance(_datatype, Datatype) and isinstance(_state := _datatype._state, TypeState):
        _map = _state.typemap
        if len(_map.runs) == 1 and _map.size == _map.extent and _map.lb == 0:
            _SIZES[_state] = _map.size
_FORMATS: Final = {
    code: _SIZES[datatype._state]
    for code, datatype in _typedict.items()
    if len(code) == 1 and datatype._state in _SIZES
}
"""The same, by format of PEP 3118."""


def _located(spec: Any, byte: Any) -> _Spec | None:
    """A specification as so many octets of its memory; None: it is not one of the commonest.

    Raises:
        Exception: of any kind, for the same reason; wrong ones are among these.
    """
    kind = type(spec)
    if kind is not list and kind is not tuple:
        view = memoryview(spec)
        nbytes = view.nbytes
        if nbytes % _FORMATS[view.format]:
            return None
    elif len(spec) == 3:
        buf, count, datatype = spec
        nbytes = count * _SIZES[datatype._state]
        view = memoryview(buf)
        if type(count) is not int or not 0 <= nbytes <= view.nbytes:
            return None
    else:
        buf, datatype = spec
        view = memoryview(buf)
        nbytes = view.nbytes
        if nbytes % _SIZES[datatype._state]:
            return None
    return [view, nbytes, byte] if nbytes <= INT_MAX else None


def _divided(spec: Any, byte: Any, blocks: int) -> _Spec | None:
    """As :func:`_located`, of memory of so many blocks: the octets are those of one, a count in ``spec``, too."""
    kind = type(spec)
    if kind is not list and kind is not tuple:
        view = memoryview(spec)
        nbytes, rest = divmod(view.nbytes, blocks)
        size = _FORMATS[view.format]
    elif len(spec) == 3:
        buf, count, datatype = spec
        size = _SIZES[datatype._state]
        nbytes, rest = count * size, 0
        view = memoryview(buf)
        if type(count) is not int or not 0 <= nbytes * blocks <= view.nbytes:
            return None
    else:
        buf, datatype = spec
        view = memoryview(buf)
        nbytes, rest = divmod(view.nbytes, blocks)
        size = _SIZES[datatype._state]
    return None if rest or nbytes % size or nbytes * blocks > INT_MAX else [view, nbytes, byte]


def _placed(spec: Any, blocks: int) -> tuple[memoryview, list[int], list[int]]:
    """Memory, and where each of so many blocks is in it: how many octets, from where.

    Raises:
        Exception: of any kind, where it is not a specification of the commonest, wrong ones included.
    """
    if len(spec) == 4:
        buf, counts, displs, datatype = spec
    else:
        buf, (counts, displs), datatype = spec
    size = _SIZES[datatype._state]
    view = memoryview(buf).cast("B")
    if size != 1:
        counts = [count * size for count in counts]
        displs = [displ * size for displ in displs]
    if len(counts) != blocks or len(displs) != blocks or type(counts) is not list or type(displs) is not list:
        raise ValueError(spec)
    nbytes = view.nbytes
    for count, displ in zip(counts, displs, strict=True):
        if count < 0 or displ < 0 or displ + count > nbytes:
            raise ValueError(spec)
    return view, counts, displs


def sender(engine: Engine, context: Context, dest: int) -> Callable[[Any, int], bool]:
    """Blocking sends to rank ``dest`` (see :attr:`Context.sends`)."""
    if dest not in context.shadow_of:
        return _to_client(engine.sender(context, dest))
    shadow = context.shadow
    if shadow is None or shadow.prompt is None or engine.reduce_on_p2p:
        return _never_sends
    prompt, local, tag_ub, progress = shadow.prompt, context.shadow_of[dest], engine.job.tag_ub, engine.progress
    start, byte, counter, asks = prompt.comm.Isend, prompt.byte, prompt.counter, engine.asks
    calls = 0

    def send(spec: Any, tag: int) -> bool:
        nonlocal calls
        try:
            located = _located(spec, byte)
            if located is None or not 0 <= tag <= tag_ub:
                return False
            request = start(located, local, tag + tag)
        except Exception:
            return False
        counter.messages += 1
        test = request.Test
        for _ in asks:
            if test():
                break
        else:
            finish(engine, test, located)
        calls += 1
        if calls > ASKS:
            # A program whose messages are always taken at once serves its channels, too.
            calls = 0
            progress()
        return True

    return send


def _to_client(short: Callable[[int, memoryview, int], bool]) -> Callable[[Any, int], bool]:
    """To a proc of another client."""

    def send(spec: Any, tag: int) -> bool:
        octets = plain(spec, readonly=True)
        return octets is not None and short(tag, octets, len(octets))

    return send


def receiver(engine: Engine, context: Context, source: int) -> Callable[[Any, int, Any], bool]:
    """Blocking receives from rank ``source`` (see :attr:`Context.receives`)."""
    shadow = context.shadow
    if source not in context.shadow_of or shadow is None or shadow.prompt is None or engine.reduce_on_p2p:
        return _never_receives
    if shadow.prompt.probes:
        return _prober(engine, context, shadow.prompt, source)
    prompt, local, tag_ub, progress = shadow.prompt, context.shadow_of[source], engine.job.tag_ub, engine.progress
    start, byte, failure, asks = prompt.comm.Irecv, prompt.byte, prompt.failure, engine.asks
    posted, unexpected = context.matchers[0].lines()
    calls = 0

    def receive(spec: Any, tag: int, status: Status | None) -> bool:
        nonlocal calls
        # Older receives, and older messages that we have taken off the library's queue, come first.
        if posted or unexpected:
            return False
        try:
            located = _located(spec, byte)
            if located is None or not 0 <= tag <= tag_ub:
                return False
            request = start(located, local, tag + tag)
        except Exception:
            return False
        calls += 1
        if calls > ASKS:
            calls = 0
            progress()  # as in send()
        test = request.Test
        if status is not None:
            theirs = prompt.status()
            test = partial(test, theirs)
        try:
            for _ in asks:
                if test():
                    break
            else:
                finish(engine, test, located)
        except failure:
            if status is not None:
                status.fill(source=source, tag=tag, nbytes=located[1])
            raise _truncated(source, tag, located[1]) from None
        if status is not None:
            status.fill(source=source, tag=tag, nbytes=theirs.Get_elements(byte))
        return True

    return receive


def _prober(engine: Engine, context: Context, prompt: Prompt, source: int) -> Callable[[Any, int, Any], bool]:
    """As :func:`receiver`, where the library must be asked for messages first."""
    local, tag_ub, progress, asks = context.shadow_of[source], engine.job.tag_ub, engine.progress, engine.asks
    probe, byte = prompt.comm.Improbe, prompt.byte
    posted, unexpected = context.matchers[0].lines()
    theirs = prompt.status()
    octets = theirs.Get_elements
    calls = 0

    def find(native: int) -> Any:
        nonlocal calls
        calls += 1
        if calls > ASKS:
            calls = 0
            progress()  # as in send()
        for _ in asks:
            if unexpected:
                return None  # something else had its turn, and has taken a message off the library's queue
            message = probe(local, native, theirs)
            if message is not None:
                return message
        found: list[Any] = []

        def ready() -> bool:
            if not unexpected and (message := probe(local, native, theirs)) is not None:
                found.append(message)
            return bool(unexpected or found)

        return found[0] if engine.ask(ready) and found else None

    def receive(spec: Any, tag: int, status: Status | None) -> bool:
        if posted or unexpected:
            return False
        try:
            located = _located(spec, byte)
            if located is None or located[0].readonly or not 0 <= tag <= tag_ub:
                return False
            message = find(tag + tag)
        except (MPIException, ImpiError):
            raise
        except Exception:
            return False
        if message is None:
            return False
        nbytes = octets(byte)
        if nbytes > located[1]:
            engine.adopt(context, prompt.arrival(message, theirs))
            return False
        located[1] = nbytes
        test = message.Irecv(located).Test
        if not test():
            finish(engine, test, located)
        if status is not None:
            status.fill(source=source, tag=tag, nbytes=nbytes)
        return True

    return receive


def _never_sends(spec: Any, tag: int) -> bool:
    """There is no shorter way."""
    return False


def _never_receives(spec: Any, tag: int, status: Status | None) -> bool:
    """There is no shorter way."""
    return False


def _truncated(source: int, tag: int, room: int) -> MPIException:
    return error(
        "ERR_TRUNCATE",
        f"message from rank {source} with tag {tag} truncated: it is longer than the {room} bytes that the receive "
        "buffer takes",
    )


class Inside:
    """The collectives of a communicator inside one client: functions that say whether they have done it.

    Roots, counts and types are everybody's alike; where they are wrong, or anything is, the long way says so.

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
        self.reduce_scatter: Callable[[Any, Any, Any, Op], bool] = call.reduce_scatter()
        self.allreduce: Callable[[Any, Any, Op], bool] = call.allreduce()

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
        self._size = len(context.members)
        self._others = [(context.rank + i) % self._size for i in range(1, self._size)]
        self._finish = _waiter(engine, context, prompt)
        self._reduces = REPRODUCIBLE not in engine.job.collectives

    def barrier(self) -> Callable[[], bool]:
        """See MPI_Barrier."""
        start, finish, faults, earlier = self._prompt.comm.Ibarrier, self._finish, *self._order()

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
        start, finish, faults, earlier = self._prompt.comm.Ibcast, self._finish, *self._order()
        byte, size = self._prompt.byte, self._size

        def call(spec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                located = _located(spec, byte)
                if located is None or not 0 <= root < size:
                    return False
                request = start(located, root)
            except Exception:
                return False
            return finish(request.Test, located)

        return call

    def gather(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gather."""
        start, finish, faults, earlier = self._prompt.comm.Igather, self._finish, *self._order()
        byte, size, rank = self._prompt.byte, self._size, self._context.rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            into = None
            try:
                mine = _located(sendspec, byte)
                if root == rank:
                    into = _divided(recvspec, byte, size)
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
        start, finish, faults, earlier = self._prompt.comm.Iscatter, self._finish, *self._order()
        byte, size, rank = self._prompt.byte, self._size, self._context.rank

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            pieces = None
            try:
                into = _located(recvspec, byte)
                if root == rank:
                    pieces = _divided(sendspec, byte, size)
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
        start, finish, faults, earlier = self._prompt.comm.Iallgather, self._finish, *self._order()
        byte, size = self._prompt.byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine, into = _located(sendspec, byte), _divided(recvspec, byte, size)
                if mine is None or into is None or mine[1] * size > INT_MAX:
                    return False
                request = start(mine, into)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def alltoall(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoall."""
        start, finish, faults, earlier = self._prompt.comm.Ialltoall, self._finish, *self._order()
        byte, size = self._prompt.byte, self._size

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                pieces, into = _divided(sendspec, byte, size), _divided(recvspec, byte, size)
                if pieces is None or into is None or pieces[1] * size > INT_MAX:
                    return False
                request = start(pieces, into)
            except Exception:
                return False
            return finish(request.Test, (pieces, into))

        return call

    def reduce(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce."""
        start, finish, faults, earlier = self._prompt.comm.Ireduce, self._finish, *self._order()
        elements, size, rank = self._elements(), self._size, self._context.rank

        def call(sendspec: Any, recvspec: Any, op: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            into = None
            try:
                mine, function = elements(sendspec, op)
                if root == rank:
                    into, _ = elements(recvspec, op)
                    if mine[1] != into[1] or mine[2] is not into[2]:
                        return False
                if not 0 <= root < size:
                    return False
                request = start(mine, into, function, root)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def allreduce(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Allreduce."""
        start, finish, faults, earlier = self._prompt.comm.Iallreduce, self._finish, *self._order()
        elements = self._elements()

        def call(sendspec: Any, recvspec: Any, op: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                (mine, function), (into, _) = elements(sendspec, op), elements(recvspec, op)
                if mine[1] != into[1] or mine[2] is not into[2]:
                    return False
                request = start(mine, into, function)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def allgatherv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Allgatherv."""
        start, finish, faults, earlier = self._prompt.comm.Iallgatherv, self._finish, *self._order()
        byte, size, rank = self._prompt.byte, self._size, self._context.rank

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine, (into, counts, displs) = _located(sendspec, byte), _placed(recvspec, size)
                if mine is None or mine[1] != counts[rank] or sum(counts) > INT_MAX or into.readonly:
                    return False
                request = start(mine, [into, counts, displs, byte])
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    def reduce_scatter(self) -> Callable[[Any, Any, Any, Any], bool]:
        """See MPI_Reduce_scatter."""
        start, finish, faults, earlier = self._prompt.comm.Ireduce_scatter, self._finish, *self._order()
        elements, size, rank = self._elements(), self._size, self._context.rank

        def call(sendspec: Any, recvspec: Any, counts: Any, op: Any) -> bool:
            if earlier or not faults.calm or type(counts) is not list or len(counts) != size:
                return False
            try:
                (mine, function), (into, _) = elements(sendspec, op), elements(recvspec, op)
                if mine[1] != sum(counts) or into[1] != counts[rank] or mine[2] is not into[2] or min(counts) < 0:
                    return False
                request = start(mine, into, counts, function)
            except Exception:
                return False
            return finish(request.Test, (mine, into))

        return call

    # Of these not everybody knows all sizes. Both ways make messages of them, each between its two procs.

    def gatherv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Gatherv."""
        finish, exchange, faults, earlier = self._finish, self._exchange(GATHERV_TAG), *self._order()
        byte, size, rank, others = self._prompt.byte, self._size, self._context.rank, self._others

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                mine = _located(sendspec, byte)
                if mine is None or not 0 <= root < size:
                    return False
                places: Any = ()
                if root == rank:
                    into, counts, displs = _placed(recvspec, size)
                    if mine[1] != counts[rank]:
                        return False
                    into[displs[rank] : displs[rank] + mine[1]] = mine[0].cast("B")[: mine[1]]
                    places = [(r, [into[displs[r] : displs[r] + counts[r]], counts[r], byte]) for r in others]
            except Exception:
                return False
            test = exchange(places, () if root == rank else ((root, mine),))
            return test is not None and finish(test, None)

        return call

    def scatterv(self) -> Callable[[Any, Any, Any], bool]:
        """See MPI_Scatterv."""
        finish, exchange, faults, earlier = self._finish, self._exchange(SCATTERV_TAG), *self._order()
        byte, size, rank, others = self._prompt.byte, self._size, self._context.rank, self._others

        def call(sendspec: Any, recvspec: Any, root: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                into = _located(recvspec, byte)
                if into is None or into[0].readonly or not 0 <= root < size:
                    return False
                pieces: Any = ()
                if root == rank:
                    view, counts, displs = _placed(sendspec, size)
                    if into[1] < counts[rank]:
                        return False
                    into[0].cast("B")[: counts[rank]] = view[displs[rank] : displs[rank] + counts[rank]]
                    pieces = [(r, [view[displs[r] : displs[r] + counts[r]], counts[r], byte]) for r in others]
            except Exception:
                return False
            test = exchange(() if root == rank else ((root, into),), pieces)
            return test is not None and finish(test, None)

        return call

    def alltoallv(self) -> Callable[[Any, Any], bool]:
        """See MPI_Alltoallv."""
        finish, exchange, faults, earlier = self._finish, self._exchange(ALLTOALLV_TAG), *self._order()
        byte, size, rank = self._prompt.byte, self._size, self._context.rank
        others = self._others

        def call(sendspec: Any, recvspec: Any) -> bool:
            if earlier or not faults.calm:
                return False
            try:
                view, sent, begins = _placed(sendspec, size)
                into, counts, displs = _placed(recvspec, size)
                if sent[rank] != counts[rank]:
                    return False
                into[displs[rank] : displs[rank] + counts[rank]] = view[begins[rank] : begins[rank] + sent[rank]]
                places = [(r, [into[displs[r] : displs[r] + counts[r]], counts[r], byte]) for r in others]
                pieces = [(r, [view[begins[r] : begins[r] + sent[r]], sent[r], byte]) for r in others]
            except Exception:
                return False
            test = exchange(places, pieces)
            return test is not None and finish(test, None)

        return call

    def _exchange(self, tag: int) -> Callable[[Any, Any], Callable[[], bool] | None]:
        """A function that starts receives and sends, each a rank and octets: its result asks for the end of all.

        None: something that has come before must be looked at first, so nothing was done.
        """
        receive, send = self._prompt.comm.Irecv, self._prompt.comm.Isend
        counter = self._prompt.counter
        posted, unexpected = self._context.matchers[1].lines()
        native = 2 * tag + 1
        if self._prompt.probes:
            receive = partial(_Probed, self._context, self._prompt, tag)

        def exchange(places: Any, pieces: Any) -> Callable[[], bool] | None:
            if posted or unexpected:
                return None
            requests = [receive(place, source, native) for source, place in places]
            requests += [send(piece, dest, native) for dest, piece in pieces]
            counter.messages += len(pieces) - 1  # whoever waits counts one
            if len(requests) == 1:
                return requests[0].Test  # type: ignore[no-any-return]

            def test() -> bool:
                # Each is asked, for one may wait for what another proc's asking brings about.
                requests[:] = [request for request in requests if not request.Test()]
                return not requests

            return test

        return exchange

    def _order(self) -> tuple[Any, Any]:
        """What must be so that one can begin now: nobody has refused one, and none is under way."""
        return self._context.faults, self._context.collectives

    def _elements(self) -> Callable[[Any, Any], tuple[_Spec, Any]]:
        """A function for a specification and an operation as the library knows them.

        It raises an Exception of any kind where the library does not.
        """
        known: dict[tuple[Any, Any], tuple[Any, Any, int]] = {}
        reduction, reduces = self._prompt.reduction, self._reduces

        def elements(spec: Any, op: Any) -> tuple[_Spec, Any]:
            kind = type(spec)
            state: Any = (spec[-1] if kind is list or kind is tuple else _typedict[memoryview(spec).format])._state
            try:
                datatype, function, size = known[op._state, state]
            except KeyError:
                names = library_names(op, state) if reduces else None
                if names is None:
                    raise
                known[op._state, state] = datatype, function, size = (*reduction(names[1], names[0]), _SIZES[state])
            located = _located(spec, datatype)
            if located is None:
                raise ValueError(spec)
            located[1] //= size
            return located, function

        return elements


class _Probed:
    """A receive of a part of a collective, where the library must be asked for messages first."""

    __slots__ = (
        "_failure",
        "_native",
        "_pending",
        "_place",
        "_probe",
        "_source",
        "_tag",
        "_take",
        "_unexpected",
        "_wrap",
    )

    def __init__(self, context: Context, prompt: Prompt, tag: int, place: _Spec, source: int, native: int) -> None:
        self._take = context.matchers[1].take
        self._unexpected = context.matchers[1].lines()[1]
        self._probe = prompt.comm.Improbe
        self._wrap = prompt
        self._tag, self._place, self._source, self._native = tag, place, source, native
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
            view, room, _ = self._place
            if arrival.nbytes > room:
                view = memoryview(bytearray(arrival.nbytes))
                self._failure = _truncated(self._source, self._tag, room)
            self._pending = arrival.receive(view)
        done: bool = self._pending.test()
        if done and self._failure is not None:
            raise self._failure
        return done

    def _arrival(self) -> Any:
        if self._unexpected:
            # Something else has had its turn and taken it off the library's queue.
            message = self._take(self._source, self._tag)
            if message is not None:
                return message.local
        status = self._wrap.status()
        message = self._probe(self._source, self._native, status)
        return None if message is None else self._wrap.arrival(message, status)


def _waiter(engine: Engine, context: Context, prompt: Prompt) -> Callable[[Callable[[], bool], Any], bool]:
    """A function that waits for a collective of the library that has been started, with what must live until then."""
    faults, asks, progress = context.faults, engine.asks, engine.progress
    counter, failure = prompt.counter, prompt.failure
    calls = 0

    def wait(test: Callable[[], bool], keep: Any) -> bool:
        nonlocal calls
        counter.messages += 1
        faults.begun += 1
        try:
            for _ in asks:
                if test():
                    break
            else:
                finish(engine, test, keep, context)
        except failure as found:
            raise prompt.translated(found) from None
        calls += 1
        if calls > ASKS:
            calls = 0
            progress()
        return True

    return wait
