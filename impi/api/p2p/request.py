"""Request and Prequest: what is under way, as mpi4py's classes of the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal, Self, cast

from impi.api import runtime
from impi.api.handles.failing import Owner, guarded, handle
from impi.api.handles.handle import Handle, State
from impi.api.p2p.generalized import GeneralOperation
from impi.api.p2p.status import Status
from impi.api.types import marshalling
from impi.api.types.pickling import pickle
from impi.engine.collective import CollectiveOperation
from impi.engine.operations import Message as Envelope
from impi.engine.operations import Operation, ReceiveOperation, SendOperation
from impi.engine.partitioned import PartitionedSend
from impi.semantics.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, UNDEFINED
from impi.semantics.errors import MPIException, error

__all__ = [
    "REQUEST_NULL",
    "Prequest",
    "Request",
    "describe_message",
    "fill_status",
    "conclude",
    "load",
    "null_receive",
    "null_send",
    "pair",
]


def fill_status(status: Status | None, source: int, tag: int, nbytes: int, *, cancelled: bool = False) -> None:
    """Write what is known of a message into the caller's status, if there is one."""
    if status is not None:
        status.fill(source=source, tag=tag, nbytes=nbytes, cancelled=cancelled)


class _Active(State):
    """What the handles of one request have in common."""

    __slots__ = ("keep", "operation", "value")

    def __init__(
        self, operation: Operation | None, value: Callable[[], object] | None = None, keep: object = None
    ) -> None:
        self._number = 0
        self.constant = None
        self.operation = operation
        self.value = value
        self.keep = keep

    def clear(self) -> None:
        """Nothing is under way any more."""
        self.operation = self.value = self.keep = None


@guarded
class Request(Handle):
    """Something under way; inactive and null ones are complete at once with an empty status."""

    _state: _Active | None
    _kind: ClassVar[type[Request]]

    @classmethod
    def _of(cls, operation: Operation, value: Callable[[], object] | None = None, keep: object = None) -> Self:
        self: Self = object.__new__(cls)
        self._state = _Active(operation, value, keep)
        return self

    @classmethod
    def _class_of(cls, state: object) -> type[Request]:
        # A number says nothing about the kind, so the class that is asked decides, as in mpi4py.
        return cls._kind

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
        if isinstance(operation, GeneralOperation):
            operation.cancel()
        elif isinstance(operation, ReceiveOperation):
            runtime.engine().withdraw(operation)
        elif isinstance(operation, SendOperation):
            runtime.engine().cancel(operation)
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
        engine = runtime.engine()
        plain = statuses is None
        for request in requests:
            # Whoever waits for one drives all of them.
            state = request._state
            if state is None or (operation := state.operation) is None:
                continue
            if not operation.done:
                engine.wait_for(operation)
            plain = plain and state.value is None and type(operation) in _PLAIN and not _is_wrong(operation)
        if plain:
            for request in requests:
                request._clear()
            return [None] * len(requests)
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
    def _operation(self) -> Operation | None:
        return None if self._state is None else self._state.operation

    @property
    def _owner(self) -> Owner | None:
        return _owner(self._operation)

    @property
    def _pending(self) -> bool:
        """Whether there is an active operation behind it."""
        return self._operation is not None

    @property
    def _done(self) -> bool:
        operation = self._operation
        return operation is None or operation.done

    def _active(self) -> Operation:
        operation = self._operation
        if operation is None:
            raise error("ERR_REQUEST", "null request")
        return operation

    def _ready(self) -> bool:
        if not self._done:
            runtime.engine().progress()
        return self._done

    def _clear(self) -> None:
        if self._state is not None:
            self._state.clear()
        self._state = None

    def _finish(self, status: Status | None) -> Any:
        operation = self._operation
        try:
            return self._complete(status)
        except MPIException as failure:
            handle(failure, _owner(operation))
            raise

    def _complete(self, status: Status | None) -> Any:
        operation = self._operation
        if self._state is None or operation is None:
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return None
        if not operation.done:
            runtime.engine().wait_for(operation)
        value = self._state.value
        self._clear()
        if status is None and value is None and type(operation) in _PLAIN and not _is_wrong(operation):
            return None
        try:
            conclude(operation, status)
        finally:
            if isinstance(operation, GeneralOperation):
                operation.free()
        return None if value is None or operation.cancelled else value()

    @classmethod
    def _finish_all(cls, requests: Sequence[Request], statuses: list[Status] | None) -> list[Any]:
        return cls._finish_each(requests, _room(statuses, len(requests)))

    @classmethod
    def _finish_each(cls, requests: Sequence[Request], statuses: Sequence[Status | None]) -> list[Any]:
        """Finish all of them, whether they succeed or not.

        Raises:
            Exception: ERR_IN_STATUS, some do not; what became of each is in its status.
        """
        values: list[Any] = []
        first: MPIException | None = None
        blamed: Owner | None = None
        for request, status in zip(requests, statuses, strict=False):
            operation = request._operation
            try:
                values.append(request._complete(status))
            except MPIException as failure:
                if first is None:
                    first, blamed = failure, _owner(operation)
        if first is not None:
            handle(first, blamed)  # with the code of the request (MPI 4.1, 9.3.1), once for the call
            together = error("ERR_IN_STATUS", str(first))
            together.handled, together.told = True, first.told
            raise together from first
        return values

    @classmethod
    def _finish_some(cls, requests: Sequence[Request], statuses: list[Status] | None) -> tuple[list[int], list[Any]]:
        indices = [i for i, r in enumerate(requests) if r._pending and r._done]
        chosen = [requests[i] for i in indices]
        return (indices, cls._finish_each(chosen, _room(statuses, len(indices))))


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
    if isinstance(operation, GeneralOperation):
        operation.query(status)
        return
    if status is None:
        return
    if isinstance(operation, _Pair):
        operation = operation.receiving
    if isinstance(operation, _Nothing):
        fill_status(status, operation.source, ANY_TAG, 0)
    elif isinstance(operation, ReceiveOperation) and operation.message is not None:
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
            long_size=marshalling.long_size(),
        )


