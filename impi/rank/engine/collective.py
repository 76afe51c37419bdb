"""Runs an algorithm of chapter 4: its steps become sends and receives of the engine.

How it works: an algorithm is a generator that yields lists of steps
(:mod:`impi.protocol.collectives.steps`). :class:`CollectiveOperation` posts the receives of a list,
starts its sends and local phases, and resumes the generator with the received values once all are
done. The engine advances it like any other operation, so a collective goes on whatever the program
waits for. A codec turns values into octets and back, as array, pickle or packed octets.

Blocking calls between clients have two shortcuts. The caller waits in the channel itself, without
an operation (:meth:`CollectiveOperation._receive_standing`). If the value of a message is the whole
result, it arrives in the program's memory, without a copy (:class:`_ResultPlace`).
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, Protocol, TypeAlias

from impi.base.errors import ImpiError
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values.datatype import TypeMap
from impi.protocol.semantics.values.wordops import numbers
from impi.rank.engine.channels.entries import creation
from impi.rank.engine.channels.payload import (
    BufferSource,
    DirectSource,
    OctetSource,
    OctetTarget,
    Source,
)
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.faults import Agreed
from impi.rank.engine.local import LocalOperation, Room
from impi.rank.engine.operations import (
    Compound,
    Operation,
    ReceiveOperation,
    SendOperation,
)
from impi.rank.engine.standing_receive import Taken

Octets: TypeAlias = bytearray | memoryview


class Codec(Room, Protocol):
    """The form in which an algorithm's values travel."""

    def encode(self, value: Any) -> Source:
        """Return the octets of a value."""

    def decode(self, data: Octets, *, external: bool) -> Any:
        """Return the value of received octets, which it may keep."""


class OctetCodec:
    """Values that are octets already: packed data and pickles."""

    def encode(self, value: Any) -> Source:
        """Return the value itself as octets."""
        return OctetSource(value)

    def decode(self, data: Octets, *, external: bool) -> Any:
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

    def size_of(self, like: int) -> int:
        """Return ``like``: the values are octets."""
        return like

    def value_in(self, octets: Octets) -> Octets:
        """Return the octets themselves."""
        return octets


class _ElementCodec:
    """Values that are native elements in a row, for reductions."""

    def __init__(
        self, datatype: TypeMap, long_size: int, *, external: bool = True
    ) -> None:
        self.datatype = datatype
        self._long_size = long_size
        # Elements without gaps: their octets in memory are a message of native form.
        self._is_dense = (
            bool(datatype.name)
            and datatype.size == datatype.extent
            and len(datatype.runs) == 1
        )
        self._is_plain = self._is_dense and not external

    def encode(self, value: Any) -> Source:
        """Return the elements as external32 or native, as the destination needs."""
        if self._is_plain:
            return DirectSource(self.view(value), len(value))

        return BufferSource(
            self.datatype, self.view(value), 0, len(value), self._long_size
        )

    def decode(self, data: Octets, *, external: bool) -> Any:
        """Return a value that lies in these octets, if their form is native; else a new value."""

        # The octets are this message's own, so the value may lie in them.
        if not external and self._is_dense:
            return self.value_in(data)

        count = len(data) // self.datatype.packed_size(
            1, external=external, long_size=self._long_size
        )

        value = self._empty(count)
        if count:
            octets = self.view(value)
            self.datatype.unpack(
                memoryview(data),
                octets,
                0,
                count,
                external=external,
                long_size=self._long_size,
            )

        return value

    def view(self, value: Any) -> memoryview:
        """Return the octets in memory; writable, even if there are none."""
        return self._octets(value) if len(value) else memoryview(bytearray())

    def fresh(self, like: Any) -> Any:
        """Return a new value of equal length."""
        return self._empty(len(like))

    def size_of(self, like: Sized) -> int:
        """Return how many octets as many elements have."""
        return len(like) * self.datatype.size

    def _empty(self, count: int) -> Any:
        raise NotImplementedError

    def value_in(self, octets: Octets) -> Any:
        """Return the elements that lie in octets of native form, without a copy."""
        raise NotImplementedError

    def _octets(self, value: Any) -> memoryview:
        raise NotImplementedError


