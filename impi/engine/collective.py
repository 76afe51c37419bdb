"""Runs an algorithm of chapter 4: its steps become sends and receives of the engine."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

from impi.collectives.steps import Algorithm, Local, Recv, Send
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.faults import Agreed
from impi.engine.local import LocalOperation, Room
from impi.engine.operations import Compound, Operation, ReceiveOperation, SendOperation
from impi.engine.payload import BufferSource, OctetSource, OctetTarget, Source
from impi.errors import ImpiError
from impi.semantics.datatype import TypeMap
from impi.semantics.lazynumpy import np
from impi.semantics.wordops import numbers


class Codec(Room, Protocol):
    """The form in which an algorithm's values travel."""

    def encode(self, value: Any) -> Source:
        """Return the octets of a value."""
        ...

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """Return the value of received octets."""
        ...


class OctetCodec:
    """Values that are octets already: packed data and pickles."""

    def encode(self, value: Any) -> Source:
        """Return the value itself as octets."""
        return OctetSource(value)

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """Return the octets."""
        return data

    def view(self, value: Any) -> memoryview:
        """Return the octets as a view."""
        view = memoryview(value)
        # Libraries want a writable view even of nothing, and an empty 2-d view cannot be cast.
        return view.cast("B") if view.nbytes else memoryview(bytearray())

    def fresh(self, like: int) -> bytearray:
        """Return ``like`` new octets."""
        return bytearray(like)


class _ElementCodec:
    """Values that are native elements in a row, for reductions."""

    def __init__(self, datatype: TypeMap, long_size: int) -> None:
        self._datatype = datatype
        self._long_size = long_size

    def encode(self, value: Any) -> Source:
        """Return the elements as external32 or native, as the destination needs."""
        return BufferSource(self._datatype, self.view(value), 0, len(value), self._long_size)

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """Return a new value."""
        count = len(data) // self._datatype.packed_size(1, external=external, long_size=self._long_size)
        value = self._empty(count)
        if count:
            octets = self.view(value)
            self._datatype.unpack(memoryview(data), octets, 0, count, external=external, long_size=self._long_size)
        return value

    def view(self, value: Any) -> memoryview:
        """Return the octets in memory; writable, even if there are none."""
        return self._octets(value) if len(value) else memoryview(bytearray())

    def fresh(self, like: Any) -> Any:
        """Return a new value of equal length."""
        return self._empty(len(like))

    def _empty(self, count: int) -> Any:
        raise NotImplementedError

    def _octets(self, value: Any) -> memoryview:
        raise NotImplementedError


class ArrayCodec(_ElementCodec):
    """Values that are one-dimensional arrays."""

    def __init__(self, datatype: TypeMap, dtype: np.dtype[Any], long_size: int) -> None:
        super().__init__(datatype, long_size)
        self._dtype = dtype

    def _empty(self, count: int) -> Any:
        return np.empty(count, self._dtype)

    def _octets(self, value: Any) -> memoryview:
        return memoryview(value.view(np.uint8).data)


class NumbersCodec(_ElementCodec):
    """Values that are memoryviews of numbers, without numpy (:mod:`impi.semantics.wordops`)."""

    def __init__(self, datatype: TypeMap, code: str, long_size: int) -> None:
        super().__init__(datatype, long_size)
        self._code = code

    def _empty(self, count: int) -> memoryview:
        return numbers(bytearray(count * self._datatype.size), self._code)

    def _octets(self, value: memoryview) -> memoryview:
        return value.cast("B")


