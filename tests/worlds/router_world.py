"""Jobs in memory with agents before their procs: transfer machines, routers, bounded pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from impi.agent.router import Link, Router
from impi.job import Host, Job, Proc
from impi.transfer import Arrived, Incoming, Transfer
from impi.wire.packets import HEADER_SIZE, Header, PacketType, pack_header


def make_job(clients: list[list[int]], *, maxdatalen: int = 16, ackmark: int = 2, hiwater: int = 4) -> Job:
    """``clients`` says how many procs each host of each client has."""
    hosts: list[Host] = []
    procs: list[Proc] = []
    for client, sizes in enumerate(clients):
        for size in sizes:
            index = len(hosts)
            ipv6 = bytes(12) + bytes([10, 0, 0, index + 1])
            ranks = tuple(range(len(procs), len(procs) + size))
            procs += [Proc(rank=rank, client=client, host=index, ipv6=ipv6, pid=1000 + rank) for rank in ranks]
            hosts.append(Host(index=index, client=client, ipv6=ipv6, port=5000 + index, procs=ranks))
    limits: dict[str, Any] = {"maxdatalen": maxdatalen, "ackmark": ackmark, "hiwater": hiwater}
    return Job(
        version=(0, 0),
        nclients=len(clients),
        hosts=tuple(hosts),
        procs=tuple(procs),
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        **limits,
    )


def packet(job: Job, kind: int, source: int, dest: int, data: bytes = b"", **fields: Any) -> bytes:
    """A packet of ``source`` for ``dest``, as octets."""
    src, dst = job.procs[source], job.procs[dest]
    header = Header(kind, len(data), src.ipv6, src.pid, dst.ipv6, dst.pid, msglen=len(data))
    return pack_header(header._replace(**fields)) + data


FINI = pack_header(Header(int(PacketType.FINI)))


def feed(router: Router, link: Link, octets: bytes, chunk: int = 1 << 30) -> set[Link]:
    """Let ``router`` read ``octets``, as much a turn as it takes and ``chunk`` says."""
    touched: set[Link] = set()
    at = 0
    while at < len(octets):
        room = link.cutter.buffer()
        assert len(room) > 0
        nbytes = min(len(room), len(octets) - at, chunk)
        room[:nbytes] = octets[at : at + nbytes]
        at += nbytes
        touched |= router.received(link, nbytes)
    return touched


def drain(link: Link, limit: int = 1 << 30) -> bytes:
    """What goes out over ``link`` now, up to ``limit`` octets."""
    out = bytearray()
    while len(out) < limit and (views := link.views()):
        assert len(views) <= 64
        piece = b"".join(views)[: limit - len(out)]
        link.sent(len(piece))
        out += piece
    return bytes(out)


class Side:
    """A proc, which matches every message at once."""

    def __init__(self, job: Job, rank: int, *, agent: bool) -> None:
        self.machine = Transfer(job, rank, agent=agent)
        self.rank = rank
        self.got: dict[int, list[tuple[Incoming, bytearray]]] = {}

    def send(self, dest: int, data: bytes, *, synchronous: bool = False) -> Any:
        return self.machine.send(
            dest, cid=0, tag=0, lsrank=self.rank, views=[memoryview(data)], synchronous=synchronous
        )

    def read(self, key: int, octets: bytes) -> None:
        at = 0
        while at < len(octets):
            room = self.machine.get_buffer(key)
            nbytes = min(len(room), len(octets) - at)
            room[:nbytes] = octets[at : at + nbytes]
            at += nbytes
            for event in self.machine.received(key, nbytes):
                assert isinstance(event, Arrived)
                place = bytearray(event.incoming.nbytes)
                self.got.setdefault(event.incoming.source, []).append((event.incoming, place))
                self.machine.accept(event.incoming, memoryview(place))

    def write(self, key: int, limit: int) -> bytes:
        out = bytearray()
        while self.machine.wants_write(key) and len(out) < limit:
            piece = b"".join(self.machine.data_to_send(key))[: limit - len(out)]
            self.machine.sent(key, len(piece))
            out += piece
        return bytes(out)


Take = Callable[[int], bytes]
Give = Callable[[bytes], object]


class Pipe:
    """One direction of a connection: holds at most ``capacity`` octets, as TCP does."""

    def __init__(self, take: Take, give: Give, capacity: int) -> None:
        self._take, self._give, self.capacity = take, give, capacity
        self.held = bytearray()
        self.carried = bytearray()

    def write(self, limit: int = 1 << 30) -> int:
        room = min(limit, self.capacity - len(self.held))
        octets = self._take(room) if room > 0 else b""
        self.held += octets
        self.carried += octets
        return len(octets)

    def read(self, limit: int = 1 << 30) -> int:
        octets = bytes(self.held[:limit])
        del self.held[:limit]
        if octets:
            self._give(octets)
        return len(octets)


class World:
    """All procs of ``job``; hosts outside of ``agents`` have one proc that is its own host."""

    def __init__(self, job: Job, agents: Iterable[int], capacity: int = 1 << 30) -> None:
        self.job = job
        self.routers = {index: Router(job, index) for index in agents}
        self.sides = [Side(job, proc.rank, agent=proc.host in self.routers) for proc in job.procs]
        self.pipes: dict[tuple[str, str], Pipe] = {}
        """By the names of both ends: ``rank 3`` or ``host 1``."""
        for index, router in self.routers.items():
            for rank, link in router.procs.items():
                self._connect(
                    f"rank {rank}", self._of_side(rank, index), f"host {index}", _of_link(router, link), capacity
                )
        for low in job.hosts:
            for high in job.hosts[low.index + 1 :]:
                if low.client != high.client:
                    ends = self._of_host(low.index, high.index), self._of_host(high.index, low.index)
                    self._connect(f"host {low.index}", ends[0], f"host {high.index}", ends[1], capacity)

    def _of_side(self, rank: int, key: int) -> tuple[Take, Give]:
        side = self.sides[rank]
        return (lambda limit: side.write(key, limit)), (lambda octets: side.read(key, octets))

    def _of_host(self, host: int, other: int) -> tuple[Take, Give]:
        if host in self.routers:
            return _of_link(self.routers[host], self.routers[host].hosts[other])
        [rank] = self.job.hosts[host].procs
        return self._of_side(rank, other)

    def _connect(self, one: str, ends: tuple[Take, Give], other: str, ends2: tuple[Take, Give], capacity: int) -> None:
        self.pipes[one, other] = Pipe(ends[0], ends2[1], capacity)
        self.pipes[other, one] = Pipe(ends2[0], ends[1], capacity)

    def settle(self) -> None:
        """Carry until nothing moves, looking at the bound of every router meanwhile."""
        while sum(pipe.write() + pipe.read() for pipe in self.pipes.values()):
            self.check_bound()

    def check_bound(self) -> None:
        """Nothing waits that IMPI 3.6 does not allow to be under way."""
        job = self.job
        size = HEADER_SIZE + job.maxdatalen
        for router in self.routers.values():
            for link in (*router.procs.values(), *router.hosts.values()):
                pairs = len(link.near) * len(link.far)
                most = pairs * (job.hiwater * size + job.hiwater // job.ackmark * HEADER_SIZE) + HEADER_SIZE
                assert link.waiting <= most, f"{link.waiting} octets wait for {link.name}, {most} may"

    def finish(self) -> None:
        """IMPI 3.8, everywhere."""
        for side in self.sides:
            side.machine.finish()
        self.settle()
        assert all(side.machine.finished for side in self.sides)
        for router in self.routers.values():
            assert all(link.closed for link in (*router.procs.values(), *router.hosts.values()))
            assert not router.finished  # until the procs have closed their connections
            for link in router.procs.values():
                router.eof(link)
            assert router.finished


def _of_link(router: Router, link: Link) -> tuple[Take, Give]:
    return (lambda limit: drain(link, limit)), (lambda octets: feed(router, link, octets))
