"""Whole jobs in virtual time: machines, matchers, bounded links, a seeded scheduler, an oracle.

Time is the number of events. An event is: a program takes a step, a machine writes some octets into
a link, or reads some out of one. Which of the possible events comes next is the seed's choice; that
there is always one until the job has ended is what "it always terminates" means.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random

from transfer_world import Link

from impi.protocol.job import Job
from impi.protocol.options import Offer
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.matching import Matcher
from impi.protocol.startup.agree import agree_on_job
from impi.protocol.startup.facts import (
    ClientFacts,
    HostFacts,
    ProcFacts,
    encode_facts,
    encode_versions,
)
from impi.protocol.transfer import Arrived, Incoming, Outgoing, Transfer
from impi.protocol.wire import Label

__all__ = ["World", "make_job"]

TAGS = 3
LATEST = 200_000
"""No job of these sizes takes as many events, unless it hangs."""


def make_job(rng: Random, shape: list[int], lowest: bool = False) -> Job:
    """A job whose clients have ``shape`` procs, each its own host, with different proposals."""
    values: dict[int, bytes] = defaultdict(bytes)
    for client, nprocs in enumerate(shape):
        hosts = []
        for i in range(nprocs):
            here = bytes(12) + bytes([10, 0, client, i + 1])
            hosts.append(HostFacts(here, 5000, (ProcFacts(here, 7),)))
        ackmark = rng.randint(1, 6)
        facts = ClientFacts(
            hosts=tuple(hosts),
            offer=Offer(
                datalen=1 if lowest else rng.choice((1, 2, 7, 16, 100, 1000)),
                ackmark=1 if lowest else ackmark,
                hiwater=1 if lowest else ackmark + rng.randint(0, 6),
                tag_ub=32767 + client,
            ),
        )
        values[Label.C_VERSION] += encode_versions([(0, 0)])
        for label, data in encode_facts(facts):
            values[label] += data
    return agree_on_job(len(shape), values)


@dataclass(eq=False)
class Sent:
    """One message, as the oracle knows it."""

    number: int
    source: int
    dest: int
    tag: int
    data: bytes
    out: Outgoing
    arrived: bool = False
    matched: bool = False
    taken_back: bool = False


@dataclass(eq=False)
class Posted:
    """One receive."""

    source: int
    tag: int


class Proc:
    """A machine, a matcher, and what the matcher must hold."""

    def __init__(self, job: Job, rank: int) -> None:
        self.rank = rank
        self.machine = Transfer(job, rank)
        self.matcher: Matcher[Posted, Incoming] = Matcher()
        self.unexpected: list[Incoming] = []


class World:
    """A job and the oracle. ``run`` plays it; every broken promise is an AssertionError."""

    def __init__(
        self,
        rng: Random,
        job: Job,
        messages: int,
        *,
        capacity: int,
        cancels: float,
        eager: float,
    ) -> None:
        self.rng = rng
        self.job = job
        self.cancels = cancels
        self.eager = eager
        self.procs = [Proc(job, proc.rank) for proc in job.procs]
        self.links = {
            (p.rank, b): Link(capacity)
            for p in self.procs
            for b in p.machine.hosts.channels
        }
        """By source and destination: every proc is its own host."""
        self.to_send = messages
        self.sent: dict[int, Sent] = {}
        self.received: list[tuple[Sent, Incoming, bytearray]] = []
        self.last_arrived: dict[tuple[int, int], int] = defaultdict(int)
        self.now = 0

    # The programs

    def act(self, rank: int) -> bool:
        """A program does something, if it has anything to do."""
        roll = self.rng.random()
        if self.to_send and roll < 0.5:
            self.send(rank)
        elif roll < 0.5 + self.eager or not self.to_send:
            if self.to_send:
                self.post(
                    rank,
                    self.rng.choice((ANY_SOURCE, *self.peers(rank))),
                    self.rng.randint(-1, TAGS - 1),
                )
            elif self.procs[rank].unexpected:
                self.post(rank, ANY_SOURCE, ANY_TAG)
            else:
                return False
        elif roll < 0.9:
            self.probe(rank)
        return True

    def peers(self, rank: int) -> list[int]:
        client = self.job.procs[rank].client
        return [proc.rank for proc in self.job.procs if proc.client != client]

    def send(self, rank: int) -> None:
        self.to_send -= 1
        limit = self.job.maxdatalen
        around = (
            0,
            1,
            limit - 1,
            limit,
            limit + 1,
            2 * limit,
            2 * limit + 1,
            5 * limit + 3,
        )
        data = self.rng.randbytes(self.rng.choice(around))
        cut = self.rng.randint(0, len(data))
        dest = self.rng.choice(self.peers(rank))
        tag = self.rng.randrange(TAGS)
        number = len(self.sent) + 1
        out = self.procs[rank].machine.send(
            dest,
            cid=0,
            tag=tag,
            lsrank=rank,
            views=[memoryview(data)[:cut], memoryview(data)[cut:]],
            synchronous=self.rng.random() < 0.3,
            # Names the message to the oracle; a message of no octets can carry nothing else
            count=number,
        )
        self.sent[number] = Sent(number, rank, dest, tag, data, out)

    def cancel(self) -> None:
        """A sender asks for one of its messages to be taken back, wherever it is by now."""
        message = self.rng.choice(list(self.sent.values()))
        if not message.out.done:
            self.procs[message.source].machine.cancel(message.out)

    def post(self, rank: int, source: int, tag: int) -> None:
        """A receive; it must get the oldest message that fits, found here by looking at all."""
        fits = [
            m
            for m in self.procs[rank].unexpected
            if source in (ANY_SOURCE, m.header.lsrank)
            and tag in (ANY_TAG, m.header.tag)
        ]
        found = self.procs[rank].matcher.post(source, tag, Posted(source, tag))
        assert found is (fits[0] if fits else None)
        if found is not None:
            self.procs[rank].unexpected.remove(found)
            self.match(rank, found)

    def probe(self, rank: int) -> None:
        found = self.procs[rank].matcher.probe(ANY_SOURCE, ANY_TAG)
        assert found is (
            self.procs[rank].unexpected[0] if self.procs[rank].unexpected else None
        )
        if found is not None and found.available:
            assert found.nbytes == len(self.sent[found.header.count].data)

    def match(self, rank: int, incoming: Incoming) -> None:
        message = self.sent[incoming.header.count]
        assert not message.matched and not message.taken_back
        message.matched = True
        room = bytearray(incoming.nbytes)
        self.received.append((message, incoming, room))
        self.procs[rank].machine.accept(incoming, memoryview(room))

    # The network

    def write(self, a: int, b: int) -> None:
        """Some octets of ``a`` enter the link, as many as fit at most."""
        link = self.links[a, b]
        machine = self.procs[a].machine
        octets = b"".join(machine.data_to_send(b))
        size = min(len(octets), link.room, self.rng.choice((1, 64, 128, 500, 1 << 20)))
        link.put(octets[:size])
        machine.sent(b, size)
        self.check_credit(a)

    def read(self, a: int, b: int) -> None:
        """``b`` reads some octets of the link from ``a``."""
        link = self.links[a, b]
        machine = self.procs[b].machine
        room = machine.get_buffer(a)
        size = min(
            len(room), len(link.under_way), self.rng.choice((1, 64, 128, 500, 1 << 20))
        )
        room[:size] = link.take(size)
        at_once: list[Sent] = []
        for event in machine.received(a, size):
            incoming = event.incoming
            message = self.sent[incoming.header.count]
            if isinstance(event, Arrived):
                self.arrive(b, message, incoming)
                if incoming.cancelled:  # its CANCEL was read with it
                    at_once.append(message)
            else:
                assert not message.matched and not message.taken_back
                message.taken_back = True
                if message in at_once:
                    continue
                assert self.procs[b].matcher.discard(incoming)
                self.procs[b].unexpected.remove(incoming)
        self.check_credit(b)

    def arrive(self, rank: int, message: Sent, incoming: Incoming) -> None:
        """In the order of sending, once, and as it was sent."""
        assert not message.arrived
        message.arrived = True
        way = (message.source, message.dest)
        assert message.number > self.last_arrived[way]
        self.last_arrived[way] = message.number
        assert (incoming.source, incoming.header.lsrank, rank) == (
            message.source,
            message.source,
            message.dest,
        )
        assert (incoming.header.tag, incoming.nbytes) == (
            message.tag,
            len(message.data),
        )
        if incoming.cancelled:
            return
        if (
            self.procs[rank].matcher.arrive(
                incoming.header.lsrank, incoming.header.tag, incoming
            )
            is not None
        ):
            self.match(rank, incoming)
        else:
            self.procs[rank].unexpected.append(incoming)

    def check_credit(self, rank: int) -> None:
        for path in self.procs[rank].machine.hosts.paths.values():
            assert 0 <= path.window.sent <= self.job.hiwater
            assert 0 <= path.counter.unacknowledged < self.job.ackmark

    # The scheduler

    def possible(self) -> list[tuple[str, int, int]]:
        """Writes and reads that would move an octet."""
        found = []
        for (a, b), link in self.links.items():
            if link.room and self.procs[a].machine.wants_write(b):
                found.append(("write", a, b))
            if link.under_way:
                found.append(("read", a, b))
        return found

    def run(self) -> None:
        """To the end, with FINI both ways."""
        while not self.over():
            self.step()
            assert self.now < LATEST, "it does not end"
        self.check_messages()
        self.finish()

    def step(self) -> None:
        self.now += 1
        events = self.possible()
        if self.sent and self.rng.random() < self.cancels:
            self.cancel()
        elif events and self.rng.random() < 0.8:
            self.play(self.rng.choice(events))
        else:
            ranks = list(range(len(self.procs)))
            self.rng.shuffle(ranks)
            acted = [self.act(rank) for rank in ranks[: None if not events else 1]]
            assert events or any(acted), "nobody can go on, and it is not over"

    def play(self, event: tuple[str, int, int]) -> None:
        what, a, b = event
        (self.write if what == "write" else self.read)(a, b)

    def over(self) -> bool:
        """All was sent and settled, and what arrived was matched."""
        return (
            not self.to_send
            and all(message.out.done for message in self.sent.values())
            and all(m.arrived or m.out.cancelled for m in self.sent.values())
            and not any(proc.unexpected for proc in self.procs)
            and all(incoming.done for _, incoming, _ in self.received)
        )

    def check_messages(self) -> None:
        """Each came exactly once, or was taken back, never both."""
        for message in self.sent.values():
            assert message.matched is not (message.out.cancelled is True)
        for message, incoming, room in self.received:
            assert incoming.done and room == message.data

    def finish(self) -> None:
        """Finalization, in any order."""
        for proc in self.rng.sample(self.procs, len(self.procs)):
            proc.machine.finish()
        while events := self.possible():
            self.now += 1
            assert self.now < 2 * LATEST, "finalization does not end"
            self.play(self.rng.choice(events))
        for proc in self.procs:
            assert proc.machine.finished and proc.machine.idle
            for host in proc.machine.hosts.channels:
                proc.machine.eof(host)
