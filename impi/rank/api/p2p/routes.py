"""The routes of point-to-point messages between this proc and a rank of a communicator.

How it works: there is one class for each kind of way, and :mod:`impi.rank.api.p2p.route_table`
chooses the class once for each rank. A call asks the table and nothing else: before, each message
tried up to eight ways in three layers (docs/decisions/one-route-per-rank.md).

* :class:`NullRoute`: MPI_PROC_NULL.
* :class:`ChannelRoute`: a proc of another client. A short message is one packet, one system call.
* :class:`impi.rank.api.p2p.library_route.LibraryRoute`: a proc of the same client under an MPI
  library. A blocking call is the library's own, on user memory.
* :class:`QueuedRoute`: everything else, and calls that ChannelRoute and LibraryRoute leave to their
  base class. The engine starts an operation, which is matched in software.

Blocking calls have their own methods: most of them end before an operation object would pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from impi.protocol.collectives.tags import REDUCE_TAG
from impi.protocol.semantics.constants import ANY_TAG, PROC_NULL
from impi.protocol.semantics.errors import error
from impi.rank.api.handles.integers import fitting
from impi.rank.api.p2p.completion import conclude, fill_status
from impi.rank.api.p2p.request import Request, null_receive, null_send
from impi.rank.api.p2p.status import Status
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import Plain, UserBuffer, plain_types, read
from impi.rank.engine.channels.channels import ShortSender
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import SENT, ReceiveOperation, SendOperation
from impi.rank.engine.standing_receive import StandingReceive

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


class Route(Protocol):
    """Messages to and from one rank; methods check buffer ``spec`` and tag before they begin."""

    def send(self, spec: BufferSpec, tag: int) -> None:
        """MPI_Send."""

    def send_octets(self, octets: bytes, tag: int) -> None:
        """Send a pickle."""

    def start(self, spec: BufferSpec, tag: int) -> Request:
        """MPI_Isend."""

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        """MPI_Recv; ``tag`` may be MPI_ANY_TAG. Raises Exception ERR_TRUNCATE: too long."""

    def receive_octets(self, tag: int, status: Status | None) -> bytearray | memoryview:
        """Receive a pickle of any length, or nothing."""

    def post(self, spec: BufferSpec, tag: int) -> Request:
        """MPI_Irecv; ``tag`` may be MPI_ANY_TAG."""


class NullRoute:
    """Route to MPI_PROC_NULL: every operation is complete at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def send(self, spec: BufferSpec, tag: int) -> None:
        check_tag(self._engine, tag)

    def send_octets(self, octets: bytes, tag: int) -> None:
        check_tag(self._engine, tag)

    def start(self, spec: BufferSpec, tag: int) -> Request:
        check_tag(self._engine, tag)
        return null_send()

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        check_receive_tag(self._engine, tag)
        fill_status(status, PROC_NULL, ANY_TAG, 0)

    def receive_octets(self, tag: int, status: Status | None) -> bytearray:
        self.receive(None, tag, status)
        return bytearray()

    def post(self, spec: BufferSpec, tag: int) -> Request:
        check_receive_tag(self._engine, tag)
        return null_receive()


class QueuedRoute:
    """Operations of the engine, matched in software; receives may have rank MPI_ANY_SOURCE."""

    def __init__(self, engine: Engine, context: Context, rank: int) -> None:
        self._engine = engine
        self._context = context
        self._rank = rank
        self._tag_ub = engine.job.tag_ub
        # The types that need no conversion on the way.
        self._plain = plain_types(external=engine.external)

    def send(self, spec: BufferSpec, tag: int) -> None:
        check_tag(self._engine, tag)
        self._finish(self._started(read(spec, self._plain, readonly=True), tag))

    def send_octets(self, octets: bytes, tag: int) -> None:
        check_tag(self._engine, tag)
        self._finish(
            self._engine.send(self._context, self._rank, tag, OctetSource(octets))
        )

    def start(self, spec: BufferSpec, tag: int) -> Request:
        check_tag(self._engine, tag)
        return Request._of(self._started(read(spec, self._plain, readonly=True), tag))

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        check_receive_tag(self._engine, tag)
        self._await(read(spec, self._plain, readonly=False), tag, status)

    def receive_octets(self, tag: int, status: Status | None) -> bytearray | memoryview:
        check_receive_tag(self._engine, tag)
        target = OctetTarget()
        self._end(self._engine.receive(self._context, self._rank, tag, target), status)

        return target.data

    def post(self, spec: BufferSpec, tag: int) -> Request:
        check_receive_tag(self._engine, tag)
        return Request._of(self._posted(read(spec, self._plain, readonly=False), tag))

    def _started(self, data: Plain | UserBuffer, tag: int) -> SendOperation:
        return self._engine.send(
            self._context, self._rank, tag, marshalling.source_of(data)
        )

    def _posted(self, data: Plain | UserBuffer, tag: int) -> ReceiveOperation:
        return self._engine.receive(
            self._context, self._rank, tag, marshalling.target_of(data)
        )

    def _await(self, data: Plain | UserBuffer, tag: int, status: Status | None) -> None:
        self._end(self._posted(data, tag), status)

    def _end(self, operation: ReceiveOperation, status: Status | None) -> None:
        self._complete(operation)
        # A blocking receive from any source that a loss has made pending has no request to go on
        # with.
        if operation.failure is not None:
            self._engine.losses.settle(operation)

        if status is not None or operation.truncated or operation.failure is not None:
            conclude(operation, status)

    def _finish(self, sending: SendOperation) -> None:
        self._complete(sending)
        if sending.failure is not None:
            raise sending.failure

    def _complete(self, operation: SendOperation | ReceiveOperation) -> None:
        if not operation.done:
            self._engine.turns.wait_for(operation)

        if type(operation) is SendOperation and operation.failure is not None:
            raise operation.failure


