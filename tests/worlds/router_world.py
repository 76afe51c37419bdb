"""Jobs in memory with agents before their procs: transfer machines, routers, bounded links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from transfer_world import NO_LIMIT, Link, Proc

from impi.protocol.job import Job
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, pack_header
from impi.rank.agent.router import Link as RouterLink
from impi.rank.agent.router import Router


def packet(
    job: Job, kind: int, source: int, dest: int, data: bytes = b"", **fields: Any
) -> bytes:
    """A packet of ``source`` for ``dest``, as octets."""
    src, dst = job.procs[source], job.procs[dest]
    header = Header(
        kind, len(data), src.ipv6, src.pid, dst.ipv6, dst.pid, msglen=len(data)
    )
    return pack_header(header._replace(**fields)) + data


FINI = pack_header(Header(int(PacketType.FINI)))


def feed(
    router: Router, link: RouterLink, octets: bytes, chunk: int = NO_LIMIT
) -> set[RouterLink]:
    """Let ``router`` read ``octets``, as much a turn as it takes and ``chunk`` says."""
    touched: set[RouterLink] = set()
    at = 0
    while at < len(octets):
        room = link.cutter.buffer()
        assert len(room) > 0
        nbytes = min(len(room), len(octets) - at, chunk)
        room[:nbytes] = octets[at : at + nbytes]
        at += nbytes
        touched |= router.received(link, nbytes)
    return touched


def drain(link: RouterLink, limit: int = NO_LIMIT) -> bytes:
    """Return the octets that leave over ``link`` now, up to ``limit`` octets."""
    out = bytearray()
    while len(out) < limit and (views := link.views()):
        assert len(views) <= 64
        piece = b"".join(views)[: limit - len(out)]
        link.sent(len(piece))
        out += piece
    return bytes(out)


Take = Callable[[int], bytes]
Give = Callable[[bytes], object]


class World:
    """All procs of ``job``; hosts outside of ``agents`` have one proc that is its own host."""

    def __init__(
        self, job: Job, agents: Iterable[int], capacity: int = NO_LIMIT
    ) -> None:
        self.job = job
        self.routers = {index: Router(job, index) for index in agents}
        self.procs = [
            Proc(job, proc.rank, agent=proc.host in self.routers) for proc in job.procs
        ]
        self.links: dict[tuple[str, str], Link] = {}
        """By the names of source and destination: ``rank 3`` or ``host 1``."""
        self._ends: dict[tuple[str, str], tuple[Take, Give]] = {}
        for index, router in self.routers.items():
            for rank, link in router.procs.items():
                self._connect(
                    f"rank {rank}",
                    self._of_proc(rank, index),
                    f"host {index}",
                    _of_link(router, link),
                    capacity,
                )
        for low in job.hosts:
            for high in job.hosts[low.index + 1 :]:
                if low.client != high.client:
                    ends = (
                        self._of_host(low.index, high.index),
                        self._of_host(high.index, low.index),
                    )
                    self._connect(
                        f"host {low.index}",
                        ends[0],
                        f"host {high.index}",
                        ends[1],
                        capacity,
                    )

    def _of_proc(self, rank: int, key: int) -> tuple[Take, Give]:
        proc = self.procs[rank]
        return (lambda limit: proc.write(key, limit)), (
            lambda octets: proc.read(key, octets)
        )

    def _of_host(self, host: int, other: int) -> tuple[Take, Give]:
        if host in self.routers:
            return _of_link(self.routers[host], self.routers[host].hosts[other])
        [rank] = self.job.hosts[host].procs
        return self._of_proc(rank, other)

    def _connect(
        self,
        one: str,
        ends: tuple[Take, Give],
        other: str,
        ends2: tuple[Take, Give],
        capacity: int,
    ) -> None:
        self.links[one, other], self.links[other, one] = Link(capacity), Link(capacity)
        self._ends[one, other], self._ends[other, one] = (
            (ends[0], ends2[1]),
            (ends2[0], ends[1]),
        )

    def write(self, source: str, dest: str, limit: int = NO_LIMIT) -> int:
        link = self.links[source, dest]
        room = min(limit, link.room)
        octets = self._ends[source, dest][0](room) if room > 0 else b""
        link.put(octets)
        return len(octets)

    def read(self, source: str, dest: str, limit: int = NO_LIMIT) -> int:
        octets = self.links[source, dest].take(limit)
        if octets:
            self._ends[source, dest][1](octets)
        return len(octets)

    def run(self) -> None:
        """Carry until nothing moves, looking at the bound of every router meanwhile."""
        while sum(self.write(*way) + self.read(*way) for way in self.links):
            self.check_bound()

    def check_bound(self) -> None:
        """Nothing waits that IMPI 3.6 does not allow to be under way."""
        job = self.job
        size = HEADER_SIZE + job.maxdatalen
        for router in self.routers.values():
            for link in (*router.procs.values(), *router.hosts.values()):
                pairs = len(link.near) * len(link.far)
                most = (
                    pairs
                    * (job.hiwater * size + job.hiwater // job.ackmark * HEADER_SIZE)
                    + HEADER_SIZE
                )
                assert link.waiting <= most, (
                    f"{link.waiting} octets wait for {link.name}, {most} may"
                )

    def finish(self) -> None:
        """IMPI 3.8, everywhere."""
        for proc in self.procs:
            proc.machine.finish()
        self.run()
        assert all(proc.machine.finished for proc in self.procs)
        for router in self.routers.values():
            assert all(
                link.closed for link in (*router.procs.values(), *router.hosts.values())
            )
            assert not router.finished  # until the procs have closed their connections
            for link in router.procs.values():
                router.eof(link)
            assert router.finished


def _of_link(router: Router, link: RouterLink) -> tuple[Take, Give]:
    return (lambda limit: drain(link, limit)), (
        lambda octets: feed(router, link, octets)
    )
