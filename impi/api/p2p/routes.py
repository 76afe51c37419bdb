"""The routes of point-to-point messages between this proc and a rank of a communicator.

One class for each kind; :mod:`impi.api.p2p.route_table` chooses the class once for each rank:

* :class:`NullRoute`: MPI_PROC_NULL.
* :class:`ChannelRoute`: a proc of another client. A short message is one packet, one system call.
* :class:`impi.api.p2p.library_route.LibraryRoute`: a proc of the same client under an MPI library.
  A blocking call is the library's own, on user memory.
* :class:`QueuedRoute`: everything else, and what ChannelRoute and LibraryRoute leave to their base
  class. The engine starts an operation, which is matched in software.

Blocking calls have their own methods: most of them end before an operation object would pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from impi.api.handles.integers import fitting
from impi.api.p2p.completion import conclude, fill_status
from impi.api.p2p.request import Request, null_receive, null_send
from impi.api.p2p.status import Status
from impi.api.types import marshalling
from impi.api.types.buffers import UserBuffer, read
from impi.collectives.tags import REDUCE_TAG
from impi.engine.context import Context, ShortSend
from impi.engine.engine import Engine
from impi.engine.operations import SENT, ReceiveOperation, SendOperation
from impi.engine.payload import DirectSource, DirectTarget
from impi.semantics.constants import ANY_TAG, PROC_NULL
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec


class Route(Protocol):
    """Messages to and from one rank; methods check buffer ``spec`` and tag before they begin."""

    def send(self, spec: BufferSpec, tag: int) -> None:
        """MPI_Send."""
        ...

    def start(self, spec: BufferSpec, tag: int) -> Request:
        """MPI_Isend."""
        ...

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """MPI_Recv; ``tag`` may be MPI_ANY_TAG. Raises Exception ERR_TRUNCATE: too long."""
        ...

    def post(self, spec: BufferSpec, tag: int) -> Request:
        """MPI_Irecv; ``tag`` may be MPI_ANY_TAG."""
        ...


class NullRoute:
    """Route to MPI_PROC_NULL: every operation is complete at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def send(self, spec: BufferSpec, tag: int) -> None:
        """Check the tag."""
        check_tag(self._engine, tag)

    def start(self, spec: BufferSpec, tag: int) -> Request:
        """Check the tag; return a complete request."""
        check_tag(self._engine, tag)
        return null_send()

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """Receive nothing, from MPI_PROC_NULL."""
        check_receive_tag(self._engine, tag)
        fill_status(status, PROC_NULL, ANY_TAG, 0)

    def post(self, spec: BufferSpec, tag: int) -> Request:
        """Receive nothing, from MPI_PROC_NULL."""
        check_receive_tag(self._engine, tag)
        return null_receive()


class QueuedRoute:
    """Operations of the engine, matched in software; receives may have rank MPI_ANY_SOURCE."""

    def __init__(self, engine: Engine, context: Context, rank: int) -> None:
        self._engine = engine
        self._context = context
        self._rank = rank
        self._tag_ub = engine.job.tag_ub

    def send(self, spec: BufferSpec, tag: int) -> None:
        """Start the send and wait for it."""
        check_tag(self._engine, tag)
        self._finish(self._started(read(spec, readonly=True), tag))

    def start(self, spec: BufferSpec, tag: int) -> Request:
        """Start the send."""
        check_tag(self._engine, tag)
        return Request._of(self._started(read(spec, readonly=True), tag))

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """Post the receive and wait for it."""
        check_receive_tag(self._engine, tag)
        self._await(read(spec, readonly=False), tag, status)

    def post(self, spec: BufferSpec, tag: int) -> Request:
        """Post the receive."""
        check_receive_tag(self._engine, tag)
        return Request._of(self._posted(read(spec, readonly=False), tag))

    def _started(self, data: memoryview | UserBuffer, tag: int) -> SendOperation:
        source = DirectSource(data) if isinstance(data, memoryview) else marshalling.source(data)
        return self._engine.send(self._context, self._rank, tag, source)

    def _posted(self, data: memoryview | UserBuffer, tag: int) -> ReceiveOperation:
        target = DirectTarget(data) if isinstance(data, memoryview) else marshalling.target(data)
        return self._engine.receive(self._context, self._rank, tag, target)

    def _await(self, data: memoryview | UserBuffer, tag: int, status: Status | None) -> None:
        operation = self._posted(data, tag)
        self._complete(operation)
        if operation.failure is not None:
            self._engine.settle(operation)
        if status is not None or operation.truncated or operation.failure is not None:
            conclude(operation, status)

    def _finish(self, sending: SendOperation) -> None:
        self._complete(sending)
        if sending.failure is not None:
            raise sending.failure

    def _complete(self, operation: SendOperation | ReceiveOperation) -> None:
        if not operation.done:
            self._engine.wait_for(operation)
        if type(operation) is SendOperation and operation.failure is not None:
            raise operation.failure


