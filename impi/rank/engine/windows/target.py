"""The target's side of a window: accesses of other procs, in the order of each.

How it works: :class:`WindowTarget` gets every header of the window's context from the engine,
whoever drives it: the program in an MPI call, or the helper thread
(``impi.rank.api.windows.helper``). Headers of one origin are served one after the other. A header
that waits for a lock, or for its data, holds back the later ones of its origin alone. So a reply
says that all earlier accesses are complete, too.

All methods run inside the engine: accumulations are atomic because only one thread is there.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.matching import Matcher
from impi.protocol.semantics.values.places import Place, element_of, values_of
from impi.rank.engine.channels.payload import (
    BufferSource,
    BufferTarget,
    OctetSource,
    OctetTarget,
)
from impi.rank.engine.operations import ReceiveOperation, TakenMessage
from impi.rank.engine.windows import access_header as wire
from impi.rank.engine.windows.access_header import Header
from impi.rank.engine.windows.locks import Locks

if TYPE_CHECKING:
    from impi.protocol.semantics.values.datatype import Array, TypeMap
    from impi.rank.engine.context import Context
    from impi.rank.engine.engine import Engine

Find = Callable[[int, int, "TypeMap"], Place]
"""``find(offset, count, typemap)``: elements of this proc's memory; Exception: not in it."""
_NOTHING: Final = OctetSource(b"")