class CollectiveOperation(Compound):
    """A collective under way, driven by the engine like a send; its value is in :attr:`result`.

    The collectives of one communicator run one after another, in the order of their start. Their
    tags name the kind of a step, not the call: so a later collective waits for its turn.

    Args:
        engine: of this proc.
        context: of the communicator.
        algorithm: its steps.
        codec: how its values travel.
        finish: called with the returned value at once; :attr:`result` is what it returns.
        alone: no other collective has these tags, so this one need not wait for its turn.
    """

    def __init__(
        self,
        engine: Engine,
        context: Context,
        algorithm: Algorithm[Any],
        codec: Codec,
        finish: Callable[[Any], Any] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        if get_ident() != engine.threads.owner:
            engine.threads.enter()
        self._engine = engine
        self.context = context
        self._algorithm = algorithm
        self._codec = codec
        self._finish = finish
        self._waiting: list[Operation] = []
        self._targets: list[tuple[ReceiveOperation, OctetTarget] | LocalOperation] = []
        self._started = False
        self.done = False
        self.cancelled = False
        self.result: Any = None
        self.failure: Exception | None = None
        """An exception of the program's part: of a reduction, or of the buffer for the result."""
        self._alone = alone
        if not alone:
            context.collectives.append(self)
            context.count_waiting(1)  # a local message may report a fault
            context.faults.begin()
        self.advance()
        if not self.done:
            engine.track(self)

    def advance(self) -> bool:
        """Run on while the operations of the current step are complete."""
        if not self._alone and not self.done and self.context.faults.broken:
            self._abandon()
        if not self._started and not self.done:
            if not self._alone and not (self.context.collectives[0] is self and self.context.faults.settled):
                return False
            self._started = True
            self._resume()
        while not self.done and all(operation.done for operation in self._waiting):
            self._resume()
        return self.done

    @property
    def awaited(self) -> Operation | None:
        """See :class:`Compound`."""
        found = None
        for operation in self._waiting:
            if not operation.done:
                if found is not None:
                    return None
                found = operation
        return found

    def _resume(self) -> None:
        # The wait raises: the current driver of the engine need not have started this.
        try:
            self._step()
        except StopIteration as stop:
            self._end(stop.value)
        except ImpiError:
            raise
        except Agreed as agreed:
            self._end(None, agreed.failure)
        except Exception as failure:
            self._withdraw()
            self._end(None, failure)
            if not self._alone:
                self.context.faults.abandon(getattr(self._algorithm, "__name__", "a collective"), failure)

    def _step(self) -> None:
        """Hand over the received values and start the operations of the next step."""
        for operation in self._waiting:
            if type(operation) is SendOperation and operation.failure is not None:
                raise operation.failure
        values = [self._brought(target) for target in self._targets]
        steps = self._algorithm.send(values) if self._waiting else next(self._algorithm)
        self._waiting = []
        self._targets = []
        for step in steps:
            # Receives first: a posted receive takes its message in place.
            if isinstance(step, Recv):
                target = OctetTarget()
                operation = self._engine.receive(self.context, step.source, step.tag, target, collective=True)
                self._targets.append((operation, target))
                self._waiting.append(operation)
        for step in steps:
            if isinstance(step, Send):
                source = self._codec.encode(step.value)
                self._waiting.append(self._engine.send(self.context, step.dest, step.tag, source, collective=True))
            elif isinstance(step, Local):
                phase = LocalOperation(self.context, step, self._codec)
                self._engine.track(phase)
                self._targets.append(phase)
                self._waiting.append(phase)

    def _brought(self, target: tuple[ReceiveOperation, OctetTarget] | LocalOperation) -> Any:
        if isinstance(target, LocalOperation):
            return target.value
        operation, octets = target
        if operation.failure is not None:
            raise operation.failure
        return self._codec.decode(octets.data, external=operation.message is not None and operation.message.external)

    def _end(self, value: Any, failure: Exception | None = None) -> None:
        self.failure = failure
        if failure is None:
            try:
                self.result = value if self._finish is None else self._finish(value)
            except Exception as own:
                self.failure = own
        self.done = True
        if not self._alone:
            self.context.collectives.remove(self)
            self.context.count_waiting(-1)

    def _abandon(self) -> None:
        """Withdraw posted receives after a fault; what was sent is never received."""
        self._withdraw()
        self._end(None, self.context.faults.failure())

    def give_up(self, failure: Exception) -> None:
        """End it with a failure: a proc of the communicator is lost."""
        if not self.done:
            self._withdraw()
            self._end(None, failure)

    def _withdraw(self) -> None:
        for target in self._targets:
            if isinstance(target, LocalOperation):
                target.abandon()
            else:
                self._engine.withdraw(target[0])
        self._algorithm.close()


class Closing(Compound):
    """A communicator being freed: its barrier goes on while the program does.

    A receive under way keeps the context open for good, as it may still get its message.
    """

    def __init__(self, engine: Engine, context: Context, barrier: CollectiveOperation) -> None:
        if get_ident() != engine.threads.owner:
            engine.threads.enter()
        self._engine = engine
        self._context = context
        self._barrier = barrier
        self.done = False
        self.cancelled = False
        if not self.advance():
            engine.track(self)

    @property
    def awaited(self) -> Operation | None:
        """See :class:`Compound`."""
        return self._barrier.awaited

    def advance(self) -> bool:
        """Close the context once the barrier is over."""
        if not self.done and self._barrier.done:
            self.done = True
            if self._barrier.failure is not None:
                self._context.shadow = None  # the vendor would wait for procs that may not come
            posted, _ = self._context.matchers[0].lines()
            if not posted:
                self._engine.close(self._context)
        return self.done