class ChannelRoute(QueuedRoute):
    """A proc of another client: octets without conversion bypass empty queues."""

    def __init__(self, engine: Engine, context: Context, rank: int) -> None:
        super().__init__(engine, context, rank)
        # Made at the first send: in a lazy job a receive needs no channel.
        self._sender: ShortSender | None = None
        self._receiver: StandingReceive = engine.standing_receive(context, rank)
        self._host = engine.ways.host_of[context.peers[rank]]
        self._writing = engine.ways.channels.writing

    def _reach(self) -> ShortSender:
        """Make the sender of short messages to the other proc, and in a lazy job the channel."""
        self._sender = self._engine.short_sender(self._context, self._rank)
        return self._sender

    def send(self, spec: BufferSpec, tag: int) -> None:
        data = read(spec, self._plain, readonly=True)
        if not (
            type(data) is tuple and (self._sender or self._reach()).send(tag, *data)
        ):
            self._finish(self._started(data, tag))
        elif self._writing:
            self._write_rest()

    def send_octets(self, octets: bytes, tag: int) -> None:
        if not (self._sender or self._reach()).send(tag, memoryview(octets), 0):
            super().send_octets(octets, tag)
        elif self._writing:
            self._write_rest()

    def _write_rest(self) -> None:
        """Wait until TCP has the rest of a packet."""
        # The rest was copied, so the buffer is free. But a program that only sends would fill
        # memory with copies if nothing slowed it down.
        self._engine.turns.wait(lambda: self._host not in self._writing)

    def start(self, spec: BufferSpec, tag: int) -> Request:
        data = read(spec, self._plain, readonly=True)
        if type(data) is tuple and (self._sender or self._reach()).send(tag, *data):
            return Request._of(SENT)

        return Request._of(self._started(data, tag))

    def receive(self, spec: BufferSpec, tag: int, status: Status | None) -> None:
        data = read(spec, self._plain, readonly=False)
        # One test instead of check_receive_tag(): a wrong tag is rare, and is checked below.
        if type(data) is tuple and type(tag) is int and ANY_TAG <= tag <= self._tag_ub:  # noqa: SIM102
            if self._receiver.receive(tag, data[0], status):
                return

        check_receive_tag(self._engine, tag)
        self._await(data, tag, status)

    def receive_octets(self, tag: int, status: Status | None) -> bytearray | memoryview:
        if type(tag) is int and ANY_TAG <= tag <= self._tag_ub:
            octets = self._receiver.receive_octets(tag, status)
            if octets is not None:
                return octets

        # Something is older, or something else is under way: the matchers sort it out.
        return super().receive_octets(tag, status)

    def _started(self, data: Plain | UserBuffer, tag: int) -> SendOperation:
        check_tag(self._engine, tag)

        source = marshalling.source_of(data)
        # ShortSender has refused it, so send() need not ask again
        if isinstance(data, tuple):
            return self._engine.enqueue(
                self._context, self._rank, tag, source, [data[0]]
            )

        return self._engine.send(self._context, self._rank, tag, source)


def check_tag(engine: Engine, tag: int) -> None:
    """Check the tag of a send.

    Raises:
        Exception: ERR_TAG: out of range, or reserved for Reduce in this job.
        TypeError: no int, which the caller converts
        (:func:`impi.rank.api.handles.integers.integer`).
        OverflowError: more than a C int.
    """
    if type(tag) is not int:
        raise TypeError(f"tag {tag!r} is not an int")

    if not 0 <= tag <= engine.job.tag_ub:
        fitting(tag)
        raise error("ERR_TAG", f"tag {tag} is not in 0..{engine.job.tag_ub}")

    if engine.reduce_on_p2p and tag == REDUCE_TAG:
        raise error(
            "ERR_TAG",
            f"tag {tag} is Reduce's alone in this job (--peer-quirks reduce-on-p2p); take another",
        )


def check_receive_tag(engine: Engine, tag: int) -> None:
    """Check the tag of a receive, which may be MPI_ANY_TAG; raises like :func:`check_tag`."""
    if type(tag) is not int or tag != ANY_TAG:
        check_tag(engine, tag)