class WindowTarget:
    """One window at the proc that owns its memory.

    Args:
        engine: of this proc.
        context: of this window alone.
        find: its memory.
    """

    def __init__(self, engine: Engine, context: Context, find: Find) -> None:
        self._engine, self._context, self._find = engine, context, find
        self._long = engine.job.long_size
        self._locks = Locks()
        self._origins = [_Origin() for _ in context.members]
        self._ready: deque[_Origin] = deque()
        self._working = False
        # Called once this proc has got the lock of its own memory.
        self._mine: Callable[[], None] | None = None
        self.posts = [0] * len(context.members)
        """Posts of each rank that no Complete of this proc has used yet."""
        self.fenced = 0
        """Number of ranks whose accesses before the next fence are complete."""
        self.completed = [0] * len(context.members)
        """Completes of each rank that no Wait has used yet."""
        self.faults: list[MPIException] = []
        """Failures of accesses that this proc has sent, as their targets report them."""

    # ---- this proc's own lock --------------------------------------------------------------------

    def lock(self, *, exclusive: bool, granted: Callable[[], None]) -> None:
        """Ask for the lock of this proc's own memory; ``granted`` is called when it is there."""
        if self._locks.request(self._context.rank, exclusive=exclusive):
            granted()
        else:
            self._mine = granted

    def unlock(self) -> None:
        self._pass_on(self._locks.release(self._context.rank))
        # Accesses that have waited for this lock go on.
        self._work()

    # ---- arrivals --------------------------------------------------------------------------------

    def expect(self, source: int) -> Arriving:
        """Return the place of a header whose envelope is here; it keeps its turn."""
        # At the envelope, not when it is whole: a long header of the same origin that came first
        # must be served first, and its octets may end later.
        arriving = Arriving(self, source)
        self._origins[source].queue.append(arriving)

        return arriving

    def arrived(self, arriving: Arriving) -> None:
        origin = self._origins[arriving.source]
        # POST and FAULT access nothing, so they wait for nothing
        if arriving.data[0] >= wire.POST:
            origin.queue.remove(arriving)
            self._note(arriving)

        self._ready.append(origin)
        self._work()

    def _note(self, arriving: Arriving) -> None:
        if arriving.data[0] == wire.POST:
            self.posts[arriving.source] += 1
            return

        code, why = json.loads(bytes(wire.decode(arriving.data)[1]))
        failure = error(code, f"rank {arriving.source}: {why}")
        failure.told = True
        self.faults.append(failure)

    def _work(self) -> None:
        if self._working:
            # A call further up the stack works: serving sends, and sending may take turns
            return

        self._working = True
        try:
            while self._ready:
                origin = self._ready.popleft()
                # An access that has waited for the lock is older than all headers of its origin in
                # the queue.
                if origin.is_granted and origin.held is not None:
                    access, origin.held, origin.is_granted = origin.held, None, False
                    self._perform(access)

                # Whole headers only, and in order: one whose octets still arrive holds back the
                # later ones.
                while not origin.held and origin.queue and origin.queue[0].complete:
                    self._serve(origin, origin.queue.popleft())
        finally:
            self._working = False

    def _serve(self, origin: _Origin, arriving: Arriving) -> None:
        head, data = wire.decode(arriving.data)
        access = _Access(self, origin, arriving.source, head, data, arriving.external)

        # MPI 4.1, 12.5.3: the lock is that of the whole window at this target. The access waits
        # here instead of the origin, and with it all later ones of that origin.
        asked = head.flags & (wire.LOCK_SHARED | wire.LOCK_EXCLUSIVE)
        if asked and not self._locks.request(
            arriving.source, exclusive=asked == wire.LOCK_EXCLUSIVE
        ):
            origin.held = access
            return

        self._perform(access)

    def _perform(self, access: _Access) -> None:
        if not access.head.flags & wire.SEPARATE:
            self._finish(access)
            return

        access.origin.held = access

        target: BufferTarget | OctetTarget
        try:
            target = self._landing(access)
        # The octets come in any case, and must be read: the channel is in order.
        except MPIException as failure:
            access.failure = failure
            target = _Discarded(access)

        # The next message of DATA_TAG is the right one: an origin sends its data in the order of
        # its headers, and this one holds back all later ones.
        self._engine.receive(self._context, access.rank, wire.DATA_TAG, target)

    def _landing(self, access: _Access) -> BufferTarget:
        """Return the place of data that follows its header; Put's is the window itself."""

        head = access.head

        place = self._find(head.offset, head.count, head.typemap)
        if head.kind == wire.PUT:
            return _Landing(
                access, head.typemap, place.view, place.offset, place.count, self._long
            )

        # Accumulations combine values, so the data lands decoded in memory of its own.
        element = element_of(head.typemap)
        count = place.nbytes // element.size
        memory = memoryview(bytearray(count * element.extent))
        access.operand = np.ndarray((count,), element.dtype, memory)

        return _Landing(access, element, memory, 0, count, self._long)

    def landed(self, access: _Access) -> None:
        # The data was all that held this origin back.
        access.origin.held = None
        self._finish(access)
        self._ready.append(access.origin)
        self._work()

    def _finish(self, access: _Access) -> None:
        """Access the memory, then do what the flags say."""

        head, rank = access.head, access.rank

        result: BufferSource | OctetSource | None = None
        try:
            if access.failure is not None:
                raise access.failure

            result = self._access(access)
        except Exception as failure:
            # The origin's mistake: this program's call must not raise it
            self._complain(rank, failure)
            result = (
                _NOTHING if head.kind in (wire.GET, wire.FETCH, wire.SWAP) else None
            )

        # Flags count even after a failure: an origin that made a mistake must not leave the others
        # without the lock, or this proc in its fence.
        flags = head.flags
        if flags & wire.UNLOCK:
            self._pass_on(self._locks.release(rank))

        if flags & wire.FENCED:
            self.fenced += 1

        if flags & wire.COMPLETED:
            self.completed[rank] += 1

        if result is None and flags & wire.ACKNOWLEDGE:
            result = _NOTHING

        if result is not None:
            self._engine.send(self._context, rank, wire.REPLY_TAG, result)

    def _access(self, access: _Access) -> BufferSource | None:
        """Access the memory; return the elements for the origin, or None."""

        head = access.head
        if head.kind == wire.SYNC or (
            head.kind == wire.PUT and head.flags & wire.SEPARATE
        ):
            # Nothing to access, or the data of a long Put has landed in the window itself.
            return None

        place = self._find(head.offset, head.count, head.typemap)
        if head.kind == wire.PUT:
            head.typemap.unpack(
                access.data,
                place.view,
                place.offset,
                place.count,
                external=access.external,
                long_size=self._long,
            )
            return None

        if head.kind == wire.GET:
            return _snapshot(head.typemap, place, self._long)

        element = element_of(head.typemap)

        operand = access.operand
        if operand is None:
            operand = values_of(
                access.data, element, external=access.external, long_size=self._long
            )

        # MPI_Get_accumulate and the like return the values before the operation (MPI 4.1, 12.3.4).
        old = None if head.kind == wire.ACCUMULATE else place.values()
        if head.kind == wire.SWAP:
            _swap(place, operand, element)
        else:
            place.combine(head.op, operand)

        return None if old is None else _source(old, element, self._long)

    def _complain(self, rank: int, failure: Exception) -> None:
        # By a message of its own: the program here has not made the mistake, and the origin may
        # await no reply. Its next call that synchronizes raises the failure.
        told = (
            failure
            if isinstance(failure, MPIException)
            else error("ERR_TYPE", str(failure))
        )
        why = json.dumps([told.error_class, told.detail]).encode()
        self._engine.send(
            self._context,
            rank,
            wire.HEADER_TAG,
            OctetSource(wire.bare(wire.FAULT, 0) + why),
        )

    def _pass_on(self, granted: list[int]) -> None:
        """Let those go on that have a lock now, at the next turn of :meth:`_work`."""
        for rank in granted:
            if rank == self._context.rank:
                if self._mine is not None:
                    self._mine()

                self._mine = None
            else:
                self._origins[rank].is_granted = True
                # Not performed here, as this may be in the middle of serving another origin.
                self._ready.append(self._origins[rank])