class ArrayCodec(_ElementCodec):
    """Values that are one-dimensional arrays."""

    def __init__(
        self,
        datatype: TypeMap,
        dtype: np.dtype[Any],
        long_size: int,
        *,
        external: bool = True,
    ) -> None:
        super().__init__(datatype, long_size, external=external)
        self._dtype = dtype

    def _empty(self, count: int) -> Any:
        return np.empty(count, self._dtype)

    def value_in(self, octets: Octets) -> Any:
        return np.frombuffer(octets, self._dtype)

    def _octets(self, value: Any) -> memoryview:
        return memoryview(value.view(np.uint8).data)


class NumbersCodec(_ElementCodec):
    """Values that are memoryviews of numbers, without numpy
    (:mod:`impi.protocol.semantics.values.wordops`)."""

    def __init__(
        self, datatype: TypeMap, code: str, long_size: int, *, external: bool = True
    ) -> None:
        super().__init__(datatype, long_size, external=external)
        self.code = code
        self.width = datatype.size

    def _empty(self, count: int) -> memoryview:
        return numbers(bytearray(count * self.width), self.code)

    def value_in(self, octets: Octets) -> memoryview:
        return numbers(octets, self.code)

    def _octets(self, value: memoryview) -> memoryview:
        return value.cast("B")


class _ResultPlace:
    """The place of a whole result, and the value that has arrived there."""

    __slots__ = ("brought", "place", "value")

    def __init__(self, place: memoryview) -> None:
        self.place = place
        self.brought: LocalOperation | Taken | None = None
        """The operation that has put a value into the place; the value has the result's length."""
        self.value: Any = None
        """The value that :attr:`brought` has put there."""

    def room(self, step: Recv) -> memoryview | None:
        """Return the place of a step's value; None: it has none."""

        if step.whole:
            return self.place

        if step.part is None:
            return None

        first, length = step.part

        return self.place[first : first + length]

    def take_message(self, step: Recv, taken: Taken) -> bool:
        """Whether the message of a step has, or will have, arrived in the place."""

        room, octets = self.room(step), taken.octets
        if room is None or octets.obj is not room.obj or len(octets) != len(room):
            return False

        if step.whole:
            self.brought = taken

        return True

    def is_result(self, result: object) -> bool:
        """Whether a result of an algorithm is all in the place."""
        # By identity: the algorithm may have made another value of the one that arrived. A list is
        # made of pieces that arrived in their parts.
        return self.value is not None and (result is self.value or type(result) is list)


_Target: TypeAlias = (
    "tuple[ReceiveOperation, OctetTarget] | LocalOperation | Taken | None"
)
"""The place where a value of the current step arrives; None: the result's own place."""


