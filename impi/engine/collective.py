"""Runs an algorithm of chapter 4: turns its steps into sends and receives of the engine, and feeds back what came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from impi.collectives.steps import Algorithm, Local, Recv, Send
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.faults import Agreed
from impi.engine.local import LocalOperation, Room
from impi.engine.operations import Compound, Operation, ReceiveOperation
from impi.engine.payload import BufferSource, OctetSource, OctetTarget, Source
from impi.errors import ImpiError
from impi.semantics.datatype import TypeMap
from impi.semantics.lazynumpy import np
from impi.semantics.wordops import numbers

__all__ = ["ArrayCodec", "Codec", "CollectiveOperation", "NumbersCodec", "OctetCodec"]


class Codec(Room, Protocol):
    """How an algorithm's values travel."""

    def encode(self, value: Any) -> Source:
        """The octets of a value."""
        ...

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """The value of octets that came in."""
        ...


class OctetCodec:
    """Values are octets already: packed data and pickles."""

    def encode(self, value: Any) -> Source:
        """As they are."""
        return OctetSource(value)

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """As they are."""
        return data

    def view(self, value: Any) -> memoryview:
        """The octets."""
        view = memoryview(value)
        # Of nothing, too, it can be written: libraries look, and an empty view of another shape cannot be cast.
        return view.cast("B") if view.nbytes else memoryview(bytearray())

    def fresh(self, like: int) -> bytearray:
        """So many octets."""
        return bytearray(like)


class _ElementCodec:
    """Values are native elements, one after the other, for reductions."""

    def __init__(self, datatype: TypeMap, long_size: int) -> None:
        self._datatype = datatype
        self._long_size = long_size

    def encode(self, value: Any) -> Source:
        """external32 or native, as the way requires."""
        return BufferSource(self._datatype, self.view(value), 0, len(value), self._long_size)

    def decode(self, data: bytearray, *, external: bool) -> Any:
        """A fresh value."""
        count = len(data) // self._datatype.packed_size(1, external=external, long_size=self._long_size)
        value = self._empty(count)
        if count:
            octets = self.view(value)
            self._datatype.unpack(memoryview(data), octets, 0, count, external=external, long_size=self._long_size)
        return value

    def view(self, value: Any) -> memoryview:
        """The octets in memory; of nothing, too, they can be written."""
        return self._octets(value) if len(value) else memoryview(bytearray())

    def fresh(self, like: Any) -> Any:
        """As many others."""
        return self._empty(len(like))

    def _empty(self, count: int) -> Any:
        raise NotImplementedError

    def _octets(self, value: Any) -> memoryview:
        raise NotImplementedError


class ArrayCodec(_ElementCodec):
    """Values are one-dimensional arrays."""

    def __init__(self, datatype: TypeMap, dtype: np.dtype[Any], long_size: int) -> None:
        super().__init__(datatype, long_size)
        self._dtype = dtype

    def _empty(self, count: int) -> Any:
        return np.empty(count, self._dtype)

    def _octets(self, value: Any) -> memoryview:
        return memoryview(value.view(np.uint8).data)


class NumbersCodec(_ElementCodec):
    """Values are memoryviews of numbers, without numpy (:mod:`impi.semantics.wordops`)."""

    def __init__(self, datatype: TypeMap, code: str, long_size: int) -> None:
        super().__init__(datatype, long_size)
        self._code = code

    def _empty(self, count: int) -> memoryview:
        return numbers(bytearray(count * self._datatype.size), self._code)

    def _octets(self, value: memoryview) -> memoryview:
        return value.cast("B")


class CollectiveOperation(Compound):
    """A collective under way. The engine drives it like any other operation; :attr:`result` is what it returned.

    The collectives of one communicator run one after another, in the order in which they were started: their tags say
    what is done, not which of several it is for. So one that is not the first waits for its turn.

    Args:
        engine: of this proc.
        context: of the communicator.
        algorithm: its steps.
        codec: how its values travel.
        finish: what is done with what it returns, as soon as it does; its own result is then :attr:`result`.
        alone: no other collective has its tags, so that it need not wait for its turn.
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
        """What the program's own part of it raised: a reduction, or the buffer that takes the result."""
        self._alone = alone
        if not alone:
            context.collectives.append(self)
            context.waiting += 1  # a message of this client may say that it fails
            context.faults.begin()
        self.advance()
        if not self.done:
            engine.track(self)

    def advance(self) -> bool:
        """Go on while the operations of the current step are complete."""
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
        # Whoever drives the engine just now is not who started this: its completion raises.
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
        """Hand over what has come, and start what is to be done next."""
        values = [self._brought(target) for target in self._targets]
        steps = self._algorithm.send(values) if self._waiting else next(self._algorithm)
        self._waiting = []
        self._targets = []
        for step in steps:
            # Receives first: what is posted can be received in place.
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
            self.context.waiting -= 1

    def _abandon(self) -> None:
        """Somebody else cannot take part: what is posted is withdrawn, what is sent waits in vain."""
        self._withdraw()
        self._end(None, self.context.faults.failure())

    def _withdraw(self) -> None:
        for target in self._targets:
            if isinstance(target, LocalOperation):
                target.abandon()
            else:
                self._engine.withdraw(target[0])
        self._algorithm.close()
