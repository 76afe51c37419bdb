"""All processes of one communicator in one thread, their generators run in a seeded order.

Messages of one (source, destination, tag) do not overtake each other; all else may. Where nothing
can move any more and somebody still waits, that is a deadlock and raises. A local phase is complete
when all of its client have begun it; that they mean the same one, as a library wants it, is
asserted.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from impi.protocol.collectives import Local, Send, Step


class Deadlock(AssertionError):
    pass


@dataclass(frozen=True)
class Message:
    source: int
    dest: int
    tag: int
    value: Any


@dataclass
class Outcome:
    results: list[Any]
    """The values that each rank returned."""
    sent: list[Message] = field(default_factory=list)
    """Every message, in the order in which they were started."""
    phases: int = 0
    """Local phases, each counted once for its client."""

    def between(self, clients: Sequence[int]) -> list[Message]:
        """Only the messages that go from one client to another."""
        return [m for m in self.sent if clients[m.source] != clients[m.dest]]


@dataclass
class Proc:
    generator: Generator[list[Step], list[Any], Any]
    open_steps: int = 0
    received: list[Any] = field(default_factory=list)
    started: bool = False
    finished: bool = False


class World:
    """Every rank's generator.

    ``synchronous``: a send ends when received, as MPI allows for any standard send.
    """

    def __init__(
        self,
        generators: Sequence[Any],
        seed: int,
        *,
        synchronous: bool = True,
        clients: Sequence[int] = (),
    ) -> None:
        self.random = random.Random(seed)
        self.clients = clients
        self.phases: dict[int, dict[int, tuple[int, Local]]] = {}
        self.synchronous = synchronous
        self.procs = [Proc(g) for g in generators]
        self.outcome = Outcome([None] * len(generators))
        self.links: dict[tuple[int, int, int], deque[Any]] = {}
        self.posted: dict[tuple[int, int, int], deque[int]] = {}

    def run(self) -> Outcome:
        while self.step():
            pass
        waiting = [r for r, p in enumerate(self.procs) if not p.finished]
        if waiting:
            raise Deadlock(
                f"ranks {waiting} wait for ever: posted {self.posted}, under way {self.links}"
            )
        left = [key for key, queue in self.links.items() if queue]
        assert not left, f"sent but never received: {left}"
        return self.outcome

    def step(self) -> bool:
        """One event of those possible, by the seed; False: there is none."""
        if events := self.possible():
            self.play(events[self.random.randrange(len(events))])
        return bool(events)

    def play(self, event: tuple[str, Any]) -> None:
        kind, what = event
        if kind == "resume":
            self._resume(what)
        elif kind == "phase":
            self._phase(self.phases.pop(what))
        else:
            self._deliver(what)

    def possible(self) -> list[tuple[str, Any]]:
        ready = [
            ("resume", r)
            for r, p in enumerate(self.procs)
            if not p.finished and not p.open_steps
        ]
        complete = [
            ("phase", c)
            for c, begun in self.phases.items()
            if len(begun) == list(self.clients).count(c)
        ]
        return (
            ready
            + complete
            + [
                ("deliver", k)
                for k, q in self.links.items()
                if q and self.posted.get(k)
            ]
        )

    def _resume(self, rank: int) -> None:
        proc = self.procs[rank]
        try:
            steps = (
                proc.generator.send(proc.received)
                if proc.started
                else next(proc.generator)
            )
        except StopIteration as end:
            proc.finished = True
            self.outcome.results[rank] = end.value
            return
        proc.started = True
        assert isinstance(steps, list) and steps, "a list of steps, never an empty one"
        proc.open_steps = len(steps)
        proc.received = [None] * sum(not isinstance(s, Send) for s in steps)
        slot = 0
        for step in steps:
            if isinstance(step, Send):
                self._send(rank, step)
            elif isinstance(step, Local):
                begun = self.phases.setdefault(self.clients[rank], {})
                assert rank not in begun, "one local phase at a time"
                begun[rank] = (slot, step)
                slot += 1
            else:
                assert step.source != rank and 0 <= step.source < len(self.procs)
                self.posted.setdefault((step.source, rank, step.tag), deque()).append(
                    slot
                )
                slot += 1

    def _send(self, rank: int, step: Send) -> None:
        assert step.dest != rank and 0 <= step.dest < len(self.procs)
        value = _over_the_wire(step.value)
        self.outcome.sent.append(
            Message(rank, step.dest, step.tag, _over_the_wire(step.value))
        )
        self.links.setdefault((rank, step.dest, step.tag), deque()).append(value)
        if not self.synchronous:
            self.procs[rank].open_steps -= 1

    def _phase(self, begun: dict[int, tuple[int, Local]]) -> None:
        self.outcome.phases += 1
        ranks = sorted(begun)
        steps = [begun[rank][1] for rank in ranks]
        assert len({(step.what, step.root) for step in steps}) == 1, (
            f"not the same phase: {steps}"
        )
        assert steps[0].root in ranks, "a root of another client"
        for rank, value in zip(ranks, local_phase(steps, ranks), strict=True):
            self.procs[rank].received[begun[rank][0]] = value
            self.procs[rank].open_steps -= 1

    def _deliver(self, key: tuple[int, int, int]) -> None:
        source, dest, _ = key
        self.procs[dest].received[self.posted[key].popleft()] = self.links[
            key
        ].popleft()
        self.procs[dest].open_steps -= 1
        if self.synchronous:
            self.procs[source].open_steps -= 1


def _over_the_wire(value: Any) -> Any:
    """A value of its own for the receiver; octets arrive as octets from any object."""
    return (
        bytes(value)
        if isinstance(value, bytes | bytearray | memoryview)
        else copy.deepcopy(value)
    )


def local_phase(steps: Sequence[Local], ranks: Sequence[int]) -> list[Any]:
    """The result of an MPI library's own collective at each of its ranks."""
    what, root = steps[0].what, steps[0].root
    values = [_over_the_wire(step.value) for step in steps]
    roots = [rank == root for rank in ranks]
    if what == "bcast":
        assert all(step.like is not None for step in steps), "no room"
        return [_over_the_wire(values[roots.index(True)]) for _ in ranks]
    if what == "scatter":
        pieces = values[roots.index(True)]
        assert {len(piece) for piece in pieces} == {step.like for step in steps}, (
            "pieces of different sizes"
        )
        return list(pieces)
    if what in ("gather", "allgather"):
        sizes = steps[0].like or [len(values[0])] * len(ranks)
        assert [len(value) for value in values] == list(sizes), "pieces of other sizes"
        return [list(values) if here or what == "allgather" else None for here in roots]
    if what == "alltoall":
        assert len({len(piece) for value in values for piece in value}) == 1, (
            "pieces of different sizes"
        )
        return [[value[i] for value in values] for i in range(len(ranks))]
    if what in ("reduce", "allreduce", "reduce_scatter"):
        reduction = steps[0].reduction
        assert (
            reduction is not None
            and reduction.commutative
            and reduction.library is not None
        )
        result = values[-1]
        for value in reversed(values[:-1]):
            result = reduction.combine(value, result)
        if what == "reduce_scatter":
            ends = list(accumulate(steps[0].like))
            return [
                result[end - size : end]
                for size, end in zip(steps[0].like, ends, strict=True)
            ]
        return [
            copy.deepcopy(result) if here or what == "allreduce" else None
            for here in roots
        ]
    assert what == "barrier"
    return [None] * len(ranks)


def run(
    generators: Sequence[Any],
    seed: int,
    *,
    synchronous: bool = True,
    clients: Sequence[int] = (),
) -> Outcome:
    return World(generators, seed, synchronous=synchronous, clients=clients).run()
