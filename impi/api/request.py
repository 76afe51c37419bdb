"""Request, Prequest and Message: what is under way, as mpi4py's classes of the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from impi.api import runtime, transport
from impi.api.buffers import simple
from impi.api.pickling import pickle
from impi.api.status import Status
from impi.engine.context import Context
from impi.engine.operations import Message as Envelope
from impi.engine.operations import Operation, ReceiveOperation, SendOperation
from impi.engine.payload import OctetTarget
from impi.semantics.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, UNDEFINED
from impi.semantics.errors import error

__all__ = [
    "MESSAGE_NO_PROC",
    "MESSAGE_NULL",
    "REQUEST_NULL",
    "Message",
    "Prequest",
    "Request",
    "describe_message",
    "fill_status",
    "load",
]


def fill_status(status: Status | None, source: int, tag: int, nbytes: int, *, cancelled: bool = False) -> None:
    """Write what is known of a message into the caller's status, if there is one."""
    if status is not None:
        status.fill(source=source, tag=tag, nbytes=nbytes, cancelled=cancelled)


class Request:
    """Something under way; inactive and null ones are complete at once with an empty status."""

    _operation: Operation | None
    _value: Callable[[], Any] | None
    _keep: Any

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another handle of ``request``."""
        self = super().__new__(cls)
        self._operation = self._value = self._keep = None
        if request is not None:
            self._operation, self._value, self._keep = request._operation, request._value, request._keep
        return self

    @classmethod
    def _of(cls, operation: Operation, value: Callable[[], Any] | None = None, keep: Any = None) -> Self:
        self = cls()
        self._operation = operation
        self._value = value
        self._keep = keep
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._operation is other._operation

    def __hash__(self) -> int:
        return id(self._operation)

    def __bool__(self) -> bool:
        return self._operation is not None

    # ---- one request -----------------------------------------------------------------------------------

    def Wait(self, status: Status | None = None) -> Literal[True]:
        """Wait until it is complete."""
        self._finish(status)
        return True

    def Test(self, status: Status | None = None) -> bool:
        """Whether it is complete; frees it then."""
        if not self._ready():
            return False
        self._finish(status)
        return True

    def Get_status(self, status: Status | None = None) -> bool:
        """Whether it is complete, without freeing it."""
        if not self._ready():
            return False
        _describe(self._operation, status)
        return True

    def Cancel(self) -> None:
        """Ask for it to be cancelled; the status of its completion tells."""
        operation = self._active()
        engine = runtime.engine()
        if isinstance(operation, ReceiveOperation):
            engine.withdraw(operation)
        elif isinstance(operation, SendOperation):
            engine.cancel(operation)
        else:
            raise error("ERR_REQUEST", "only point-to-point requests can be cancelled")

    def Free(self) -> None:
        """Let go of the handle; what is under way completes by itself."""
        self._active()
        self._clear()

    def wait(self, status: Status | None = None) -> Any:
        """Wait; the object received, or None."""
        return self._finish(status)

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        """Whether it is complete, and the object received."""
        if not self._ready():
            return (False, None)
        return (True, self._finish(status))

    def get_status(self, status: Status | None = None) -> bool:
        """Whether it is complete, without freeing it."""
        return self.Get_status(status)

    def cancel(self) -> None:
        """Ask for it to be cancelled."""
        self.Cancel()

    def free(self) -> None:
        """Let go of the handle if there is one."""
        self._clear()

    # ---- any of several --------------------------------------------------------------------------------

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Index of one that is complete, or UNDEFINED if all are null."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Index of one that is complete, and whether there was one (or all are null)."""
        index, flag, _ = cls.testany(requests, status)
        return (index, flag)

    @classmethod
    def waitany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, Any]:
        """Index of one that is complete, and the object received."""
        running = [r for r in requests if r._pending]
        if not running:
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, None)
        runtime.engine().wait(lambda: any(r._done for r in running))
        index = next(i for i, r in enumerate(requests) if r._pending and r._done)
        return (index, requests[index]._finish(status))

    @classmethod
    def testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool, Any | None]:
        """Index, flag and object of one that is complete."""
        if not any(r._pending for r in requests):
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, True, None)
        runtime.engine().progress()
        for index, request in enumerate(requests):
            if request._pending and request._done:
                return (index, True, request._finish(status))
        return (UNDEFINED, False, None)

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Like :meth:`Testany`, without freeing."""
        if not any(r._pending for r in requests):
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, True)
        runtime.engine().progress()
        for index, request in enumerate(requests):
            if request._pending and request._done:
                _describe(request._operation, status)
                return (index, True)
        return (UNDEFINED, False)

    get_status_any = Get_status_any

    # ---- all of several --------------------------------------------------------------------------------

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> Literal[True]:
        """Wait until all are complete."""
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Whether all are complete; frees them then."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[Any]:
        """Wait until all are complete; the objects received."""
        runtime.engine().wait(lambda: all(r._done for r in requests))
        return cls._finish_all(requests, statuses)

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are complete, and the objects received."""
        if not cls.Get_status_all(requests):
            return (False, None)
        return (True, cls._finish_all(requests, statuses))

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Whether all are complete, without freeing them."""
        if not all(r._done for r in requests):
            runtime.engine().progress()
            if not all(r._done for r in requests):
                return False
        for request, status in zip(requests, _room(statuses, len(requests)), strict=False):
            _describe(request._operation, status)
        return True

    get_status_all = Get_status_all

    # ---- some of several -------------------------------------------------------------------------------

    @classmethod
    def Waitsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Indices of those that are complete, at least one; None if all are null."""
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Indices of those that are complete; None if all are null."""
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Indices and objects of those that are complete, at least one."""
        running = [r for r in requests if r._pending]
        if not running:
            return (None, None)
        runtime.engine().wait(lambda: any(r._done for r in running))
        return cls._finish_some(requests, statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        """Indices and objects of those that are complete."""
        if not any(r._pending for r in requests):
            return (None, None)
        runtime.engine().progress()
        return cls._finish_some(requests, statuses)

    @classmethod
    def Get_status_some(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Indices of those that are complete, without freeing them."""
        if not any(r._pending for r in requests):
            return None
        runtime.engine().progress()
        indices = [i for i, r in enumerate(requests) if r._pending and r._done]
        for index, status in zip(indices, _room(statuses, len(indices)), strict=False):
            _describe(requests[index]._operation, status)
        return indices

    get_status_some = Get_status_some

    # ---- inside ------------------------------------------------------------------------------------------

    @property
    def _pending(self) -> bool:
        """Whether there is an active operation behind it."""
        return self._operation is not None

    @property
    def _done(self) -> bool:
        return self._operation is None or self._operation.done

    def _active(self) -> Operation:
        if self._operation is None:
            raise error("ERR_REQUEST", "null request")
        return self._operation

    def _ready(self) -> bool:
        if not self._done:
            runtime.engine().progress()
        return self._done

    def _clear(self) -> None:
        self._operation = self._value = self._keep = None

    def _finish(self, status: Status | None) -> Any:
        operation = self._operation
        if operation is None:
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return None
        if not operation.done:
            runtime.engine().wait(lambda: operation.done)
        value = self._value
        self._clear()
        _describe(operation, status)
        check(operation)
        return None if value is None or operation.cancelled else value()

    @classmethod
    def _finish_all(cls, requests: Sequence[Request], statuses: list[Status] | None) -> list[Any]:
        rooms = _room(statuses, len(requests))
        return [request._finish(status) for request, status in zip(requests, rooms, strict=False)]

    @classmethod
    def _finish_some(cls, requests: Sequence[Request], statuses: list[Status] | None) -> tuple[list[int], list[Any]]:
        indices = [i for i, r in enumerate(requests) if r._pending and r._done]
        rooms = _room(statuses, len(indices))
        return (indices, [requests[i]._finish(status) for i, status in zip(indices, rooms, strict=False)])


def load(data: bytearray | memoryview) -> Any:
    """The object in a pickle; None in an empty message, as in mpi4py."""
    return pickle.loads(data) if len(data) else None


def _room(statuses: Sequence[Status] | None, n: int) -> Sequence[Status | None]:
    """One status for each of ``n``; the caller's list grows where it is too short, as in mpi4py."""
    if statuses is None:
        return [None] * n
    more = [Status() for _ in range(n - len(statuses))]
    if isinstance(statuses, list):
        statuses.extend(more)
        return statuses
    return [*statuses, *more]


def _describe(operation: Operation | None, status: Status | None) -> None:
    if status is None:
        return
    if isinstance(operation, _Pair):
        operation = operation.receiving
    if isinstance(operation, ReceiveOperation) and operation.message is not None:
        message = operation.message
        nbytes = operation.target.native_size(message.nbytes, external=message.external)
        status.fill(source=message.source, tag=message.tag, nbytes=nbytes)
    elif isinstance(operation, ReceiveOperation | SendOperation) and operation.cancelled:
        status.fill(source=ANY_SOURCE, tag=ANY_TAG, nbytes=0, cancelled=True)
    else:
        fill_status(status, ANY_SOURCE, ANY_TAG, 0)


def describe_message(message: Envelope, status: Status | None) -> None:
    """Write source, tag and length of a message into the caller's status, if there is one."""
    if status is not None:
        status.fill(
            source=message.source,
            tag=message.tag,
            nbytes=message.nbytes,
            external=message.external,
            long_size=transport.long_size(),
        )


def check(operation: Operation) -> None:
    """Raise what went wrong with a complete operation.

    Raises:
        Exception: ERR_TRUNCATE when the message was longer than the buffer.
    """
    if isinstance(operation, _Pair):
        operation = operation.receiving
    if isinstance(operation, ReceiveOperation) and operation.failure is not None:
        raise operation.failure
    if isinstance(operation, ReceiveOperation) and operation.truncated and operation.message is not None:
        message = operation.message
        raise error(
            "ERR_TRUNCATE",
            f"message of {message.nbytes} bytes from rank {message.source} with tag {message.tag} truncated: "
            f"the receive buffer takes {operation.target.capacity(external=message.external)} bytes",
        )


class Prequest(Request):
    """A persistent request: started any number of times."""

    def __new__(cls, request: Request | None = None) -> Self:
        """A null request, or another handle of ``request``."""
        self = super().__new__(cls, request)
        self._start = request._start if isinstance(request, Prequest) else None
        return self

    _start: Callable[[], Request] | None

    @classmethod
    def _persistent(cls, start: Callable[[], Request]) -> Self:
        self = cls()
        self._start = start
        return self

    def __bool__(self) -> bool:
        return self._start is not None

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._start is (other._start if isinstance(other, Prequest) else None)

    __hash__ = Request.__hash__

    def Start(self) -> None:
        """Start it (again)."""
        if self._start is None or self._operation is not None:
            raise error("ERR_REQUEST", "null request" if self._start is None else "request is already active")
        started = self._start()
        self._operation, self._value, self._keep = started._operation, started._value, started._keep

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        """Start all of them."""
        for request in requests:
            request.Start()

    def Free(self) -> None:
        """Give it back."""
        if self._start is None:
            raise error("ERR_REQUEST", "null request")
        self._start = None
        self._clear()

    def free(self) -> None:
        """Give it back if there is one."""
        self._start = None
        self._clear()


class Message:
    """A message taken off the queue by a matched probe."""

    _envelope: Envelope | None
    _context: Context | None
    _no_proc: bool

    def __new__(cls, message: Message | None = None) -> Self:
        """A null message, or another handle of ``message``."""
        self = super().__new__(cls)
        self._envelope = None
        self._context = None
        self._no_proc = False
        if message is not None:
            self._envelope, self._context, self._no_proc = message._envelope, message._context, message._no_proc
        return self

    @classmethod
    def _of(cls, envelope: Envelope | None, context: Context | None) -> Self:
        self = cls()
        self._envelope = envelope
        self._context = context
        self._no_proc = envelope is None
        return self

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._envelope is other._envelope and self._no_proc == other._no_proc

    def __hash__(self) -> int:
        return id(self._envelope)

    def __bool__(self) -> bool:
        return self._envelope is not None or self._no_proc

    @classmethod
    def Probe(cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Self:
        """Wait for a matching message and take it off the queue."""
        return cls(comm.Mprobe(source, tag, status))

    @classmethod
    def Iprobe(
        cls, comm: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Self | None:
        """Take a matching message off the queue if there is one."""
        message = comm.Improbe(source, tag, status)
        return None if message is None else cls(message)

    probe = Probe
    iprobe = Iprobe

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Receive it into a buffer."""
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: Any) -> Request:
        """Start to receive it into a buffer."""
        if self._no_proc:
            return null_receive()
        message = simple(buf, readonly=False)
        return self._receive(transport.target(message), None, message)

    def recv(self, status: Status | None = None) -> Any:
        """Receive the object."""
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        """Start to receive the object."""
        if self._no_proc:
            return null_receive()
        target = OctetTarget()
        return self._receive(target, lambda: load(target.data), None)

    def _receive(self, target: Any, value: Callable[[], Any] | None, keep: Any) -> Request:
        envelope = self._envelope
        if envelope is None or self._context is None:
            raise error("ERR_REQUEST", "null message")
        self._envelope = None
        operation = runtime.engine().receive_message(self._context, envelope, target)
        return Request._of(operation, value, keep)


class _NoProc:
    """The completed receive from PROC_NULL."""

    done = True
    cancelled = False

    def advance(self) -> bool:
        """Nothing to do."""
        return True


class _FromProcNull(Request):
    def _finish(self, status: Status | None) -> Any:
        self._clear()
        fill_status(status, PROC_NULL, ANY_TAG, 0)


def null_receive() -> Request:
    """A request for a receive from PROC_NULL: complete, with PROC_NULL as its source."""
    return _FromProcNull._of(_NoProc())


def null_send() -> Request:
    """A request for a send to PROC_NULL: complete."""
    return Request._of(_NoProc())


class _Pair:
    """A receive and a send as one operation: the receive's status, complete when both are."""

    cancelled = False

    def __init__(self, receiving: Operation, sending: Operation) -> None:
        self.receiving = receiving
        self._sending = sending
        self.done = False
        self.advance()

    def advance(self) -> bool:
        """Look at both."""
        self.done = self.receiving.advance() and self._sending.advance()
        return self.done


def pair(receiving: Request, sending: Request) -> Request:
    """One request of a receive and a send that was just started with it."""
    first, second = receiving._operation, sending._operation
    assert first is not None and second is not None
    kind = _FromProcNull if isinstance(receiving, _FromProcNull) else Request
    both = _Pair(first, second)
    if not both.done:
        runtime.engine().track(both)
    return kind._of(both, None, (receiving._keep, sending._keep))


REQUEST_NULL = Request()
MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message._of(None, None)
