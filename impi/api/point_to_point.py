"""Point-to-point communication of Comm: buffers (``Send``) and pickled objects (``send``), as in mpi4py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from impi.api import bsend, prompt, runtime, transport
from impi.api.buffers import plain, simple
from impi.api.datatype import BYTE
from impi.api.failing import Owner, failed, guarded
from impi.api.message import MESSAGE_NO_PROC, Message
from impi.api.pickling import pickle
from impi.api.request import (
    Prequest,
    Request,
    conclude,
    describe_message,
    fill_status,
    load,
    null_receive,
    null_send,
    pair,
)
from impi.collectives.tags import REDUCE_TAG
from impi.engine.context import Context
from impi.engine.direct import DirectSource, DirectTarget
from impi.engine.operations import SENT, ReceiveOperation, SendOperation
from impi.engine.operations import Message as Envelope
from impi.engine.payload import OctetSource, OctetTarget, Source
from impi.errors import ImpiError
from impi.semantics.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from impi.semantics.errors import MPIException, error

if TYPE_CHECKING:
    from impi.api.status import Status

__all__ = ["PointToPoint"]


@guarded
class PointToPoint:
    """The methods; :class:`impi.api.comm.Comm` brings the context."""

    _context: Context | None
    _state: Any
    _unguarded = ("Irecv", "Isend", "Recv", "Send")

    if TYPE_CHECKING:

        @property
        def _attached(self) -> bsend.Attached: ...
        @property
        def _owner(self) -> Owner | None: ...

    # ---- buffers: sends --------------------------------------------------------------------------------

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking send."""
        try:
            # The commonest case first: there is a way, so it is a good rank, and who goes it looks at the rest.
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (send := context.sends.get(dest)) is not None
                and send(buf, tag)
            ):
                return
            operation = self._send(buf, dest, tag)[0]
            if operation is not None and not operation.done:
                runtime.engine().wait_for(operation)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Send")
            raise

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking synchronous send: returns once the message is matched."""
        self.Issend(buf, dest, tag).Wait()

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking ready send."""
        if (operation := self._send(buf, dest, tag)[0]) is not None and not operation.done:
            runtime.engine().wait_for(operation)

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Blocking buffered send: the message is copied into the attached buffer."""
        self.Ibsend(buf, dest, tag).Wait()

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start a send."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (send := context.starts.get(dest)) is not None
                and send(buf, tag)
            ):
                return Request._of(SENT)
            operation, keep = self._send(buf, dest, tag)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Isend")
            raise
        return null_send() if operation is None else Request._of(operation, None, keep)

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start a ready send."""
        operation, keep = self._send(buf, dest, tag)
        return null_send() if operation is None else Request._of(operation, None, keep)

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start a synchronous send."""
        return self._sender(buf, dest, tag, synchronous=True)()

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Start a buffered send."""
        return self._buffered_sender(buf, dest, tag)()

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A persistent send."""
        return Prequest._persistent(self._sender(buf, dest, tag))

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """A persistent buffered send."""
        return Prequest._persistent(self._buffered_sender(buf, dest, tag))

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """A persistent synchronous send."""
        return Prequest._persistent(self._sender(buf, dest, tag, synchronous=True))

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """A persistent ready send."""
        return Prequest._persistent(self._sender(buf, dest, tag))

    # ---- buffers: receives -----------------------------------------------------------------------------

    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Blocking receive."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (receive := context.receives.get(source)) is not None
                and receive(buf, tag, status)
            ):
                return
            operation = self._receive(buf, source, tag)
            if operation is None:
                fill_status(status, PROC_NULL, ANY_TAG, 0)
                return
            if not operation.done:
                runtime.engine().wait_for(operation)
            if status is not None or operation.truncated or operation.failure is not None:
                conclude(operation, status)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Recv")
            raise

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start a receive."""
        try:
            operation = self._receive(buf, source, tag)
        except (ImpiError, MPIException) as failure:
            failed(failure, self._owner, "Irecv")
            raise
        return null_receive() if operation is None else Request._of(operation)

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """A persistent receive."""
        return Prequest._persistent(self._receiver(buf, source, tag))

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send and receive at once; the two cannot block each other."""
        start = self._sender(sendbuf, dest, sendtag)
        receiving = self._receive(recvbuf, source, recvtag)
        sending = start()
        if receiving is None:
            fill_status(status, PROC_NULL, ANY_TAG, 0)
        else:
            runtime.engine().wait_for(receiving)
            conclude(receiving, status)
        sending.Wait()

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Send what is in the buffer, then receive into it."""
        self.Isendrecv_replace(buf, dest, sendtag, source, recvtag).Wait(status)

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Start to send and receive at once."""
        start = self._sender(sendbuf, dest, sendtag)
        receiving = self.Irecv(recvbuf, source, recvtag)
        return pair(receiving, start())

    def Isendrecv_replace(
        self, buf: Any, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        """Start to send what is in the buffer and to receive into it."""
        context = self._checked(dest, sendtag)
        sending = null_send()
        if dest != PROC_NULL:
            message = simple(buf, readonly=False)
            copy = transport.frozen(message, external=runtime.engine().is_external(context, dest))
            # Posted before the send starts, or a message to oneself could be matched with something older.
            receiving = self.Irecv(buf, source, recvtag)
            sending = Request._of(runtime.engine().send(context, dest, sendtag, copy))
        else:
            receiving = self.Irecv(buf, source, recvtag)
        return pair(receiving, sending)

    # ---- probes ----------------------------------------------------------------------------------------

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Literal[True]:
        """Wait until a message can be received, without receiving it."""
        self._probed(source, tag, status, take=False)
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Whether a message can be received."""
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            fill_status(status, PROC_NULL, ANY_TAG, 0)
            return True
        envelope = runtime.engine().probe(context, source, tag)
        if envelope is None:
            return False
        describe_message(envelope, status)
        return True

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Wait until a message can be received and take it off the queue."""
        envelope = self._probed(source, tag, status, take=True)
        return Message(MESSAGE_NO_PROC) if envelope is None else Message._of(envelope, self._live())

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Take a message off the queue if one can be received."""
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            fill_status(status, PROC_NULL, ANY_TAG, 0)
            return Message(MESSAGE_NO_PROC)
        envelope = runtime.engine().probe(context, source, tag, take=True)
        if envelope is None:
            return None
        describe_message(envelope, status)
        return Message._of(envelope, context)

    # ---- pickled objects -------------------------------------------------------------------------------

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Blocking send of a pickled object."""
        self.isend(obj, dest, tag).wait()

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Blocking buffered send of a pickled object."""
        self.ibsend(obj, dest, tag).wait()

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Blocking synchronous send of a pickled object."""
        self.issend(obj, dest, tag).wait()

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start to send a pickled object."""
        return self._object_sender(obj, dest, tag)()

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start a synchronous send of a pickled object."""
        return self._object_sender(obj, dest, tag, synchronous=True)()

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Start a buffered send of a pickled object."""
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send()
        return bsend.start(context, self._attached, dest, tag, OctetSource(pickle.dumps(obj)))

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Blocking receive of a pickled object."""
        _deprecated(buf)
        return self.irecv(buf, source, tag).wait(status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Start to receive a pickled object. A buffer given for it only bounds its size, as in mpi4py."""
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            return null_receive()
        if buf is not None and not isinstance(buf, int):
            message = simple([buf, BYTE], readonly=False)
            operation = runtime.engine().receive(context, source, tag, transport.target(message))
            return Request._of(operation, lambda: load(message.view), message)
        target = OctetTarget()
        operation = runtime.engine().receive(context, source, tag, target)
        return Request._of(operation, lambda: load(target.data))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Send one object and receive another at once."""
        _deprecated(recvbuf)
        start = self._object_sender(sendobj, dest, sendtag)
        receiving = self.irecv(recvbuf, source, recvtag)
        sending = start()
        value = receiving.wait(status)
        sending.wait()
        return value

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Literal[True]:
        """Wait until a message can be received, without receiving it."""
        return self.Probe(source, tag, status)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Whether a message can be received."""
        return self.Iprobe(source, tag, status)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Wait until a message can be received and take it off the queue."""
        return self.Mprobe(source, tag, status)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Take a message off the queue if one can be received."""
        return self.Improbe(source, tag, status)

    # ---- inside ----------------------------------------------------------------------------------------

    # What is wrong with a buffer is found before anything is posted: a receive whose send fails would stay.

    def _send(self, buf: Any, dest: int, tag: int) -> tuple[SendOperation | None, Any]:
        """Start a send: what it is, and what must live as long; nothing for PROC_NULL."""
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return (None, None)
        engine = runtime.engine()
        if dest not in context.sends:
            context.sends[dest] = prompt.sender(engine, context, dest)
            if dest not in context.shadow_of:
                context.starts[dest] = context.sends[dest]
        octets = plain(buf, readonly=True)
        if octets is None:
            message = simple(buf, readonly=True)
            return (engine.send(context, dest, tag, transport.source(message)), message)
        if (context.senders.get(dest) or engine.sender(context, dest))(tag, octets, len(octets)):
            return _SENT
        return (engine.send(context, dest, tag, DirectSource(octets)), octets)

    def _receive(self, buf: Any, source: int, tag: int) -> ReceiveOperation | None:
        """Post a receive; None from PROC_NULL."""
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            return None
        engine = runtime.engine()
        if source not in context.receives:
            context.receives[source] = prompt.receiver(engine, context, source)
        octets = plain(buf, readonly=False)
        target = transport.target(simple(buf, readonly=False)) if octets is None else DirectTarget(octets)
        return engine.receive(context, source, tag, target)

    def _sender(self, buf: Any, dest: int, tag: int, *, synchronous: bool = False) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send
        message = simple(buf, readonly=True)

        def start() -> Request:
            operation = runtime.engine().send(context, dest, tag, transport.source(message), synchronous=synchronous)
            return Request._of(operation, None, message)

        return start

    def _buffered_sender(self, buf: Any, dest: int, tag: int) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send
        message = simple(buf, readonly=True)
        return lambda: bsend.start(context, self._attached, dest, tag, transport.source(message))

    def _object_sender(self, obj: Any, dest: int, tag: int, *, synchronous: bool = False) -> Callable[[], Request]:
        context = self._checked(dest, tag)
        if dest == PROC_NULL:
            return null_send
        source: Source = OctetSource(pickle.dumps(obj))
        return lambda: Request._of(runtime.engine().send(context, dest, tag, source, synchronous=synchronous))

    def _receiver(self, buf: Any, source: int, tag: int) -> Callable[[], Request]:
        context = self._checked_source(source, tag)
        if source == PROC_NULL:
            return null_receive
        message = simple(buf, readonly=False)

        def start() -> Request:
            operation = runtime.engine().receive(context, source, tag, transport.target(message))
            return Request._of(operation, None, message)

        return start

    def _probed(self, source: int, tag: int, status: Status | None, *, take: bool) -> Envelope | None:
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

        engine.wait(ready, polling=True)
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
            raise error("ERR_RANK", f"destination rank {dest} is not in 0..{context.npeers - 1}")
        if not 0 <= tag <= engine.job.tag_ub or engine.reduce_on_p2p:
            _check_tag(tag)
        return context

    def _checked_source(self, source: int, tag: int) -> Context:
        engine = runtime.engine()
        context = self._context or self._live()
        if not 0 <= source < context.npeers and source not in (ANY_SOURCE, PROC_NULL):
            raise error("ERR_RANK", f"source rank {source} is not in 0..{context.npeers - 1}")
        if tag != ANY_TAG and (not 0 <= tag <= engine.job.tag_ub or engine.reduce_on_p2p):
            _check_tag(tag)
        return context


_SENT: Final = (SENT, None)


def _check_tag(tag: int) -> None:
    engine = runtime.engine()
    if not 0 <= tag <= engine.job.tag_ub:
        raise error("ERR_TAG", f"tag {tag} is not in 0..{engine.job.tag_ub}")
    if engine.reduce_on_p2p and tag == REDUCE_TAG:
        raise error("ERR_TAG", f"tag {tag} is Reduce's alone in this job (--peer-quirks reduce-on-p2p); take another")


def _deprecated(buf: Any) -> None:
    if buf is not None:
        warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=3)
