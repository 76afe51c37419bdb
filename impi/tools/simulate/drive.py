"""Run the generators of chapter 4 of all processes of a job in virtual time.

:meth:`Driver.run` makes an actor for each process and starts its generator. Each list of steps that
a generator yields becomes posted receives, messages and phases; when all are done, the generator
goes on with their results. Messages between clients go to a transport (:mod:`.model.counted` or
:mod:`.model.transfer_machines`), others to the :class:`~.model.fabric.Fabric`; both call back
:meth:`Driver.arrived` and :meth:`Driver.received` by events of the :class:`~.model.clock.Clock`.
:mod:`.model.local_phases` computes the phases of libraries. :mod:`.catalogue` makes programs from
cases; :mod:`impi.cli` prints outcomes.

Processes of one client that only take part in library phases do the same at the same time, so one
actor stands for all of them. It keeps the values that its generator got. At the first message step
it is split, and each new generator gets these values again. So 10^5 processes cost little where
libraries do the local phases.

Invariants: receives of one list are posted before its sends, as in the engine; messages of one
(source, destination, tag) match in order; a run ends with no posted receive and no early message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar

from impi.protocol.collectives import Algorithm, Local, Recv, Send, Step
from impi.protocol.options import HostKind
from impi.tools.simulate.model.clock import Clock
from impi.tools.simulate.model.counted import CountedTransport
from impi.tools.simulate.model.fabric import Fabric, Parcel, Traffic, nothing
from impi.tools.simulate.model.local_phases import phase_times, phase_values
from impi.tools.simulate.model.messages import Message, Transport
from impi.tools.simulate.model.network import Network, wire_time
from impi.tools.simulate.model.shape import DEFAULT_LIMITS, Limits, Shape
from impi.tools.simulate.model.transfer_machines import PacketTransport
from impi.tools.simulate.model.values import nbytes

TransportKind: TypeAlias = Literal["counted", "packets"]

Program: TypeAlias = Callable[[int], Algorithm[Any]]
"""The program of each rank."""


class Deadlock(AssertionError):
    """No event is left although a process waits, or a message was never received."""


@dataclass(slots=True, eq=False)
class _Actor:
    """One process, or several that do the same."""

    rank: int
    stands_for: Sequence[int]  # the ranks; rank is the first of them
    algorithm: Algorithm[Any]
    open: int = 0
    values: list[Any] = field(default_factory=list)
    # Values that the generator has got, kept while the actor stands for several processes.
    history: list[list[Any]] = field(default_factory=list)
    hops: int = 0
    started: bool = False
    end: int = -1
    result: Any = None


@dataclass(slots=True)
class _Phase:
    begun: list[tuple[_Actor, int, Local, int]] = field(default_factory=list)
    procs: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The cost of one collective. Times in picoseconds since all processes began it."""

    time: int  # time until the last process had ended it
    # A process and the time of its end; one process for all that do the same
    ends: tuple[tuple[int, int], ...]
    results: dict[int, Any]
    hops: int  # length of the longest chain of messages between clients
    wide: dict[tuple[int, int], Traffic]  # packets and octets from client to client
    messages: int  # messages between clients
    local: Traffic  # messages within clients
    phases: int  # phases of libraries
    busiest_proc: int  # most processor time that one process spent
    busiest_link: int  # most time that one node's link was sending
    events: int

    @property
    def packets(self) -> int:
        return sum(traffic.packets for traffic in self.wide.values())

    @property
    def octets(self) -> int:
        """Total octets between clients, headers included."""
        return sum(traffic.octets for traffic in self.wide.values())


# The actor that has posted a receive, and the index of its result
_Place: TypeAlias = tuple[_Actor, int]
_Key: TypeAlias = tuple[int, int, int]  # source, destination and tag
_Queued = TypeVar("_Queued")


class _Matching:
    """Posted receives, and messages that arrived before their receive; in order for each key."""

    def __init__(self) -> None:
        self.posted: dict[_Key, deque[_Place]] = {}
        self.early: dict[_Key, deque[Message]] = {}

    def post(self, key: _Key, place: _Place) -> Message | None:
        """Return a message that has arrived already; None: the receive is posted."""
        message = _first(self.early, key)
        if message is None:
            self.posted.setdefault(key, deque()).append(place)

        return message

    def arrive(self, message: Message) -> _Place | None:
        """Return the posted receive for a message; None: the message waits for one."""

        key = message.source, message.dest, message.tag

        place = _first(self.posted, key)
        if place is None:
            self.early.setdefault(key, deque()).append(message)

        return place


def _first(queues: dict[_Key, deque[_Queued]], key: _Key) -> _Queued | None:
    queue = queues.get(key)
    if not queue:
        return None

    first = queue.popleft()
    if not queue:
        del queues[key]

    return first