class ChannelRoute(QueuedRoute):
    """A proc of another client: octets without conversion bypass empty queues."""

    def __init__(self, engine: Engine, context: Context, rank: int) -> None:
        super().__init__(engine, context, rank)
        self._short: ShortSend = self._first
        self._next = engine.next_receiver(context, rank)

    def _first(self, tag: int, octets: memoryview, count: int) -> bool:
        """Make the sender at the first send: in a lazy job a receive needs no channel."""
        self._short = self._engine.short_sender(self._context, self._rank)
        return self._short(tag, octets, count)

    def send(self, spec: BufferSpec, tag: int) -> None:
        """Send one packet, or start the send and wait for it."""
        data = read(spec, readonly=True)
        if not (type(data) is memoryview and self._short(tag, data, len(data))):
            self._finish(self._started(data, tag))

    def start(self, spec: BufferSpec, tag: int) -> Request:
        """Send one packet, or start the send."""
        data = read(spec, readonly=True)
        if type(data) is memoryview and self._short(tag, data, len(data)):
            return Request._of(SENT)
        return Request._of(self._started(data, tag))

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """Take the next packet of the channel, or post the receive and wait for it."""
        data = read(spec, readonly=False)
        if type(data) is memoryview and type(tag) is int and 0 <= tag <= self._tag_ub:
            nbytes = self._next(tag, data)
            if nbytes >= 0:
                if status is not None:
                    status.fill(source=self._rank, tag=tag, nbytes=nbytes)
                return
        check_receive_tag(self._engine, tag)
        self._await(data, tag, status)

    def _started(self, data: memoryview | UserBuffer, tag: int) -> SendOperation:
        check_tag(self._engine, tag)
        if isinstance(data, memoryview):  # the packet was not possible
            return self._engine.enqueue(self._context, self._rank, tag, DirectSource(data), [data])
        return self._engine.send(self._context, self._rank, tag, marshalling.source(data))


def check_tag(engine: Engine, tag: int) -> None:
    """Check the tag of a send.

    Raises:
        Exception: ERR_TAG: out of range, or reserved for Reduce in this job.
        TypeError: no int, which the caller converts (:func:`impi.api.handles.integers.integer`).
        OverflowError: more than a C int.
    """
    if type(tag) is not int:
        raise TypeError(f"tag {tag!r} is no int")
    if not 0 <= tag <= engine.job.tag_ub:
        fitting(tag)
        raise error("ERR_TAG", f"tag {tag} is not in 0..{engine.job.tag_ub}")
    if engine.reduce_on_p2p and tag == REDUCE_TAG:
        raise error("ERR_TAG", f"tag {tag} is Reduce's alone in this job (--peer-quirks reduce-on-p2p); take another")


def check_receive_tag(engine: Engine, tag: int) -> None:
    """Check the tag of a receive, which may be MPI_ANY_TAG; raises like :func:`check_tag`."""
    if type(tag) is not int or tag != ANY_TAG:
        check_tag(engine, tag)
