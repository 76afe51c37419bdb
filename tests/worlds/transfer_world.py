"""Jobs, and transfer machines wired back to back in memory."""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

from impi.protocol.job import Host, Job
from impi.protocol.job import Proc as JobProc
from impi.protocol.transfer import (
    Arrived,
    Cancelled,
    Event,
    Incoming,
    Outgoing,
    Transfer,
)
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, unpack_header

LIMIT = 16
"""Octets of user data in a packet, unless a job says otherwise."""
NO_LIMIT = 1 << 30


def address(number: int) -> bytes:
    return bytes(12) + bytes([10, 0, 0, number])


def make_job(
    clients: list[list[int]],
    *,
    maxdatalen: int = LIMIT,
    ackmark: int = 2,
    hiwater: int = 4,
    pids: list[int] | None = None,
    addresses: list[bytes] | None = None,
) -> Job:
    """``clients`` says how many procs each host of each client has."""
    hosts: list[Host] = []
    procs: list[JobProc] = []
    for client, sizes in enumerate(clients):
        for size in sizes:
            index = len(hosts)
            ipv6 = addresses[index] if addresses else address(index + 1)
            ranks = tuple(range(len(procs), len(procs) + size))
            for rank in ranks:
                pid = pids[rank] if pids else 1000 + rank
                procs.append(
                    JobProc(rank=rank, client=client, host=index, ipv6=ipv6, pid=pid)
                )
            hosts.append(
                Host(
                    index=index,
                    client=client,
                    ipv6=ipv6,
                    port=5000 + index,
                    procs=ranks,
                )
            )
    return Job(
        version=(0, 0),
        nclients=len(clients),
        hosts=tuple(hosts),
        procs=tuple(procs),
        maxdatalen=maxdatalen,
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        ackmark=ackmark,
        hiwater=hiwater,
    )


def packets(octets: bytes | bytearray) -> Iterator[tuple[Header, bytes]]:
    """Every packet of a stream; fails on a rest."""
    at = 0
    while at < len(octets):
        header = unpack_header(octets, at)
        at += HEADER_SIZE
        nbytes = (
            header.pk_len
            if header.pk_type in (PacketType.DATA, PacketType.DATASYNC)
            else 0
        )
        yield header, bytes(octets[at : at + nbytes])
        at += nbytes
    assert at == len(octets), "the stream ends in the middle of a packet"


def headers(octets: bytes | bytearray) -> Iterator[tuple[int, Header]]:
    """Return where each packet of a stream begins, and its header."""
    at = 0
    for header, data in packets(octets):
        yield at, header
        at += HEADER_SIZE + len(data)


def turns(
    machine: Transfer, host: int, octets: bytes, chunk: Callable[[], int] | None = None
) -> Iterator[list[Event]]:
    """Let ``machine`` read ``octets``, as much a turn as it and ``chunk`` take; events by turn."""
    at = 0
    while at < len(octets):
        room = machine.get_buffer(host)
        assert len(room) > 0
        nbytes = min(len(room), len(octets) - at, chunk() if chunk else NO_LIMIT)
        room[:nbytes] = octets[at : at + nbytes]
        at += nbytes
        yield machine.received(host, nbytes)


def feed(
    machine: Transfer, host: int, octets: bytes, chunk: Callable[[], int] | None = None
) -> list[Event]:
    """All events of :func:`turns`."""
    return [event for events in turns(machine, host, octets, chunk) for event in events]


def drain(machine: Transfer, host: int, limit: int = NO_LIMIT) -> bytes:
    """Return the octets that ``machine`` has for ``host`` now, up to ``limit`` octets."""
    out = bytearray()
    while machine.wants_write(host) and len(out) < limit:
        views = machine.data_to_send(host)
        assert 0 < len(views) <= 64
        piece = b"".join(views)[: limit - len(out)]
        machine.sent(host, len(piece))
        out += piece
    return bytes(out)