class Driver:
    """One collective of one job.

    Args:
        shape: the places of the processes.
        network: the model that carries messages.
        limits: the job's limits.
        kind: whether hosts are processes, nodes or clients.
        transport: ``packets`` drives the real transfer machines, ``counted`` their model.
        shared: whether one generator may stand for several processes; never on shared cores.
    """

    def __init__(
        self,
        shape: Shape,
        network: Network,
        limits: Limits = DEFAULT_LIMITS,
        *,
        kind: HostKind = "proc",
        transport: TransportKind = "counted",
        shared: bool = True,
    ) -> None:
        self.clock = Clock()
        self.fabric = Fabric(self.clock, shape, network, kind)
        self._shape, self._network = shape, network
        # Processes that share cores delay each other, so they do not act at the same time.
        self._shared = shared and not network.cores
        self._transport: Transport = (
            PacketTransport(self.fabric, shape, limits, self, kind)
            if transport == "packets"
            else CountedTransport(self.fabric, limits, self)
        )
        self._client_of = shape.client_of
        self._actors: dict[int, _Actor] = {}
        self._program: Program
        self._matching = _Matching()
        # The receivers of messages that are accepted and incomplete
        self._places: dict[Message, _Place] = {}
        self._phases: dict[int, _Phase] = {}
        self._messages = self._phase_count = self._charge = 0

    def charge(self, octets: int) -> None:
        self._charge += wire_time(octets, self._network.combine)

    def run(self, program: Program, apart: Sequence[int] = (0,)) -> Outcome:
        """Run ``program`` on all processes, which begin at the same time.

        Args:
            program: returns the generator of a rank.
            apart: ranks that act differently from others of their client, such as a root; masters
                need not be named.

        Raises:
            Deadlock: not all of them ended, or a message was not received.
        """

        self._program = program

        self._actors = {actor.rank: actor for actor in self._cast(apart)}
        for actor in list(self._actors.values()):
            self._begin(actor)

        self.clock.run()
        self._check()

        return self._outcome()

    def _cast(self, apart: Sequence[int]) -> Iterator[_Actor]:
        program = self._program
        for ranks in self._shape.ranks:
            alone = sorted({ranks[0], *(rank for rank in apart if rank in ranks)})

            others = [rank for rank in ranks if rank not in alone]
            # Shared or not, processes begin in one order, so that equal times give an equal order.
            for rank in alone if self._shared else (*alone, *others):
                yield _Actor(rank, (rank,), program(rank))

            if others and self._shared:
                yield _Actor(others[0], others, program(others[0]))

    # The algorithm

    def _begin(self, actor: _Actor) -> None:
        self._charge = self._network.call
        if self._charge:
            self._work(actor, partial(self._resume, actor))
        else:
            self._resume(actor)

    def _resume(self, actor: _Actor) -> None:
        while self._advance(actor):
            pass

    def _advance(self, actor: _Actor) -> bool:
        """Resume the algorithm; return whether it can go on at once: all its steps are done."""

        # The generator may reduce while it runs, and charge() adds what that costs.
        self._charge = 0
        try:
            steps = (
                actor.algorithm.send(actor.values)
                if actor.started
                else next(actor.algorithm)
            )
        except StopIteration as stop:
            actor.result = stop.value
            self._work(actor, partial(self._finish, actor))
            return False

        assert steps, "an algorithm never asks for nothing"
        if len(actor.stands_for) > 1 and actor.started:
            actor.history.append(actor.values)

        actor.started = True
        if self._charge:
            self._work(actor, nothing)  # the next steps were done at once

        # A message has one sender and one receiver, so an actor that stands for several
        # is split before its first one.
        parted = (
            [] if all(isinstance(step, Local) for step in steps) else self._part(actor)
        )

        at_once = self._start(actor, steps)
        if not parted:
            return at_once

        # All of them begin their steps before one goes on, because they act at the same time.
        for other, again in [
            (actor, at_once),
            *((other, self._start(other, first)) for other, first in parted),
        ]:
            if again:
                self._resume(other)

        return False

    def _work(self, actor: _Actor, then: Callable[[], None]) -> None:
        """Call ``then`` when the process has finished its work so far, reductions included."""
        # An actor is never shared where processes share cores, so this one waits for no other.
        if len(actor.stands_for) > 1:
            self.clock.at(self.clock.now + self._charge, then)
        else:
            self.fabric.workers.do(actor.rank, self._charge, then)

    def _part(self, actor: _Actor) -> list[tuple[_Actor, list[Step]]]:
        """Split an actor into one for each process; return these and their first steps."""

        parted = []
        for rank in actor.stands_for[1:]:
            other = _Actor(
                rank, (rank,), self._program(rank), hops=actor.hops, started=True
            )

            steps = next(other.algorithm)
            for values in actor.history:
                steps = other.algorithm.send(values)

            self._actors[rank] = other
            parted.append((other, steps))

        actor.stands_for = (actor.rank,)
        actor.history = []

        return parted

    def _finish(self, actor: _Actor) -> None:
        actor.end = self.clock.now

    def _start(self, actor: _Actor, steps: list[Step]) -> bool:
        """Start ``steps``; return whether all of them are done at once."""

        # One more than the steps, so that a step done at once does not resume the algorithm.
        actor.open = len(steps) + 1
        actor.values = [None] * sum(not isinstance(step, Send) for step in steps)
        slots = count()

        numbered = [
            (step, -1 if isinstance(step, Send) else next(slots)) for step in steps
        ]
        for step, slot in numbered:
            if isinstance(step, Recv):  # first, as the engine does
                self._post(actor, step, slot)

        for step, slot in numbered:
            if isinstance(step, Send):
                self._send(actor, step)
            elif isinstance(step, Local):
                self._join(actor, step, slot)

        actor.open -= 1

        return actor.open == 0

    def _done(self, actor: _Actor) -> None:
        actor.open -= 1
        if actor.open == 0:
            self._resume(actor)

    # Messages

    def _post(self, actor: _Actor, step: Recv, slot: int) -> None:
        message = self._matching.post(
            (step.source, actor.rank, step.tag), (actor, slot)
        )
        if message is None:
            return

        self._places[message] = actor, slot
        # The rest of a long message has waited for this receive (IMPI 3.7.2).
        if self._client_of[message.source] != self._client_of[message.dest]:
            self._transport.accept(message)
        else:
            self.received(message)

    def _send(self, actor: _Actor, step: Send) -> None:
        assert step.dest != actor.rank and 0 <= step.dest < self._shape.size
        wide = self._client_of[actor.rank] != self._client_of[step.dest]
        size = nbytes(step.value)

        # A local message passes the chain of hops on, and adds none.
        message = Message(
            actor.rank, step.dest, step.tag, step.value, size, actor.hops + wide
        )
        if wide:
            self._messages += 1
            self._transport.send(message)
        else:
            left, come = (
                partial(self._done, actor),
                partial(self._match_message, message),
            )
            self.fabric.message(Parcel(actor.rank, step.dest, size, left, come))

    def _match_message(self, message: Message) -> None:
        if self.arrived(message):
            self.received(message)

    def arrived(self, message: Message) -> bool:
        place = self._matching.arrive(message)
        if place is not None:
            self._places[message] = place

        return place is not None

    def received(self, message: Message) -> None:
        actor, slot = self._places.pop(message)
        actor.values[slot] = message.value
        actor.hops = max(actor.hops, message.hops)
        self._done(actor)

    def sent(self, message: Message) -> None:
        self._done(self._actors[message.source])

    # Phases of libraries

    def _join(self, actor: _Actor, step: Local, slot: int) -> None:
        client = self._client_of[actor.rank]
        phase = self._phases.setdefault(client, _Phase())
        phase.begun.append((actor, slot, step, self.clock.now))

        phase.procs += len(actor.stands_for)
        if phase.procs == len(self._shape.ranks[client]):
            self._run_phase(self._phases.pop(client))

    def _run_phase(self, phase: _Phase) -> None:
        self._phase_count += 1
        steps = {actor.rank: step for actor, _, step, _ in phase.begun}
        actors = {actor.rank: actor for actor, _, _, _ in phase.begun}
        kinds = {(step.what, step.root) for step in steps.values()}
        assert len(kinds) == 1, f"one client is in different phases: {kinds}"
        [(what, root)] = kinds
        starts = {actor.rank: start for actor, _, _, start in phase.begun}
        of_root = starts.get(root, self.clock.now)
        # A phase without a root is described by the step of any process.
        one = steps.get(root, phase.begun[0][2])
        ends = phase_times(one, phase.procs, self.clock.now, of_root, self._network)
        values = phase_values(steps, phase.procs)

        most = max(actor.hops for actor in actors.values())
        for actor, slot, _, _ in phase.begun:
            # A chain of messages goes on through a phase in the direction of its data.
            if what in ("bcast", "scatter"):
                actor.hops = max(actor.hops, actors[root].hops)
            elif what not in ("gather", "reduce") or actor.rank == root:
                actor.hops = most

            # A phase is known when its last process has begun. A root may have ended before,
            # and no event lies in the past.
            end = max(self.clock.now, ends.root if actor.rank == root else ends.others)
            self.clock.at(end, self._store_value, actor, slot, values[actor.rank])

    def _store_value(self, actor: _Actor, slot: int, value: Any) -> None:
        actor.values[slot] = value
        self._done(actor)

    # The end

    def _check(self) -> None:
        waiting = [actor.rank for actor in self._actors.values() if actor.end < 0]
        if waiting:
            shown = ", ".join(map(str, sorted(waiting)[:8]))
            raise Deadlock(
                f"{len(waiting)} processes wait for ever, among them {shown}"
            )

        early, posted = self._matching.early, self._matching.posted
        if early or posted or self._places or not self._transport.quiet():
            raise Deadlock(
                f"{sum(map(len, early.values()))} messages were sent and never received"
            )

    def _outcome(self) -> Outcome:
        actors = self._actors.values()
        return Outcome(
            time=max(actor.end for actor in actors),
            ends=tuple(sorted((actor.rank, actor.end) for actor in actors)),
            results={actor.rank: actor.result for actor in actors},
            hops=max(actor.hops for actor in actors),
            wide=self.fabric.wide,
            messages=self._messages,
            local=self.fabric.local,
            phases=self._phase_count,
            busiest_proc=max(self.fabric.workers.busy),
            busiest_link=max(self.fabric.links.busy),
            events=self.clock.events,
        )
