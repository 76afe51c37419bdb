"""A whole job in one process for engine tests: threads, socket pairs, a vendor in memory."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NoReturn

from impi.base.records import replaced
from impi.protocol.job import Host, Job, Proc
from impi.protocol.quirks import Quirks
from impi.protocol.semantics.values.blocks import SHORTEST
from impi.protocol.wire import addresses
from impi.rank.agent.router import Router
from impi.rank.agent.serve import run
from impi.rank.engine.engine import Engine
from impi.rank.vendors.base import Arrival, LocalCollectives, LocalComm, NativeComm


class _Pending:
    cancelled = False

    def __init__(self) -> None:
        self.done = False

    def test(self) -> bool:
        return self.done

    def cancel(self) -> None:
        pass


class _Later(_Pending):
    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def test(self) -> bool:
        self._looks -= 1
        return self._looks <= 0


class _Arrival:
    def __init__(
        self,
        source: int,
        tag: int,
        data: bytes,
        pending: _Pending,
        *,
        is_here: bool,
    ) -> None:
        self.source, self.tag, self.nbytes = source, tag, len(data)
        self.octets = memoryview(data) if is_here else None
        self._data, self._pending = data, pending

    def receive(self, buffer: memoryview) -> _Pending:
        buffer[: self.nbytes] = self._data
        self._pending.done = True
        return self._pending


class MemoryComm:
    """A native communicator whose queues are shared between the threads.

    ``library`` makes what the library's own mpi4py would be (see native_world); None: the vendor
    has none.
    """

    hands_over = False
    """Whether messages lie in this process when they have come, as those of pure procs."""
    collectives: LocalCollectives | None = None

    def __init__(
        self,
        queues: dict[tuple[int, int], deque[_Arrival]],
        members: Sequence[int],
        me: int,
        cid: int,
        library: Callable[[MemoryComm], Any] | None = None,
    ) -> None:
        self._queues, self._members, self._me, self.cid = queues, list(members), me, cid
        self.rank, self.size = self._members.index(me), len(members)
        self.library = library
        self.native: NativeComm | None = library(self) if library is not None else None
        self.messages = 0

    def isend(self, dest: int, tag: int, data: memoryview, *, sync: bool) -> _Pending:
        pending = _Pending()
        self._queues.setdefault((self._members[dest], self.cid), deque()).append(
            _Arrival(
                self.rank,
                tag,
                bytes(data),
                pending,
                is_here=self.hands_over and not sync,
            )
        )
        if not sync:
            done = _Pending()
            done.done = True
            return done
        return pending

    def improbe(self) -> _Arrival | None:
        queue = self._queues.get((self._me, self.cid))
        return queue.popleft() if queue else None

    def take(self, source: int, tag: int) -> _Arrival | None:
        """The oldest message of a source with a tag, or with any (-1)."""
        queue = self._queues.get((self._me, self.cid), deque())
        for arrival in tuple(queue):
            if arrival.source == source and tag in (arrival.tag, -1):
                queue.remove(arrival)
                return arrival
        return None

    def subset(self, ranks: Sequence[int], cid: int) -> MemoryComm:
        return MemoryComm(
            self._queues, [self._members[r] for r in ranks], self._me, cid, self.library
        )

    def duplicate(self, cid: int) -> tuple[MemoryComm, _Pending]:
        """Ready at the third look."""
        return MemoryComm(
            self._queues, self._members, self._me, cid, self.library
        ), _Later(3)

    def free(self) -> None:
        pass


class MemoryVendor:
    """A vendor for threads."""

    name = "memory"
    tag_ub = 2**31 - 1

    def __init__(
        self,
        queues: dict[tuple[int, int], deque[_Arrival]],
        members: Sequence[int],
        me: int,
    ) -> None:
        self.world: LocalComm = MemoryComm(queues, members, me, -1)
        self.messages = 0
        self.withdraw: Callable[[Arrival], bool] = lambda arrival: False

    def fileno(self) -> int | None:
        return None

    def progress(self) -> None:
        pass

    def allgather(self, data: bytes) -> list[bytes]:
        raise NotImplementedError

    def describe(self) -> dict[str, str]:
        return {}

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)

    def finalize(self) -> None:
        pass


def make_job(clients: Sequence[int], **facts: Any) -> Job:
    """A job of ``clients[i]`` procs under client i, every proc its own host."""
    procs: list[Proc] = []
    for client, n in enumerate(clients):
        for _ in range(n):
            rank = len(procs)
            address = addresses.from_text(f"127.0.{client}.1")
            procs.append(
                Proc(rank=rank, client=client, host=rank, ipv6=address, pid=1000 + rank)
            )
    hosts = tuple(
        Host(index=p.rank, client=p.client, ipv6=p.ipv6, port=1, procs=(p.rank,))
        for p in procs
    )
    known: dict[str, Any] = {
        "maxdatalen": 1024,
        "tag_ub": 2**30,
        "xsize": 1024,
        "maxlinear": 4,
        "ackmark": 2,
        "hiwater": 4,
    }
    known.update(facts)
    return Job(
        version=(0, 0), nclients=len(clients), hosts=hosts, procs=tuple(procs), **known
    )


def gather_hosts(job: Job, hosts: Sequence[Sequence[int]]) -> Job:
    """Return ``job`` with these ranks in each host; hosts ascend."""
    procs = [
        replaced(job.procs[rank], host=index)
        for index, ranks in enumerate(hosts)
        for rank in ranks
    ]
    return replaced(
        job,
        procs=tuple(procs),
        hosts=tuple(
            Host(
                index=index,
                client=procs[ranks[0]].client,
                ipv6=job.procs[ranks[0]].ipv6,
                port=1,
                procs=tuple(ranks),
            )
            for index, ranks in enumerate(hosts)
        ),
    )


def make_engines(
    job: Job,
    agents: Sequence[int] = (),
    ranks: Callable[[int], Sequence[int]] | None = None,
    quirks: Quirks = Quirks(),
    shortest: int = SHORTEST,
) -> tuple[list[Engine], list[threading.Thread]]:
    """One connected engine a proc, and a thread for each host process in ``agents``.

    ``ranks`` says in which order the vendor of a client has its procs.
    """
    sockets: list[dict[int, socket.socket]] = [{} for _ in job.procs]
    routers = {index: Router(job, index) for index in agents}
    to_procs: dict[int, dict[int, socket.socket]] = {index: {} for index in agents}
    to_hosts: dict[int, dict[int, socket.socket]] = {index: {} for index in agents}
    for index in agents:
        for rank in job.hosts[index].procs:
            sockets[rank][index], to_procs[index][rank] = _pair()
    for a, b in combinations(job.hosts, 2):
        if a.client != b.client:
            ends = [
                to_hosts[h.index] if h.index in routers else sockets[h.procs[0]]
                for h in (a, b)
            ]
            ends[0][b.index], ends[1][a.index] = _pair()
    threads = [
        threading.Thread(
            target=run, args=(router, to_procs[index], to_hosts[index]), daemon=True
        )
        for index, router in routers.items()
    ]
    queues: dict[tuple[int, int], deque[_Arrival]] = {}
    engines = []
    for p in job.procs:
        order = ranks(p.client) if ranks else job.client_procs(p.client)
        vendor = MemoryVendor(queues, order, p.rank)
        agent = p.host in routers
        engines.append(
            Engine(
                job,
                p.rank,
                vendor,
                sockets[p.rank],
                ranks=order,
                agent=agent,
                quirks=quirks,
                shortest=shortest,
            )
        )
    return engines, threads


def _pair() -> tuple[socket.socket, socket.socket]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    return left, right


def run_job(
    job: Job,
    program: Callable[[Engine], Any],
    *,
    timeout: float = 30.0,
    agents: Sequence[int] = (),
    ranks: Callable[[int], Sequence[int]] | None = None,
    quirks: Quirks = Quirks(),
    shortest: int = SHORTEST,
) -> list[Any]:
    """Run ``program`` on every proc, each in a thread, then shut down; results by rank."""
    engines, routing = make_engines(job, agents, ranks, quirks, shortest)
    results: list[Any] = [None] * len(engines)
    failures: list[BaseException] = []

    def proc(engine: Engine) -> None:
        try:
            results[engine.rank] = program(engine)
            engine.shutdown()
        except BaseException as error:
            failures.append(error)

    threads = [
        *(
            threading.Thread(target=proc, args=(engine,), daemon=True)
            for engine in engines
        ),
        *routing,
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    if failures:
        raise failures[0]
    hanging = [rank for rank, thread in enumerate(threads) if thread.is_alive()]
    assert not hanging, f"ranks {hanging} did not end within {timeout} s"
    return results
