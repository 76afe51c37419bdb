"""Request and Prequest: operations under way, as mpi4py's classes of the same names.

How it works: routes, collectives and buffered sends wrap an engine operation by
``Request._of(operation, value, keep)``: ``value`` returns the received object, ``keep`` holds
memory that must live until the end. Persistent requests hold a starter and take over the operation
of the request that it returns.

Completion (:mod:`.completion`): Wait drives the engine until ``operation.done``.
``conclude`` and ``describe`` fill the status, ``check`` raises the operation's failure, the error
handler of its communicator runs, and the handle becomes null (persistent: inactive). Calls for
several requests use one-request methods; errors are gathered in statuses as ERR_IN_STATUS.

Invariants: a null or inactive request is complete with an empty status. Several handles may share
one state (:class:`_Active`); completion through one makes all inactive. A test of one request
takes one turn of the engine at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal, Self

from impi.protocol.semantics.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERROR_CLASSES,
    PROC_NULL,
    UNDEFINED,
)
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.handles.failing import Owner, guarded, handle
from impi.rank.api.handles.handle import Handle, State
from impi.rank.api.p2p.completion import (
    PLAIN,
    Nothing,
    Pair,
    conclude,
    describe,
    fill_status,
    is_wrong,
    owner_of,
    room,
)
from impi.rank.api.p2p.generalized import GeneralOperation
from impi.rank.api.p2p.status import Status
from impi.rank.api.types.pickling import pickle
from impi.rank.engine.operations import Operation, ReceiveOperation, SendOperation
from impi.rank.engine.partitioned import PartitionedSend

_PENDING: Final = ERROR_CLASSES["ERR_PROC_FAILED_PENDING"][0]


class _Active(State):
    """The shared state of all handles of a request."""

    __slots__ = ("keep", "operation", "value")

    def __init__(
        self,
        operation: Operation | None,
        value: Callable[[], object] | None = None,
        keep: object = None,
    ) -> None:
        self._number = 0
        self.constant = None
        self.operation = operation
        self.value = value
        self.keep = keep

    def clear(self) -> None:
        self.operation = self.value = self.keep = None


@guarded
class Request(Handle):
    """An operation under way; inactive and null requests are complete with an empty status."""

    _state: _Active | None
    _kind: ClassVar[type[Request]]

    @classmethod
    def _of(
        cls,
        operation: Operation,
        value: Callable[[], object] | None = None,
        keep: object = None,
    ) -> Self:
        self: Self = object.__new__(cls)
        self._state = _Active(operation, value, keep)
        return self

    @classmethod
    def _class_of(cls, state: object) -> type[Request]:
        # A number does not tell the kind, so the called class decides, as in mpi4py.
        return cls._kind

    # ---- one request -----------------------------------------------------------------------------

    def Wait(self, status: Status | None = None) -> Literal[True]:
        self._finish(status)
        return True

    def Test(self, status: Status | None = None) -> bool:
        if not self._ready():
            return False

        self._finish(status)
        return True

    def Get_status(self, status: Status | None = None) -> bool:
        if not self._ready():
            return False

        describe(self._operation, status)
        return True

    def Cancel(self) -> None:
        """Ask for cancellation; the status at completion tells the outcome."""
        operation = self._active()
        if isinstance(operation, GeneralOperation):
            operation.cancel()
        elif isinstance(operation, ReceiveOperation):
            # A receive that is matched already gets its message: the cancellation has failed (MPI
            # 4.1, 3.8.4).
            runtime.engine().matching.withdraw(operation)
        elif isinstance(operation, SendOperation):
            runtime.engine().cancel(operation)
        else:
            raise error("ERR_REQUEST", "only point-to-point requests can be cancelled")

    def Free(self) -> None:
        """Free the handle; the operation completes by itself."""
        self._active()
        self._clear()

    def wait(self, status: Status | None = None) -> Any:
        return self._finish(status)

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        if not self._ready():
            return (False, None)

        return (True, self._finish(status))

    def get_status(self, status: Status | None = None) -> bool:
        return self.Get_status(status)

    def cancel(self) -> None:
        self.Cancel()

    # ---- any of several --------------------------------------------------------------------------

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Wait for a complete request and return its index; UNDEFINED if all are null."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the index of a complete request, and whether there is one (or all are null)."""
        index, flag, _ = cls.testany(requests, status)
        return (index, flag)

    @classmethod
    def waitany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, Any]:
        running = [r for r in requests if r._pending]
        if not running:
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, None)

        runtime.engine().turns.wait(lambda: any(r._done for r in running))
        # MPI lets any complete one be chosen (MPI 4.1, 3.7.5); here it is the first of the list.
        index = next(i for i, r in enumerate(requests) if r._pending and r._done)

        return (index, requests[index]._finish(status))

    @classmethod
    def testany(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool, Any | None]:
        if not any(r._pending for r in requests):
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, True, None)

        # One turn for all: a turn drives every operation, whichever request is asked for.
        runtime.engine().turns.progress()
        for index, request in enumerate(requests):
            if request._pending and request._done:
                return (index, True, request._finish(status))

        return (UNDEFINED, False, None)

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[Request], status: Status | None = None
    ) -> tuple[int, bool]:
        """Return the results of :meth:`Testany` without freeing."""

        if not any(r._pending for r in requests):
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return (UNDEFINED, True)

        runtime.engine().turns.progress()
        for index, request in enumerate(requests):
            if request._pending and request._done:
                describe(request._operation, status)
                return (index, True)

        return (UNDEFINED, False)

    get_status_any = Get_status_any

    # ---- all of several --------------------------------------------------------------------------

    @classmethod
    def Waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> Literal[True]:
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        return cls.testall(requests, statuses)[0]

    @classmethod
    def waitall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[Any]:
        engine = runtime.engine()

        plain = statuses is None
        for request in requests:
            # One after the other, although they end in any order: each wait drives all operations.
            state = request._state
            if state is None or (operation := state.operation) is None:
                continue

            if not operation.done:
                engine.turns.wait_for(operation)

            # The usual end: no status to fill, no object to unpickle, no error.
            plain = (
                plain
                and state.value is None
                and type(operation) in PLAIN
                and not is_wrong(operation)
            )

        if plain:
            for request in requests:
                request._clear()

            return [None] * len(requests)

        return cls._finish_all(requests, statuses)

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        if not cls.Get_status_all(requests):
            return (False, None)

        return (True, cls._finish_all(requests, statuses))

    @classmethod
    def Get_status_all(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> bool:
        if not all(r._done for r in requests):
            runtime.engine().turns.progress()
            if not all(r._done for r in requests):
                return False

        for request, status in zip(
            requests, room(statuses, len(requests)), strict=False
        ):
            describe(request._operation, status)

        return True

    get_status_all = Get_status_all

    # ---- some of several -------------------------------------------------------------------------

    @classmethod
    def Waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Wait for at least one; return indices of complete requests, None if all are null."""
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Return the indices of complete requests; None if all are null."""
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        running = [r for r in requests if r._pending]
        if not running:
            return (None, None)

        runtime.engine().turns.wait(lambda: any(r._done for r in running))

        return cls._finish_some(requests, statuses)

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        if not any(r._pending for r in requests):
            return (None, None)

        runtime.engine().turns.progress()
        return cls._finish_some(requests, statuses)

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        if not any(r._pending for r in requests):
            return None

        runtime.engine().turns.progress()

        indices = [i for i, r in enumerate(requests) if r._pending and r._done]
        for index, status in zip(indices, room(statuses, len(indices)), strict=False):
            describe(requests[index]._operation, status)

        return indices

    get_status_some = Get_status_some

    # ---- internals -------------------------------------------------------------------------------

    @property
    def _operation(self) -> Operation | None:
        return None if self._state is None else self._state.operation

    @property
    def _owner(self) -> Owner | None:
        return owner_of(self._operation)

    @property
    def _pending(self) -> bool:
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
        # A program that tests in a loop makes progress by that alone (MPI 4.1, 3.7.4).
        if not self._done:
            runtime.engine().turns.progress()

        return self._done

    def _clear(self) -> None:
        if self._state is not None:
            self._state.clear()

        self._state = None

    def _finish(self, status: Status | None, *, blocking: bool = False) -> Any:
        # Taken before the handle becomes null: the error handler is that of this operation's
        # communicator.
        operation = self._operation
        try:
            return self._complete(status, blocking=blocking)
        except MPIException as failure:
            handle(failure, owner_of(operation))
            raise

    def _complete(self, status: Status | None, *, blocking: bool = False) -> Any:
        operation = self._operation
        if self._state is None or operation is None:
            fill_status(status, ANY_SOURCE, ANY_TAG, 0)
            return None

        if not operation.done:
            runtime.engine().turns.wait_for(operation)

        # Cleared before anything can raise: a failed operation is complete, too.
        state, value, keep = self._state, self._state.value, self._state.keep

        self._clear()
        # Most requests end here: no status to fill, no object to unpickle, no error.
        if (
            status is None
            and value is None
            and type(operation) in PLAIN
            and not is_wrong(operation)
        ):
            return None

        try:
            if blocking and isinstance(operation, ReceiveOperation):
                runtime.engine().losses.settle(operation)

            conclude(operation, status)
        except MPIException as failure:
            # A message may still come, so the request stays
            if int(failure) == _PENDING:
                state.operation, state.value, state.keep = operation, value, keep
                self._state = state

            raise
        finally:
            if isinstance(operation, GeneralOperation):
                operation.free()

        return None if value is None or operation.cancelled else value()

    @classmethod
    def _finish_all(
        cls, requests: Sequence[Request], statuses: list[Status] | None
    ) -> list[Any]:
        return cls._finish_each(requests, room(statuses, len(requests)))

    @classmethod
    def _finish_each(
        cls, requests: Sequence[Request], statuses: Sequence[Status | None]
    ) -> list[Any]:
        """Finish all requests, whether they succeed or not.

        Raises:
            Exception: ERR_IN_STATUS: some failed; the statuses have the error of each.
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
                    first, blamed = failure, owner_of(operation)

        if first is not None:
            # With the request's code (MPI 4.1, 9.3.1), once a call
            handle(first, blamed)
            together = error("ERR_IN_STATUS", str(first))
            together.handled, together.told = True, first.told
            raise together from first

        return values

    @classmethod
    def _finish_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None
    ) -> tuple[list[int], list[Any]]:
        indices = [i for i, r in enumerate(requests) if r._pending and r._done]
        chosen = [requests[i] for i in indices]
        return (indices, cls._finish_each(chosen, room(statuses, len(indices))))


def load(data: bytearray | memoryview) -> Any:
    """Return the object in a pickle; None for an empty message, as in mpi4py."""
    return pickle.loads(data) if len(data) else None


class _Persistent(_Active):
    """A persistent request; outlives the operations that it starts."""

    __slots__ = ("partitions", "start")

    def __init__(self, start: Callable[[], Request], partitions: int) -> None:
        super().__init__(None)
        self.start = start
        self.partitions = partitions


@guarded
class Prequest(Request):
    """A persistent request: can be started any number of times."""

    _state: _Persistent | None

    @classmethod
    def _persistent(cls, start: Callable[[], Request], partitions: int = 0) -> Self:
        return cls._wrap(_Persistent(start, partitions))

    @classmethod
    def _takes(cls, state: object) -> bool:
        return isinstance(state, _Persistent)

    def Start(self) -> None:
        state = self._state
        if state is None or state.operation is not None:
            raise error(
                "ERR_REQUEST",
                "null request" if state is None else "request is already active",
            )

        # A new operation for each start; the buffers were read when the request was made.
        started = state.start()._state
        if started is not None:
            state.operation, state.value, state.keep = (
                started.operation,
                started.value,
                started.keep,
            )

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        for request in requests:
            request.Start()

    def Free(self) -> None:
        if self._state is None:
            raise error("ERR_REQUEST", "null request")

        self._state = None

    def Pready(self, partition: int) -> None:
        operation = self._partition(partition)
        if isinstance(operation, PartitionedSend):
            operation.ready(partition)

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        self.Pready_list(range(partition_low, partition_high + 1))

    def Pready_list(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.Pready(partition)

    def Parrived(self, partition: int) -> bool:
        # All partitions travel as one message, so they arrive together.
        self._partition(partition, active=False)
        return self._ready()

    def _partition(self, partition: int, *, active: bool = True) -> Operation | None:
        state = self._state
        if state is None or (active and state.operation is None):
            raise error("ERR_REQUEST", "null or inactive request")

        if not 0 <= partition < state.partitions:
            raise error(
                "ERR_ARG", f"partition {partition} is not in 0..{state.partitions - 1}"
            )

        return state.operation

    def _clear(self) -> None:
        # Inactive, not null: the request can be started again.
        if self._state is not None:
            self._state.clear()


def null_receive() -> Request:
    """Return a request for a receive from PROC_NULL: complete, with PROC_NULL as source."""
    return Request._of(Nothing(PROC_NULL))


def null_send() -> Request:
    """Return a request for a send to PROC_NULL, or for any complete operation."""
    return Request._of(Nothing())


def ended(nbytes: int) -> Request:
    """Return a request for an operation that has ended in its call and moved ``nbytes`` octets."""
    return Request._of(Nothing(nbytes=nbytes))


def pair(receiving: Request, sending: Request) -> Request:
    """Return one request for a receive and a send that was just started with it."""

    first, second = receiving._operation, sending._operation
    assert first is not None and second is not None, "both have just been started"

    both = Pair(first, second)
    if not both.done:
        runtime.engine().turns.track(both)

    # The states of both are kept, because they hold the buffers.
    return Request._of(both, None, (receiving._state, sending._state))


Request._kind = Request
Prequest._kind = Prequest
REQUEST_NULL: Final = Request._define("REQUEST_NULL", None)
