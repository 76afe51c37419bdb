"""A job of the tester in memory: the client under test is what a test says that it sends.

Ranks 0 and 1 are under test (``I0``, ``I1``), 2 and 3 simulated (``S0``, ``S1``), a host for each
client. Whenever the tester waits, the next octets of :attr:`TesterWorld.coming` come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from impi.base.remote.supervised import Completed
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.job.encoding import Fields, ipv6, packet
from impi.lab.conform.job.interpreters import Interpreters
from impi.lab.conform.job.simulated_procs import (
    REPORT_TAG,
    SCRIPT_TAG,
    Path,
    SimulatedProcs,
)
from impi.lab.conform.job.tested_command import Tested
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.dissect import Layout, Packet, WireHost, WireProc, carried, unpack_packet

THEIRS, OURS = ipv6("10.0.0.1"), ipv6("10.0.0.2")
PIDS = {0: 100, 1: 101, 2: 200, 3: 201}


class _Wire:
    """A connection whose other side is a test."""

    def __init__(self) -> None:
        self.incoming, self.sent = bytearray(), bytearray()
        self.ended = self.closed = False
        self.pace = self.most = 0

    def send(self, octets: bytes) -> None:
        self.sent += octets

    def take(self, count: int) -> bytes:
        octets = bytes(self.incoming[:count])
        del self.incoming[:count]
        return octets

    def close(self) -> None:
        self.closed = True


class _Wiring:
    """Waits that take no time: something comes at each turn, until nothing more will."""

    def __init__(self, turn: Callable[[], bool]) -> None:
        self._turn = turn

    def forget(self, wire: Any) -> None:
        wire.close()

    def wait(self, ready: Callable[[], bool], _timeout_s: float) -> bool:
        while not ready():
            if not self._turn():
                return ready()
        return True

    def patience(self, _seconds: float) -> SimpleNamespace:
        return SimpleNamespace(ended=lambda: False, left=1.0)

    def close(self) -> None:
        pass


FakeWire: Any = _Wire
FakeWiring: Any = _Wiring
"""For mypy they stand for the tester's own."""


class TesterWorld:
    """One job, past its start-up."""

    __test__ = False

    def __init__(
        self, *, datalen: int = 16, ackmark: int = 2, hiwater: int = 4
    ) -> None:
        self.coming: deque[Callable[[], object]] = deque()
        self.wire, self.server = FakeWire(), FakeWire()
        self.wiring = FakeWiring(self._turn)
        setup = Configuration(
            clients=("IUT", "2"), datalen=datalen, ackmark=ackmark, hiwater=hiwater
        )
        hosts = (WireHost(0, 0, THEIRS, 5000, 2), WireHost(1, 1, OURS, 5001, 2))
        ends = ((0, 0, THEIRS), (0, 0, THEIRS), (1, 1, OURS), (1, 1, OURS))
        procs = tuple(WireProc(rank, *end, PIDS[rank]) for rank, end in enumerate(ends))
        self.job = TestedJob(Tested(command="x", patience_s=0.1), setup)
        self.job.wiring.close()
        self.job.wiring = self.wiring
        self.job.layout = Layout(2, hosts, procs)
        self.job.dialogue = SimpleNamespace(  # type: ignore[assignment]
            wire=self.server,
            value={"XSIZE": 1024, "MAXLINEAR": 4}.get,
            limit={"TAGUB": 2**31 - 1}.get,
        )
        self.ended: Completed | None = None
        self.job.process = SimpleNamespace(  # type: ignore[assignment]
            ended=lambda: self.ended,
            end=lambda: "",
            said=lambda: "words",
            await_end=lambda _s: self.ended,
        )
        limits = (datalen, ackmark, hiwater)
        self.procs = SimulatedProcs(self.wiring, self.job.layout, 0, limits, 0.1)
        self.job.procs = self.procs
        self.job.interpreters = Interpreters(
            self.procs, setup.control, self.job.process.end
        )
        self.procs.heard = self.job.interpreters.heard
        self.procs.links[1, 0].wire = self.wire

    def _turn(self) -> bool:
        if not self.coming:
            return False
        self.coming.popleft()()
        return True

    def path(self, ours: int, theirs: int) -> Path:
        return self.procs.paths[ours, theirs]

    def comes(self, octets: bytes) -> None:
        """Octets come on the channel at the next wait."""
        self.coming.append(lambda: self.wire.incoming.extend(octets))

    def says(
        self, kind: str, src: int, dest: int, data: bytes = b"", **fields: int
    ) -> None:
        """A packet of the client under test comes at the next wait."""
        ends = (
            {"src": (THEIRS, PIDS[src]), "dest": (OURS, PIDS[dest])}
            if kind != "FINI"
            else {}
        )
        values = (
            {"msglen": len(data), "lsrank": src, **fields}
            if kind in ("DATA", "DATASYNC")
            else fields
        )
        self.comes(packet(Fields(kind=kind, **ends, **values), data))  # type: ignore[arg-type]

    def reports(self, rank: int, text: str) -> None:
        """The interpreter of a rank reports."""
        self.says("DATA", rank, 3, text.encode(), tag=REPORT_TAG, srqid=9)

    def sent(self) -> list[Packet]:
        """Packets that the tester has sent since the last look."""
        octets, at, found = bytes(self.wire.sent), 0, []
        self.wire.sent.clear()
        while at < len(octets):
            found.append(unpack_packet(octets, at, times=(0.0, 0.0), hosts=(1, 0)))
            at += 128 + carried(octets, at)
        return found

    def told(self) -> list[tuple[int, str]]:
        """Return the commands to interpreters since the last look: rank and line."""
        ranks = {pid: rank for rank, pid in PIDS.items()}
        return [
            (ranks[p.dest[1]], p.payload.decode())
            for p in self.sent()
            if p.tag == SCRIPT_TAG
        ]
