"""All processes of one communicator in one thread: runs their generators in an order that a seed decides.

Messages of one (source, destination, tag) do not overtake each other; all else may. Where nothing can move any more and
somebody still waits, that is a deadlock and raises.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from impi.collectives import Recv, Send, Step


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
    """What each rank returned."""
    trace: list[Message] = field(default_factory=list)
    """Every message, in the order in which they were started."""

    def between(self, clients: Sequence[int]) -> list[Message]:
        """Only the messages that go from one client to another."""
        return [m for m in self.trace if clients[m.source] != clients[m.dest]]


@dataclass
class _Proc:
    generator: Generator[list[Step], list[Any], Any]
    open_steps: int = 0
    received: list[Any] = field(default_factory=list)
    started: bool = False
    finished: bool = False


class Simulator:
    """``synchronous``: a send is done only when it is received, as MPI allows for any standard send."""

    def __init__(self, generators: Sequence[Any], seed: int, *, synchronous: bool = True) -> None:
        self.random = random.Random(seed)
        self.synchronous = synchronous
        self.procs = [_Proc(g) for g in generators]
        self.outcome = Outcome([None] * len(generators))
        self.sent: dict[tuple[int, int, int], deque[Any]] = {}
        self.posted: dict[tuple[int, int, int], deque[int]] = {}

    def run(self) -> Outcome:
        while moves := self._moves():
            kind, what = moves[self.random.randrange(len(moves))]
            if kind == "resume":
                self._resume(what)
            else:
                self._deliver(what)
        waiting = [r for r, p in enumerate(self.procs) if not p.finished]
        if waiting:
            raise Deadlock(f"ranks {waiting} wait for ever: posted {self.posted}, sent {self.sent}")
        left = [key for key, queue in self.sent.items() if queue]
        assert not left, f"sent but never received: {left}"
        return self.outcome

    def _moves(self) -> list[tuple[str, Any]]:
        ready = [("resume", r) for r, p in enumerate(self.procs) if not p.finished and not p.open_steps]
        return ready + [("deliver", k) for k, q in self.sent.items() if q and self.posted.get(k)]

    def _resume(self, rank: int) -> None:
        proc = self.procs[rank]
        try:
            steps = proc.generator.send(proc.received) if proc.started else next(proc.generator)
        except StopIteration as end:
            proc.finished = True
            self.outcome.results[rank] = end.value
            return
        proc.started = True
        assert isinstance(steps, list) and steps, "a list of steps, never an empty one"
        proc.open_steps = len(steps)
        proc.received = [None] * sum(isinstance(s, Recv) for s in steps)
        slot = 0
        for step in steps:
            if isinstance(step, Send):
                self._send(rank, step)
            else:
                assert step.source != rank and 0 <= step.source < len(self.procs)
                self.posted.setdefault((step.source, rank, step.tag), deque()).append(slot)
                slot += 1

    def _send(self, rank: int, step: Send) -> None:
        assert step.dest != rank and 0 <= step.dest < len(self.procs)
        value = _over_the_wire(step.value)
        self.outcome.trace.append(Message(rank, step.dest, step.tag, _over_the_wire(step.value)))
        self.sent.setdefault((rank, step.dest, step.tag), deque()).append(value)
        if not self.synchronous:
            self.procs[rank].open_steps -= 1

    def _deliver(self, key: tuple[int, int, int]) -> None:
        source, dest, _ = key
        self.procs[dest].received[self.posted[key].popleft()] = self.sent[key].popleft()
        self.procs[dest].open_steps -= 1
        if self.synchronous:
            self.procs[source].open_steps -= 1


def _over_the_wire(value: Any) -> Any:
    """A value of its own for the receiver; octets arrive as octets, whatever object they came from."""
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else copy.deepcopy(value)


def run(generators: Sequence[Any], seed: int, *, synchronous: bool = True) -> Outcome:
    return Simulator(generators, seed, synchronous=synchronous).run()
