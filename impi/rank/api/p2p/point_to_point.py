"""Point-to-point communication: buffers (``Send``) and pickled objects (``send``).

How it works: a communicator has two tables of routes, one by destination and one by source
(:mod:`.route_table`). The usual calls look up the rank there and leave all else to the route, which
knows whether the rank is in this client, in another one, or nowhere (PROC_NULL). Calls that a route
does not know (synchronous and buffered modes, persistent requests, probes) check their arguments
here and start an operation of the engine.

Invariants: a call checks all of its arguments before it posts or sends anything, so a call that
raises leaves no receive behind. A rank or tag that is not an ``int`` is converted only after the
look-up has failed: the usual call pays for no test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from impi.base.errors import ImpiError
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.handles.failing import Owner, failed, guarded
from impi.rank.api.handles.integers import integer
from impi.rank.api.p2p import bsend
from impi.rank.api.p2p.completion import describe_message, fill_status
from impi.rank.api.p2p.matched_message import MESSAGE_NO_PROC, Message
from impi.rank.api.p2p.request import (
    Prequest,
    Request,
    load,
    null_receive,
    null_send,
    pair,
)
from impi.rank.api.p2p.route_table import CLOSED
from impi.rank.api.p2p.routes import check_receive_tag, check_tag
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import plain_types, read, read_buffer
from impi.rank.api.types.datatypes import BYTE
from impi.rank.api.types.pickling import pickle
from impi.rank.engine.channels.payload import OctetSource, OctetTarget, Source
from impi.rank.engine.context import Context
from impi.rank.engine.operations import TakenMessage as Envelope

if TYPE_CHECKING:
    from impi.rank.api.p2p.status import Status
    from impi.rank.api.types.specs import BufferSpec


@guarded
class PointToPoint:
    """The calls of every communicator; :class:`impi.rank.api.comms.comm.Comm` inherits them."""

    _context: Context | None
    _state: Any
    # The four calls that programs make most handle failures themselves: the guard's frame would
    # cost each message.
    _unguarded = ("Irecv", "Isend", "Recv", "Send")

    if TYPE_CHECKING:

        @property
        def _attached(self) -> bsend.Attached: ...
        @property
        def _owner(self) -> Owner | None: ...

    # ---- buffers: sends --------------------------------------------------------------------------

    def Send(self, buf: BufferSpec, dest: int, tag: int = 0) -> None:
        try:
            # One look-up finds the way of the message. The table of a null communicator raises.
            (self._state or CLOSED).destinations[dest].send(buf, tag)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Send")
            raise
        # Integers of numpy and others with __index__ are converted only here: a test before the
        # call would cost every message.
        except TypeError:
            if type(dest) is int and type(tag) is int:
                raise

            self.Send(buf, integer(dest), integer(tag))

    def Ssend(self, buf: BufferSpec, dest: int, tag: int = 0) -> None:
        """Blocking synchronous send: returns once the message is matched."""
        self.Issend(buf, dest, tag).Wait()

    def Rsend(self, buf: BufferSpec, dest: int, tag: int = 0) -> None:
        # MPI lets ready mode be standard mode (3.4), and IMPI sends both alike (3.7.2).
        (self._state or CLOSED).destinations[dest].send(buf, tag)

    def Bsend(self, buf: BufferSpec, dest: int, tag: int = 0) -> None:
        """Blocking buffered send: the message is copied into the attached buffer."""
        self.Ibsend(buf, dest, tag).Wait()

    def Isend(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        try:
            return (self._state or CLOSED).destinations[dest].start(buf, tag)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Isend")
            raise
        except TypeError:
            if type(dest) is int and type(tag) is int:
                raise

            return self.Isend(buf, integer(dest), integer(tag))

    def Irsend(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return (self._state or CLOSED).destinations[dest].start(buf, tag)

    def Issend(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return self._sender(buf, dest, tag, synchronous=True)()

    def Ibsend(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return self._buffered_sender(buf, dest, tag)()

    def Send_init(self, buf: BufferSpec, dest: int, tag: int = 0) -> Prequest:
        return Prequest._persistent(self._sender(buf, dest, tag))

    def Bsend_init(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return Prequest._persistent(self._buffered_sender(buf, dest, tag))

    def Ssend_init(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return Prequest._persistent(self._sender(buf, dest, tag, synchronous=True))

    def Rsend_init(self, buf: BufferSpec, dest: int, tag: int = 0) -> Request:
        return Prequest._persistent(self._sender(buf, dest, tag))

    # ---- buffers: receives -----------------------------------------------------------------------

    def Recv(
        self,
        buf: BufferSpec,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        try:
            (self._state or CLOSED).sources[source].receive(buf, tag, status)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Recv")
            raise
        except TypeError:
            if type(source) is int and type(tag) is int:
                raise

            self.Recv(buf, integer(source), integer(tag), status)

    def Irecv(
        self, buf: BufferSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Request:
        try:
            return (self._state or CLOSED).sources[source].post(buf, tag)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Irecv")
            raise
        except TypeError:
            if type(source) is int and type(tag) is int:
                raise

            return self.Irecv(buf, integer(source), integer(tag))

    def Recv_init(
        self, buf: BufferSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Prequest:
        return Prequest._persistent(self._receiver(buf, source, tag))

    def Sendrecv(
        self,
        sendbuf: BufferSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufferSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        routes, engine = self._state or CLOSED, runtime.engine()
        receiving = routes.sources[source]

        # Errors of the receive are raised before anything is sent.
        check_receive_tag(engine, recvtag)
        if source != PROC_NULL:
            read(recvbuf, plain_types(external=engine.external), readonly=False)

        # Started, not awaited: two procs that exchange must not wait for each other's receive. The
        # receive comes next, so that it can be a standing receive, which takes its message without
        # the matcher.
        sending = routes.destinations[dest].start(sendbuf, sendtag)
        receiving.receive(recvbuf, recvtag, status)
        sending.Wait()

    def Sendrecv_replace(
        self,
        buf: BufferSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        self.Isendrecv_replace(buf, dest, sendtag, source, recvtag).Wait(status)

    def Isendrecv(
        self,
        sendbuf: BufferSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufferSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        start = self._sender(sendbuf, dest, sendtag)
        return pair(self.Irecv(recvbuf, source, recvtag), start())

    def Isendrecv_replace(
        self,
        buf: BufferSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        context = self._checked(dest, sendtag)

        sending = null_send()
        if dest != PROC_NULL:
            message = read_buffer(buf, readonly=False)
            # A copy, as the receive may write into the buffer before all of it is sent.
            copy = marshalling.frozen(
                message, external=runtime.engine().is_external(context, dest)
            )
            # The receive is posted first, else a message to oneself could match an older receive.
            receiving = self.Irecv(buf, source, recvtag)
            sending = Request._of(runtime.engine().send(context, dest, sendtag, copy))
        else:
            receiving = self.Irecv(buf, source, recvtag)

        return pair(receiving, sending)

    # ---- probes ----------------------------------------------------------------------------------

    def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        self._probed(source, tag, status, take=False)
        return True

    def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            fill_status(status, PROC_NULL, ANY_TAG, 0)
            return True

        envelope = runtime.engine().probe(context, source, tag)
        if envelope is None:
            return False

        describe_message(envelope, status)

        return True

    def Mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        envelope = self._probed(source, tag, status, take=True)
        return (
            Message(MESSAGE_NO_PROC)
            if envelope is None
            else Message._of(envelope, self._live())
        )

    def Improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            # MPI 4.1, 3.8.2: the message is there at once, and is not null, so Mrecv takes it.
            fill_status(status, PROC_NULL, ANY_TAG, 0)
            return Message(MESSAGE_NO_PROC)

        envelope = runtime.engine().probe(context, source, tag, take=True)
        if envelope is None:
            return None

        describe_message(envelope, status)

        return Message._of(envelope, context)

    # ---- pickled objects -------------------------------------------------------------------------

    def send(self, obj: object, dest: int, tag: int = 0) -> None:
        (self._state or CLOSED).destinations[dest].send_octets(pickle.dumps(obj), tag)

    def bsend(self, obj: object, dest: int, tag: int = 0) -> None:
        self.ibsend(obj, dest, tag).wait()

    def ssend(self, obj: object, dest: int, tag: int = 0) -> None:
        self.issend(obj, dest, tag).wait()

    def isend(self, obj: object, dest: int, tag: int = 0) -> Request:
        return self._object_sender(obj, dest, tag)()

    def issend(self, obj: object, dest: int, tag: int = 0) -> Request:
        return self._object_sender(obj, dest, tag, synchronous=True)()

    def ibsend(self, obj: object, dest: int, tag: int = 0) -> Request:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send()

        return bsend.start(
            context, self._attached, dest, tag, OctetSource(pickle.dumps(obj))
        )

    def recv(
        self,
        buf: BufferSpec = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        if buf is None:
            return load(
                (self._state or CLOSED).sources[source].receive_octets(tag, status)
            )

        _deprecated()
        return self.irecv(buf, source, tag)._finish(status, blocking=True)

    def irecv(
        self, buf: BufferSpec = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Request:
        """Start to receive a pickled object; a given buffer only bounds its size, as in mpi4py."""

        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            return null_receive()

        if buf is not None and not isinstance(buf, int):
            message = read_buffer([buf, BYTE], readonly=False)
            operation = runtime.engine().receive(
                context, source, tag, marshalling.target(message)
            )
            return Request._of(operation, lambda: load(message.view), message)

        target = OctetTarget()
        operation = runtime.engine().receive(context, source, tag, target)

        return Request._of(operation, lambda: load(target.data))

    def sendrecv(
        self,
        sendobj: object,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufferSpec = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        if recvbuf is not None:
            _deprecated()

        # Pickled first: if that fails, no receive must stay posted.
        start = self._object_sender(sendobj, dest, sendtag)
        receiving = self.irecv(recvbuf, source, recvtag)
        sending = start()
        value = receiving.wait(status)
        sending.wait()

        return value

    def probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Literal[True]:
        return self.Probe(source, tag, status)

    def iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> bool:
        return self.Iprobe(source, tag, status)

    def mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message:
        return self.Mprobe(source, tag, status)

    def improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        return self.Improbe(source, tag, status)

    # ---- inside ----------------------------------------------------------------------------------

    # Buffers are checked before anything is posted: the receive of a failed send would stay.

    def _sender(
        self, buf: BufferSpec, dest: int, tag: int, *, synchronous: bool = False
    ) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send

        # A persistent request may outlive the handle of its datatype: the source keeps its own.
        source = marshalling.source_of(read(buf, marshalling.plain(), readonly=True))

        def start() -> Request:
            return Request._of(
                runtime.engine().send(
                    context, dest, tag, source, synchronous=synchronous
                )
            )

        return start

    def _buffered_sender(
        self, buf: BufferSpec, dest: int, tag: int
    ) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send

        source = marshalling.source(read_buffer(buf, readonly=True))

        return lambda: bsend.start(context, self._attached, dest, tag, source)

    def _object_sender(
        self, obj: object, dest: int, tag: int, *, synchronous: bool = False
    ) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send

        source: Source = OctetSource(pickle.dumps(obj))

        return lambda: Request._of(
            runtime.engine().send(context, dest, tag, source, synchronous=synchronous)
        )

    def _receiver(
        self, buf: BufferSpec, source: int, tag: int
    ) -> Callable[[], Request]:
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            return null_receive

        target = marshalling.targets(read(buf, marshalling.plain(), readonly=False))

        def start() -> Request:
            return Request._of(runtime.engine().receive(context, source, tag, target()))

        return start

    def _probed(
        self, source: int, tag: int, status: Status | None, *, take: bool
    ) -> Envelope | None:
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            fill_status(status, PROC_NULL, ANY_TAG, 0)
            return None

        engine = runtime.engine()
        found: list[Envelope] = []

        def ready() -> bool:
            envelope = engine.probe(context, source, tag, take=take)
            if envelope is not None:
                found.append(envelope)

            return bool(found)

        # No receive is posted, so the wait cannot see by itself that a local message may end it.
        engine.turns.wait(ready, polling=True)
        describe_message(found[0], status)

        return found[0]

    def _live(self) -> Context:
        if self._context is None:
            raise error("ERR_COMM", "null communicator")

        runtime.engine()
        return self._context

    def _checked(self, dest: int, tag: int) -> Context:
        engine = runtime.engine()

        context = self._context or self._live()
        if not 0 <= dest < context.npeers and dest != PROC_NULL:
            raise error(
                "ERR_RANK", f"destination rank {dest} is not in 0..{context.npeers - 1}"
            )

        check_tag(engine, tag)

        return context

    def _checked_source(self, source: int, tag: int) -> Context:
        engine = runtime.engine()

        context = self._context or self._live()
        if not 0 <= source < context.nsources and source not in (ANY_SOURCE, PROC_NULL):
            raise error(
                "ERR_RANK", f"source rank {source} is not in 0..{context.nsources - 1}"
            )

        check_receive_tag(engine, tag)

        return context


def _deprecated() -> None:
    warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=3)