_PLAIN: Final = frozenset([SendOperation, ReceiveOperation])


def _is_wrong(operation: object) -> bool:
    """Whether :func:`check` has something to say about a send or receive."""
    return type(operation) is ReceiveOperation and (operation.truncated or operation.failure is not None)


def conclude(operation: Operation, status: Status | None) -> None:
    """It is complete: fill its status, raise what went wrong."""
    try:
        _describe(operation, status)
        check(operation)
    except MPIException as failure:
        if status is not None:
            status.Set_error(int(failure))
        raise


def check(operation: Operation) -> None:
    """Raise what went wrong with a complete operation.

    Raises:
        Exception: ERR_TRUNCATE when the message was longer than the buffer.
    """
    if isinstance(operation, _Pair):
        operation = operation.receiving
    if isinstance(operation, ReceiveOperation | CollectiveOperation) and operation.failure is not None:
        raise operation.failure
    if isinstance(operation, ReceiveOperation) and operation.truncated and operation.message is not None:
        message = operation.message
        raise error(
            "ERR_TRUNCATE",
            f"message of {message.nbytes} bytes from rank {message.source} with tag {message.tag} truncated: "
            f"the receive buffer takes {operation.target.capacity(external=message.external)} bytes",
        )


def _owner(operation: Operation | None) -> Owner | None:
    """Whose error handler is called when it fails; None where nobody's in particular is."""
    if isinstance(operation, _Pair):
        operation = operation.receiving
    if isinstance(operation, ReceiveOperation | CollectiveOperation):
        return cast("Owner | None", operation.context.owner)
    return None


class _Persistent(_Active):
    """A persistent request; it outlives what it starts."""

    __slots__ = ("partitions", "start")

    def __init__(self, start: Callable[[], Request], partitions: int) -> None:
        super().__init__(None)
        self.start = start
        self.partitions = partitions


@guarded
class Prequest(Request):
    """A persistent request: started any number of times."""

    _state: _Persistent | None

    @classmethod
    def _persistent(cls, start: Callable[[], Request], partitions: int = 0) -> Self:
        return cls._wrap(_Persistent(start, partitions))

    @classmethod
    def _takes(cls, state: object) -> bool:
        return isinstance(state, _Persistent)

    def Start(self) -> None:
        """Start it (again)."""
        state = self._state
        if state is None or state.operation is not None:
            raise error("ERR_REQUEST", "null request" if state is None else "request is already active")
        started = state.start()._state
        if started is not None:
            state.operation, state.value, state.keep = started.operation, started.value, started.keep

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        """Start all of them."""
        for request in requests:
            request.Start()

    def Free(self) -> None:
        """Give it back."""
        if self._state is None:
            raise error("ERR_REQUEST", "null request")
        self._state = None

    def Pready(self, partition: int) -> None:
        """One partition of a send is ready."""
        operation = self._partition(partition)
        if isinstance(operation, PartitionedSend):
            operation.ready(partition)

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Partitions of a send are ready: these two and all between."""
        self.Pready_list(range(partition_low, partition_high + 1))

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Some partitions of a send are ready."""
        for partition in partitions:
            self.Pready(partition)

    def Parrived(self, partition: int) -> bool:
        """Whether a partition of a receive is there."""
        self._partition(partition, active=False)
        return self._ready()

    def _partition(self, partition: int, *, active: bool = True) -> Operation | None:
        state = self._state
        if state is None or (active and state.operation is None):
            raise error("ERR_REQUEST", "null or inactive request")
        if not 0 <= partition < state.partitions:
            raise error("ERR_ARG", f"partition {partition} is not in 0..{state.partitions - 1}")
        return state.operation

    def _clear(self) -> None:
        """Inactive again, but not null."""
        if self._state is not None:
            self._state.clear()


class _Nothing:
    """A send to PROC_NULL, or a receive from it: complete."""

    done = True
    cancelled = False

    def __init__(self, source: int = ANY_SOURCE) -> None:
        self.source = source

    def advance(self) -> bool:
        """Nothing to do."""
        return True


def null_receive() -> Request:
    """A request for a receive from PROC_NULL: complete, with PROC_NULL as its source."""
    return Request._of(_Nothing(PROC_NULL))


def null_send() -> Request:
    """A request for a send to PROC_NULL, or for anything that is complete."""
    return Request._of(_Nothing())


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
    both = _Pair(first, second)
    if not both.done:
        runtime.engine().track(both)
    return Request._of(both, None, (receiving._state, sending._state))


Request._kind = Request
Prequest._kind = Prequest
REQUEST_NULL: Final = Request._define("REQUEST_NULL", None)