class CollectiveOperation(Compound):
    """A collective under way, driven by the engine like a send; its value is in :attr:`result`.

    The collectives of one communicator run one after another, in the order of their start. Their
    tags (IMPI 4.25) name the kind of a step, not the call, so two at once would mix their messages.

    Args:
        engine: of this proc.
        context: of the communicator.
        algorithm: its steps.
        codec: how its values travel.
        finish: called at once with the value that the algorithm returns. What ``finish`` returns is
            :attr:`result`.
        alone: no other collective has these tags, so this one need not wait for its turn.
        blocking: the caller waits for it at once, so it may use standing receives.
        place: the memory where ``finish`` would copy the octets of the whole result, in native
            form. A value may arrive there if it is the whole result and has the same length. Then
            ``finish`` is not called.
    """

    @creation
    def __init__(
        self,
        engine: Engine,
        context: Context,
        algorithm: Algorithm[Any],
        codec: Codec,
        finish: Callable[[Any], Any] | None = None,
        *,
        alone: bool = False,
        blocking: bool = False,
        place: memoryview | None = None,
    ) -> None:
        self._engine = engine
        self.context = context
        self._algorithm = algorithm
        self._codec = codec
        self._finish = finish
        # External32 has to be converted, so it cannot arrive in its final place.
        self._landing = (
            None if place is None or engine.external else _ResultPlace(place)
        )
        self._waiting: list[Operation] = []
        self._targets: list[_Target] = []
        # Whether receives may block here, before the engine drives this operation.
        self._straight = blocking and not alone and engine.is_straight(context)
        self._started = False
        self.done = False
        self.cancelled = False
        self.result: Any = None
        self.failure: Exception | None = None
        """An exception of the program's part: of a reduction, or of the buffer for the result."""

        self._alone = alone
        if not alone:
            context.under_way.collectives.append(self)
            context.count_waiting(1)  # a local message may report a fault
            # Numbered in call order, which MPI makes equal at all procs. So the number names this
            # collective in a notice, without an agreement.
            faults = context.faults
            if faults.calm:
                faults.begun += 1
            else:
                faults.begin()

        # Started here, not at the first turn: sends of this step are on their way when a
        # non-blocking call returns.
        try:
            self.advance()
        finally:
            self._straight = False
            if not self.done:  # after an interrupt, too: the other procs go on with it
                engine.turns.track(self)

    def advance(self) -> bool:
        """Resume the algorithm as long as all operations of its current step are complete."""

        # Asked in each turn: the news that another proc has refused may come at any time.
        if not (self._alone or self.context.faults.calm) and not self._goes_on():
            return False

        # One at a time in a communicator, as tags do not tell calls apart (4.25).
        if not self._started and not self.done:
            if not (self._alone or self.context.under_way.collectives[0] is self):
                return False

            self._started = True
            self._resume()

        # The messages of a new step may be here already: then the step ends in the same turn.
        while not self.done:
            for operation in self._waiting:  # a loop, as this is asked in each turn
                if not (
                    operation.done or (type(operation) is Taken and operation.advance())
                ):
                    return False

            self._resume()

        return True

    def _goes_on(self) -> bool:
        """Whether it goes on, or has ended, after a refusal; False: it must not begin yet."""
        faults = self.context.faults
        # Messages of the others will never come.
        if faults.broken and not self.done:
            self._abandon()

        # No collective begins before a refused one is settled at all procs.
        return self._started or self.done or faults.settled

    @property
    def awaited(self) -> Operation | None:
        found = None
        for operation in self._waiting:
            if not operation.done:
                if found is not None:
                    return None

                found = operation

        return found

    def _resume(self) -> None:
        # A failure is kept here, and the wait for this operation raises it: the caller that drives
        # the engine now need not have started this operation.
        try:
            self._step()
            return
        except StopIteration as stop:
            result = stop.value
        except ImpiError:
            raise
        except Agreed as agreed:
            # All procs know it: nothing is left over, no notice is due
            self._end(None, agreed.failure)
            return
        except Exception as failure:
            # The others have begun, and would wait for our messages
            self._withdraw()

            self._end(None, failure)
            if not self._alone:
                self.context.faults.abandon(self._name(), failure)

            return

        # Behind the handler: a failure here would come with the StopIteration, and a traceback of
        # that would print all octets of the result.
        self._end(result)

    def _name(self) -> str:
        """Return the name of the call in MPI, by the function of its algorithm."""
        name = getattr(self._algorithm, "__name__", "a collective")
        # Functions inside an algorithm are private, and named by their way: _allreduce_by_swap.
        call = name.lstrip("_").removeprefix("reproducible_").partition("_by_")[0]
        return call.capitalize()

    def _step(self) -> None:
        """Hand over the received values and start the operations of the next step."""

        # A send fails in the library, or if its destination is lost. Receives and phases report
        # their own failures in _value_for().
        for operation in self._waiting:
            if type(operation) is SendOperation and operation.failure is not None:
                raise operation.failure

        # The first next() of a generator takes no value.
        values = list(map(self._value_for, self._targets))
        steps = (
            self._algorithm.send(values)
            if self._waiting or self._targets
            else next(self._algorithm)
        )
        self._waiting = []
        self._targets = []

        receives = [step for step in steps if type(step) is Recv]
        if not self._straight:
            # first: a posted receive takes its message in place
            for receive in receives:
                self._post(receive)

        for step in steps:
            if type(step) is Send:
                self._send(step)
            elif type(step) is Local:
                self._enter(step)

        if self._straight:
            self._receive_standing(receives)

    def _enter(self, step: Local) -> None:
        """Start a local phase, whose value may arrive in the place of the result."""

        landing = self._landing

        phase = LocalOperation(
            self.context, step, self._codec, None if landing is None else landing.place
        )
        if phase.landing and landing is not None:
            landing.brought = phase

        # Polled in each turn, as no descriptor announces its steps.
        self._engine.turns.track(phase)
        self._targets.append(phase)
        self._waiting.append(phase)

    def _receive_standing(self, receives: list[Recv]) -> None:
        """Wait for each message in turn, as long as nothing else is under way; post the rest."""
        # One after the other is enough: a message that comes out of turn goes to the matcher, and
        # the next receive of this list, or its posted successor, finds it there.
        try:
            self._straight = all(map(self._take, receives))
        finally:  # after an interrupt, too, the engine can drive this on
            for receive in receives[len(self._targets) :]:
                self._post(receive)

    def _take(self, step: Recv) -> bool:
        """Wait for a message while nothing else is under way; return whether it is here."""

        standing = self._engine.collective_receive(self.context, step.source)

        faults, landing = self.context.faults, self._landing
        try:
            room = None if landing is None else landing.room(step)
            # The wait is given up once another proc has refused a call: then the message may never
            # come.
            standing.receive_until(step.tag, room, lambda: not faults.calm)
        finally:
            # The standing receive must not keep the memory of a message
            taken, standing.taken = standing.taken, None
            if taken is not None:
                landed = landing is not None and landing.take_message(step, taken)

                # A part has its place in the result, and the algorithm needs no value of it.
                self._targets.append(None if landed and step.part else taken)
                if not taken.done:
                    self._waiting.append(taken)

        return taken is not None

    def _send(self, step: Send) -> None:
        source = self._codec.encode(step.value)
        self._waiting.append(
            self._engine.send(
                self.context, step.dest, step.tag, source, collective=True
            )
        )

    def _post(self, step: Recv) -> None:
        # The message arrives in memory of its own: only a standing receive and a local phase know
        # the place of the result.
        target = OctetTarget()
        operation = self._engine.receive(
            self.context, step.source, step.tag, target, collective=True
        )
        self._targets.append((operation, target))
        self._waiting.append(operation)

    def _value_for(self, target: _Target) -> Any:
        if target is None:
            return None  # a part of the result, in its place

        if isinstance(target, LocalOperation | Taken):
            value = (
                target.value
                if isinstance(target, LocalOperation)
                else self._codec.decode(target.octets, external=self._engine.external)
            )
            if self._landing is not None and self._landing.brought is target:
                self._landing.value = value

            return value

        operation, octets = target
        if operation.failure is not None:
            raise operation.failure

        return self._codec.decode(octets.data, external=operation.external)

    def _end(self, value: Any, failure: Exception | None = None) -> None:
        self.failure = failure
        if failure is None:
            try:
                # The result lies in the program's memory already: finish() would copy it onto
                # itself.
                landed = self._landing is not None and self._landing.is_result(value)
                self.result = (
                    value if self._finish is None or landed else self._finish(value)
                )
            except Exception as own:
                self.failure = own

        self.done = True
        if not self._alone:
            # The next collective of this communicator begins at its own next turn.
            self.context.under_way.collectives.remove(self)
            self.context.count_waiting(-1)

    def _abandon(self) -> None:
        """Withdraw posted receives after a fault; messages that were sent are never received."""
        self._withdraw()
        self._end(None, self.context.faults.failure())

    def give_up(self, failure: Exception) -> None:
        """End it with a failure: a proc of the communicator is lost."""
        if not self.done:
            self._withdraw()
            self._end(None, failure)

    def _withdraw(self) -> None:
        # A receive that stays posted would take a message of the next collective. A phase in the
        # library cannot be taken back; its memory has to stay.
        for target in self._targets:
            if isinstance(target, LocalOperation):
                target.abandon()
            elif isinstance(target, tuple):
                self._engine.matching.withdraw(target[0])

        # It is not resumed any more; closing it lets go of the values that it holds.
        self._algorithm.close()


class Closing(Compound):
    """A communicator being freed: its barrier goes on while the program does.

    A receive under way keeps the context open for good, as it may still get its message.
    """

    @creation
    def __init__(
        self, engine: Engine, context: Context, barrier: CollectiveOperation
    ) -> None:
        self._engine = engine
        self._context = context
        self._barrier = barrier
        self.done = False

        self.cancelled = False
        if not self.advance():
            engine.turns.track(self)

    @property
    def awaited(self) -> Operation | None:
        return self._barrier.awaited

    def advance(self) -> bool:
        """Close the context once the barrier is over."""
        if not self.done and self._barrier.done:
            self.done = True
            if self._barrier.failure is not None:
                # The vendor would wait for procs that may not come
                self._context.shadow.comm = None

            # MPI 4.1, 7.4.3: pending operations complete normally after MPI_Comm_free.
            posted, _ = self._context.matchers[0].lines()
            if not posted:
                self._engine.close(self._context)

        return self.done