class Inbox(Matcher[ReceiveOperation, TakenMessage]):
    """The matcher of a window's context: headers need no receive."""

    def __init__(self, target: WindowTarget, context: Context) -> None:
        super().__init__()
        self._target, self._context = target, context

    def meet(self, source: int, tag: int) -> ReceiveOperation | None:
        """Return the receive of a new message: of a header, one made now."""

        # Data and replies have receives of their own.
        if tag != wire.HEADER_TAG:
            return super().meet(source, tag)

        operation = ReceiveOperation(
            self._context, source, tag, self._target.expect(source), collective=False
        )
        if operation.maybe_local:
            self._context.count_waiting(1)  # Matching counts each matched receive down

        return operation


class Arriving(OctetTarget):
    """A header whose envelope is here; complete when all its octets are."""

    def __init__(self, target: WindowTarget, source: int) -> None:
        super().__init__()
        self._target = target
        self.source = source
        self.complete = self.external = False

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        self.complete, self.external = True, external
        self._target.arrived(self)


class _Origin:
    """A target's record of one origin."""

    __slots__ = ("held", "is_granted", "queue")

    def __init__(self) -> None:
        self.queue: deque[Arriving] = deque()
        self.held: _Access | None = None
        """An access that waits for a lock or its data; the later ones wait, too."""
        self.is_granted = False
        """Whether the lock that it waits for is there."""


class _Access:
    """An access that is served."""

    __slots__ = (
        "data",
        "external",
        "failure",
        "head",
        "operand",
        "origin",
        "rank",
        "target",
    )

    def __init__(
        self,
        target: WindowTarget,
        origin: _Origin,
        rank: int,
        head: Header,
        data: memoryview,
        external: bool,
    ) -> None:
        self.target, self.origin, self.rank, self.head = target, origin, rank, head
        self.data, self.external = data, external
        self.operand: Array | None = None
        """Data that came as a message of its own."""
        self.failure: MPIException | None = None


class _Landing(BufferTarget):
    """The place of data that follows its header."""

    def __init__(
        self,
        access: _Access,
        typemap: TypeMap,
        view: memoryview,
        offset: int,
        count: int,
        long_size: int,
    ) -> None:
        super().__init__(typemap, view, offset, count, long_size)
        self._access = access

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        try:
            super().finish(nbytes, count, external=external)
        except MPIException as failure:
            self._access.failure = failure

        self._access.target.landed(self._access)


class _Discarded(OctetTarget):
    """Takes data for which there is no place."""

    def __init__(self, access: _Access) -> None:
        super().__init__()
        self._access = access

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        self._access.target.landed(self._access)


def _swap(place: Place, operand: Array, element: TypeMap) -> None:
    """Store the second of two values if the first is the one in memory."""
    # Compared by octets: MPI_Compare_and_swap has integers, logicals and bytes (MPI 4.1, 12.3.4),
    # and here characters, too. Equal values of these have equal octets.
    compared, new = (
        element.pack(memoryview(each.tobytes()), 0, 1, external=False)
        for each in (operand[:1], operand[1:])
    )
    if place.load() == bytes(compared):
        place.store(bytes(new))


def _snapshot(typemap: TypeMap, place: Place, long_size: int) -> BufferSource:
    """Return a copy of memory, which its owner may change before all octets have left."""
    low, high = typemap.span(place.offset, place.count)
    memory = memoryview(bytearray(place.view[low:high]))

    return BufferSource(typemap, memory, place.offset - low, place.count, long_size)


def _source(values: Array, element: TypeMap, long_size: int) -> BufferSource:
    return BufferSource(element, values.view(np.uint8).data, 0, len(values), long_size)