class Link:
    """One direction of a connection: holds at most ``capacity`` octets, as TCP does."""

    def __init__(self, capacity: int = NO_LIMIT) -> None:
        self.capacity = capacity
        self.sent = bytearray()
        """Every octet that ever went in."""
        self.under_way = bytearray()

    @property
    def room(self) -> int:
        return self.capacity - len(self.under_way)

    def put(self, octets: bytes) -> None:
        assert len(octets) <= self.room
        self.sent += octets
        self.under_way += octets

    def take(self, limit: int = NO_LIMIT) -> bytes:
        octets = bytes(self.under_way[:limit])
        del self.under_way[:limit]
        return octets


class Proc:
    """A machine and a matcher that accepts at once, or when told to."""

    def __init__(
        self, job: Job, rank: int, *, eager: bool = True, agent: bool = False
    ) -> None:
        self.machine = Transfer(job, rank, agent=agent)
        self.rank = rank
        self.host = job.procs[rank].host
        self.eager = eager
        self.unexpected: deque[Incoming] = deque()
        self.received: list[tuple[Incoming, bytearray]] = []
        self.cancelled: list[Incoming] = []

    def handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Cancelled):
                self.unexpected.remove(event.incoming)
                self.cancelled.append(event.incoming)
                continue
            assert isinstance(event, Arrived)
            self.unexpected.append(event.incoming)
            if self.eager:
                self.accept()

    def accept(self, at: int = 0) -> Incoming:
        incoming = self.unexpected[at]
        del self.unexpected[at]
        room = bytearray(incoming.nbytes)
        self.received.append((incoming, room))
        self.machine.accept(incoming, memoryview(room))
        return incoming

    def send(
        self,
        dest: int,
        data: bytes,
        *,
        tag: int = 0,
        synchronous: bool = False,
        pieces: int = 1,
    ) -> Outgoing:
        view = memoryview(data)
        step = max(1, -(-len(data) // pieces))
        views = [view[i : i + step] for i in range(0, len(data), step)] or [view]
        return self.machine.send(
            dest, cid=0, tag=tag, lsrank=self.rank, views=views, synchronous=synchronous
        )

    def write(self, host: int, limit: int = NO_LIMIT) -> bytes:
        """Return the octets that the machine has for ``host`` now."""
        return drain(self.machine, host, limit)

    def read(
        self, host: int, octets: bytes, chunk: Callable[[], int] | None = None
    ) -> None:
        """The matcher sees the events of each turn before the next turn."""
        for events in turns(self.machine, host, octets, chunk):
            self.handle(events)


class World:
    """Procs, each its own host, and a link for each direction; keeps a log for examination."""

    def __init__(self, *procs: Proc, chunk: Callable[[], int] | None = None) -> None:
        self.procs = {proc.host: proc for proc in procs}
        self.chunk = chunk
        self.links: dict[tuple[int, int], Link] = defaultdict(Link)
        """By source and destination."""
        self.log: list[tuple[bool, int, int, int]] = []

    def write(self, source: int, dest: int, limit: int = NO_LIMIT) -> int:
        link = self.links[source, dest]
        octets = self.procs[source].write(dest, limit)
        link.put(octets)
        self.log.append((True, source, dest, len(link.sent)))
        return len(octets)

    def read(self, source: int, dest: int, limit: int = NO_LIMIT) -> int:
        link = self.links[source, dest]
        octets = link.take(limit)
        self.log.append((False, source, dest, len(link.sent) - len(link.under_way)))
        self.procs[dest].read(source, octets, self.chunk)
        return len(octets)

    def run(self) -> None:
        """Carry until nothing moves."""
        moved = 1
        while moved:
            moved = 0
            for source, proc in self.procs.items():
                for dest in proc.machine.hosts.channels:
                    moved += self.write(source, dest) + self.read(source, dest)

    def check_credit(self, ackmark: int, hiwater: int) -> None:
        """IMPI 3.6 at every moment, from octets alone: packets begun less acknowledged ones."""
        begun: dict[tuple[int, int], int] = defaultdict(int)
        acknowledged: dict[tuple[int, int], int] = defaultdict(int)
        streams = {way: link.sent for way, link in self.links.items()}
        counted = {
            way: [at for at, h in headers(octets) if h.pk_type not in (2, 7)]
            for way, octets in streams.items()
        }
        acks = {
            way: [at for at, h in headers(octets) if h.pk_type == 2]
            for way, octets in streams.items()
        }
        for wrote, source, dest, offset in self.log:
            if wrote:
                begun[source, dest] = bisect_left(
                    counted.get((source, dest), []), offset
                )
            else:
                acknowledged[dest, source] = bisect_right(
                    acks.get((source, dest), []), offset - HEADER_SIZE
                )
            for way in begun:
                assert 0 <= begun[way] - ackmark * acknowledged[way] <= hiwater

    def finish(self) -> None:
        for proc in self.procs.values():
            proc.machine.finish()
        self.run()
        for proc in self.procs.values():
            assert proc.machine.finished and proc.machine.idle


class ShortWorld:
    """Rank 0 sends to rank 1, who posts receives by tag; both through the fast twins or neither."""

    def __init__(self, fast: bool, ackmark: int, hiwater: int) -> None:
        job = make_job([[1], [1]], ackmark=ackmark, hiwater=hiwater)
        self.fast = fast
        self.machines = left, right = Transfer(job, 0), Transfer(job, 1)
        self.make = left.short_sender(1, 4, 0)
        self.takers = {
            0: left.short_reader(
                1, lambda *_: False, lambda _, packet: self.carry(0, packet)
            ),
            1: right.short_reader(
                0, self.deliver, lambda _, packet: self.carry(1, packet)
            ),
        }
        self.links = Link(), Link()
        """By the rank that writes."""
        self.posted: list[int] = []
        self.unexpected: list[Incoming] = []
        self.received: list[tuple[int, bytearray, int]] = []
        self.short = 0

    def deliver(
        self, source: int, cid: int, tag: int, count: int, octets: memoryview
    ) -> bool:
        assert (source, cid) == (0, 4)
        if tag not in self.posted:
            return False
        self.posted.remove(tag)
        self.received.append((tag, bytearray(octets), count))
        self.short += 1
        return True

    def send(self, data: bytes, tag: int, synchronous: bool, room: int) -> None:
        """Send, of which TCP takes ``room`` octets."""
        made = (
            self.make(tag, memoryview(data), len(data))
            if self.fast and not synchronous
            else None
        )
        if made is None:
            views = [memoryview(data)]
            self.machines[0].send(
                1,
                cid=4,
                tag=tag,
                lsrank=0,
                views=views,
                synchronous=synchronous,
                count=len(data),
            )
            self.write(0, room)
            return
        packet = b"".join(made) if isinstance(made, list) else bytes(made)
        taken = min(room, len(packet))
        self.carry(0, packet[:taken])
        if taken < len(packet):
            self.machines[0].requeue(1, packet, taken)
        self.write(0, room - taken)

    def write(self, rank: int, limit: int) -> None:
        if limit > 0:
            self.carry(rank, drain(self.machines[rank], 1 - rank, limit))

    def carry(self, rank: int, octets: bytes) -> None:
        self.links[rank].put(octets)

    def read(self, rank: int, limit: int) -> None:
        """Read up to ``limit`` octets from the other side; then write all that follows."""
        machine, host, waiting = (
            self.machines[rank],
            1 - rank,
            self.links[1 - rank].under_way,
        )
        while limit and waiting:
            room = machine.get_buffer(host)
            n = min(len(room), limit, len(waiting))
            room[:n] = waiting[:n]
            del waiting[:n]
            limit -= n
            if not self.fast:
                self.handle(machine.received(host, n))
            elif not self.takers[rank](n):
                self.handle(machine.parse(host))
            assert (
                self.fast is False
                or host in machine.hosts.busy
                or not machine.wants_write(host)
            )
        self.write(rank, NO_LIMIT)

    def handle(self, events: list[Arrived | Cancelled]) -> None:
        for event in events:
            self.unexpected.append(event.incoming)
        self.match()

    def post(self, tag: int) -> None:
        self.posted.append(tag)
        self.match()
        self.write(1, NO_LIMIT)

    def match(self) -> None:
        for incoming in list(self.unexpected):
            if incoming.header.tag in self.posted:
                self.posted.remove(incoming.header.tag)
                self.unexpected.remove(incoming)
                place = bytearray(incoming.nbytes)
                self.received.append(
                    (incoming.header.tag, place, incoming.header.count)
                )
                self.machines[1].accept(incoming, memoryview(place))
