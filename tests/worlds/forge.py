"""A made-up job as a lab would see it: reports, wait statuses, complete captures.

Tests change one thing about it and look at what the verdict makes of that.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pcapmaker import PcapMaker

from impi.base.errors import LabError, UsageError
from impi.base.manifests import manifest
from impi.base.remote.supervised import Completed
from impi.lab.cases import CASES, Crossing
from impi.lab.cases.case import LABELLED
from impi.lab.cases.own import OwnProgram
from impi.lab.cases.own_program import case_of
from impi.lab.evidence.witness_reports import planned_sources
from impi.lab.nodes.interface import (
    Access,
    Build,
    Capture,
    Finding,
    Inventory,
    LabSeen,
    Node,
    NodeAccess,
    RunningCommand,
    Stacks,
    Terms,
)
from impi.lab.nodes.links import (
    CutSeen,
    Direction,
    LinkSeen,
    LinkSettings,
    Network,
    NetworkSeen,
    RouteSeen,
)
from impi.lab.nodes.parties import node_names
from impi.lab.nodes.roster import PlannedRank, Roster
from impi.lab.nodes.topology import Topology, parse_topology
from impi.lab.plan.variant import parse_variant

DATALEN = 262144
KEY, CHALLENGE = 1, 31
PROOFS = {KEY: 8, CHALLENGE: 64}
"""Octets that a client sends after the server's choice of a method."""
SERVER = ("10.9.0.250", 4000)
HEADER = struct.Struct(">II16sq16sqQQQiiQQqQQ")
LIBRARY = {"mpich": "aa" * 32, "openmpi": "bb" * 32, "lam": "cc" * 32}


@dataclass
class Job:
    """All that can be seen of one job; change it before it is looked at."""

    name: str
    roster: Roster
    nonce: str
    key: int
    """The method of authentication."""
    node_nonces: dict[str, str]
    init: dict[int, dict] = field(default_factory=dict)
    done: dict[int, dict] = field(default_factory=dict)
    identity: dict[int, dict] = field(default_factory=dict)
    listeners: list[str] = field(default_factory=list)
    wraps: dict[int, dict] = field(default_factory=dict)
    clients: list[Completed] = field(default_factory=list)
    server: Completed | None = None
    messages: list[Crossing] = field(default_factory=list)
    meetings: list[Crossing] = field(default_factory=list)
    """To and from procs of another job, on the node of rank 0."""
    startup_said: dict[int, list[str]] = field(default_factory=dict)
    losses: dict[int, list[int]] = field(default_factory=dict)
    """By client, of whose losses the server tells it."""
    no_fini: set[tuple[int, int]] = field(default_factory=set)
    unanswered: set[tuple[int, int]] = field(default_factory=set)
    no_channel: set[tuple[int, int]] = field(default_factory=set)
    extra: dict[tuple[int, int], bytes] = field(default_factory=dict)
    methods: dict[int, int] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    link: dict[str, float] = field(default_factory=dict)
    """The links that counted other packets than asked for."""
    lost_frames: dict[str, int] = field(default_factory=dict)
    no_canary: set[str] = field(default_factory=set)
    hangs: set[str] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    """Clients that do not join; of a remote party nothing else tells."""
    stacks: dict[int, list[str]] = field(default_factory=dict)
    calls: dict[int, list[dict]] = field(default_factory=dict)
    ackmark: int = 1000  # beyond what any case sends: nobody owes a PROTOACK
    hiwater: int = 2000
    # Processor time of ranks that could run, at the look
    processor_s: dict[int, float] = field(default_factory=dict)
    waited_s: dict[int, float] = field(default_factory=dict)
    output: bytes | None = None  # the file that a program of the user's own writes
    slow_start: int = 0  # how often the lab looks before the ranks have initialised MPI

    @classmethod
    def good(cls, identifier: str, nonce: str, node_nonces: dict[str, str]) -> Job:
        name, parties, topology, *variant = identifier.split("/")
        roster = Roster.of(parse_topology(topology), parties.split("+"))
        case = CASES.get(name) or case_of(
            OwnProgram(name=f"{name.removeprefix('program.')}.py", octets=b"")
        )
        keyed = (
            KEY
            if {"auth=key", "auth=both"} & set(variant)
            else CHALLENGE
            if "auth=challenge" in variant
            else 0
        )
        job = cls(name, roster, nonce, keyed, node_nonces)
        ends = case.ends(roster)

        def above(p: PlannedRank) -> list[str]:
            """The launcher of a library, unless impirun is the process manager."""
            chosen = case.launcher(parse_variant("".join(variant))) == "auto"
            nodes = {roster.ranks[r].node for r in roster.of_client(p.client)}
            managed = (
                chosen and manifest(p.vendor).library.launcher == "hydra"
                if p.vendor != "remote"
                else False
            )
            return (
                [] if managed and len(nodes) == 1 else [f"/opt/{p.vendor}/bin/mpiexec"]
            )

        for p in roster.ranks:
            pid = job.pids[p.rank] = 100 + p.rank
            np = len(roster.of_client(p.client))
            local = {"vendor": p.vendor, "size": np, "messages": 2}
            common = {
                "pid": pid,
                "rank": p.rank,
                "size": roster.size,
                "nonce": nonce,
                "local": local,
            }
            job.init[p.rank] = {
                **common,
                "node_nonce": node_nonces.get(p.node, "elsewhere"),
            }
            job.done[p.rank] = {
                **job.init[p.rank],
                "performed": case.checks_of(roster, p.rank),
                "failures": [],
            }
            libraries = (
                {}
                if p.vendor in ("pure", "remote")
                else {f"/opt/{p.vendor}/lib/libmpi.so": LIBRARY[p.vendor]}
            )
            sources = {"impi.MPI": planned_sources()["impi.MPI"]}
            job.identity[p.rank] = {
                "pid": pid,
                "libraries": libraries,
                "sources": sources,
                "shared": [f"00:1/{p.client} /dev/shm/{p.vendor}_{p.node}"],
                "ancestors": ["/usr/bin/python3", *above(p)],
                "listens": [f"{job.address(p.rank)}:{5000 + p.rank}"],
            }
            job.wraps[p.rank] = {
                "pid": pid,
                "status": ends.statuses.get(p.rank, 0),
                "ended": 50.0 + p.rank,
            }
        for client in range(roster.nclients):
            bad = client == ends.failing_client
            code = (
                (ends.codes or (3,))[0]
                if bad
                else 137
                if client == ends.lost
                else int(ends.abrupt)
            )
            said = "".join(
                f"[{client}:{number}] {nonce} {rank}\n"
                for number, rank in enumerate(roster.of_client(client))
                if LABELLED in case.launch.options
            )
            job.clients.append(
                Completed(argv=(), code=code, stdout=said.encode(), stderr=b"")
            )
            job.startup_said[client] = (
                ["DONE"]
                if bad or ends.abrupt or client == ends.lost
                else ["DONE", "FINI"]
            )
            native = roster.ranks[roster.of_client(client)[0]].vendor == "lam"
            job.methods[client] = 0 if native and job.key == CHALLENGE else job.key
        text = (
            b""
            if ends.failing_client is None
            else f"Error: client {ends.failing_client} was lost\n".encode()
        )
        job.server = Completed(argv=(), code=1 if text else 0, stdout=b"", stderr=text)
        if ends.lost is not None:
            job.lose(ends.lost)
        for crossing in case.demands(roster, nonce):
            # LAM sends native data, and ours beside it
            native = "form=native" in identifier or "lam" in parties
            sent = replace(crossing, payload=crossing.form) if native else crossing
            job.messages += [sent] * crossing.count
        job.meetings = [*case.meetings(roster, nonce)]
        if ends.refused is not None and ends.abrupt:
            job.cannot_begin(ends.codes[0], ends.why)
        elif ends.refused is not None:
            job.refuse(ends.refused, ends.why)
        return job

    def cannot_begin(self, code: int, why: str) -> None:
        """Nothing begins: all commands end with that code, and say why."""
        ended = Completed(argv=(), code=code, stdout=b"", stderr=why.encode())
        self.server, self.clients = ended, [ended] * self.roster.nclients
        self.startup_said = {c: [] for c in range(self.roster.nclients)}
        self.messages = []

    def refuse(self, refused: int, why: str) -> None:
        """Nothing begins: one client is cut off, and all others wait for it."""
        said = b"impirun: Server disconnected (wrong authentication key?)\n"
        self.clients[refused] = Completed(argv=(), code=1, stdout=b"", stderr=said)
        self.hangs |= {
            f"client {c}" for c in range(self.roster.nclients) if c != refused
        }
        self.startup_said = {c: [] for c in range(self.roster.nclients)}
        self.messages = []
        self.server = Completed(
            argv=(),
            code=0,
            stdout=b"",
            stderr=f"impirun: closed a connection: {why}\n".encode(),
        )

    def lose(self, lost: int) -> None:
        """A client is lost in mid-job, and the others are told."""
        said = f"impirun: client {lost} (10.9.{lost + 1}.1:1): it was lost; the job goes on without\n"
        self.server = Completed(argv=(), code=0, stdout=b"", stderr=said.encode())
        ranks = self.roster.of_client(lost)
        for rank in ranks:
            self.wraps[rank]["status"] = -9
            self.no_fini |= {
                pair
                for other in range(self.roster.size)
                for pair in ((rank, other), (other, rank))
            }
        self.losses = {c: [lost] for c in range(self.roster.nclients) if c != lost}

    # -- what the witnesses print

    def witness(self, node: str) -> bytes:
        ranks = self.roster.on_node(node)
        files = {}
        for rank in ranks:
            pid = self.pids_of[rank]
            for kind, table in (
                ("init", self.init),
                ("done", self.done),
                ("wrap", self.wraps),
            ):
                if rank in table:
                    files[f"{kind}-{pid}"] = table[rank]
        identity = [self.identity[r] for r in ranks if r in self.identity]
        lines = [
            {"kind": "identity", "value": identity},
            {"kind": "files", "value": files},
        ]
        lines.append({"kind": "listeners", "value": self.listeners})
        calls = {
            str(self.pids_of[r]): "\n".join(map(json.dumps, self.calls.get(r, ())))
            for r in ranks
        }
        lines.append({"kind": "calls", "value": calls})
        stacks = {
            f"stack-{self.pids_of[r]}": frames
            for r, frames in self.stacks.items()
            if r in ranks
        }
        lines.append({"kind": "stacks", "value": stacks})
        return "\n".join(json.dumps(line) for line in lines).encode()

    def look(self, node: str) -> bytes:
        there = [
            r
            for r in self.roster.on_node(node)
            if self.wraps.get(r, {}).get("status") is None
        ]
        states = {
            str(self.pids_of[r]): {"state": "S (sleeping)", "initialised": True}
            for r in there
        }
        for rank, seconds in self.processor_s.items():
            if rank in there:
                states[str(self.pids_of[rank])] = {
                    "state": "R (running)",
                    "initialised": True,
                    "cpu_s": seconds,
                }
            if rank in there and rank in self.waited_s:
                states[str(self.pids_of[rank])]["waited_s"] = self.waited_s[rank]
        return json.dumps({"at": 2e9, "ranks": states, "sockets": []}).encode()

    @property
    def pids_of(self) -> dict[int, int]:
        return {p.rank: 100 + p.rank for p in self.roster.ranks}

    # -- what the captures hold

    def address(self, rank: int) -> str:
        client, _, node = (
            self.roster.ranks[rank if rank < self.roster.size else 0]
            .node.removeprefix("c")
            .partition("n")
        )
        return f"10.9.{int(client) + 1}.{int(node) + 1}"

    def ipv6(self, rank: int) -> bytes:
        return bytes(12) + ipaddress.ip_address(self.address(rank)).packed

    def captures(self) -> list[Capture]:
        makers = {node: PcapMaker() for node in ["server", *self.node_nonces]}
        first, last = b"canary one", b"canary two"
        for node, maker in makers.items():
            if node not in self.no_canary:
                maker.udp("10.9.0.1", "10.9.0.2", first)
        for client in range(self.roster.nclients):
            rank = self.roster.of_client(client)[0]
            forth, back = self._startup(client)
            for node in {"server", self.roster.ranks[rank].node} & makers.keys():
                opener = (self.address(rank), 6000 + client)
                makers[node].connection(
                    opener,
                    SERVER,
                    forth,
                    back,
                    close="FINI" in self.startup_said[client],
                )
        for low in range(self.roster.size):
            for high in range(low + 1, self.roster.size):
                if self.roster.remote(low, high) and (low, high) not in self.no_channel:
                    said = self._channel(high, low)
                    ends = (
                        (self.address(high), 7000 + 100 * high + low),
                        (self.address(low), 5000 + low),
                    )
                    for node in {
                        self.roster.ranks[r].node for r in (low, high)
                    } & makers.keys():
                        makers[node].dialogue(*ends, said, mss=60000)
        for child, parent in sorted(
            {(max(m.src, m.dest), min(m.src, m.dest)) for m in self.meetings}
        ):
            ends = (
                (self.address(child), 8000 + 100 * child + parent),
                (self.address(parent), 5500 + 10 * child + parent),
            )
            said = [(True, struct.pack(">i", child))]
            for m in (m for m in self.meetings if {m.src, m.dest} == {child, parent}):
                said.append((m.src == child, self._message(m, m.tag)[0]))
            for node in {
                self.roster.ranks[r].node for r in (0, parent)
            } & makers.keys():
                makers[node].dialogue(*ends, said, mss=60000)
        found = []
        for node, maker in makers.items():
            if node in self.lost_frames:
                del maker.frames[self.lost_frames[node]]
            maker.udp("10.9.0.1", "10.9.0.2", last)
            dropped = self.dropped.get(node, 0)
            found.append(
                Capture(
                    node=node,
                    pcap=maker.bytes(),
                    dropped=dropped,
                    canaries=(first, last),
                )
            )
        return found

    def _startup(self, client: int) -> tuple[bytes, bytes]:
        method = self.methods[client]
        forth = struct.pack(">4siI", b"AUTH", 4, 1 << method) + bytes(
            PROOFS.get(method, 0)
        )
        # impi's challenge has a nonce of 32 octets in the answer, and the server's proof in PROV.
        nonce, proof = (
            (bytes(32), struct.pack(">4si", b"PROV", 64) + bytes(64))
            if method == CHALLENGE
            else (b"", b"")
        )
        back = struct.pack(">ii", method, len(nonce)) + nonce + proof
        back += struct.pack(">4sii", b"IMPI", 4, self.roster.nclients)
        forth += struct.pack(">4sii", b"IMPI", 4, client)
        for label, values in self._labels().items():
            mine, everybody = values[client], b"".join(values)
            forth += struct.pack(">4siI", b"COLL", 4 + len(mine), label) + mine
            mask = (1 << self.roster.nclients) - 1
            back += (
                struct.pack(">4siII", b"COLL", 8 + len(everybody), label, mask)
                + everybody
            )
        for word in self.startup_said[client]:
            forth += struct.pack(">4si", word.encode(), 0)
            back += struct.pack(">4si", b"DONE", 0) if word == "DONE" else b""
        for lost in self.losses.get(client, ()):
            back += struct.pack(">4siii", b"LOSS", 16, lost, 0) + b"was lost"
        return forth, back

    def _labels(self) -> dict[int, list[bytes]]:
        ranks = [self.roster.of_client(c) for c in range(self.roster.nclients)]

        def per_client(value: bytes) -> list[bytes]:
            return [value for _ in ranks]

        def per_rank(value: Callable[[int], bytes]) -> list[bytes]:
            return [b"".join(value(r) for r in rs) for rs in ranks]

        number = struct.Struct(">i").pack
        return {
            0x1000: per_client(bytes(8)),
            0x1100: [number(len(rs)) for rs in ranks],
            0x1200: [number(len(rs)) for rs in ranks],
            0x1300: per_client(number(DATALEN)),
            0x1400: per_client(number(2**31 - 1)),
            0x1500: per_client(number(-1)),
            0x1600: per_client(number(-1)),
            0x2000: per_rank(self.ipv6),
            0x2100: per_rank(lambda r: number(5000 + r)),
            0x2200: per_rank(lambda _r: number(1)),
            0x2300: per_rank(lambda _r: number(self.ackmark)),
            0x2400: per_rank(lambda _r: number(self.hiwater)),
            0x3000: per_rank(self.ipv6),
            0x3100: per_rank(lambda r: struct.pack(">q", self.pids[r])),
        }

    def _channel(self, high: int, low: int) -> list[tuple[bool, bytes]]:
        """Return the octets of both, and whether the higher one sends first."""
        said = [(True, struct.pack(">i", high))]
        for i, m in enumerate(self.messages):
            if (m.src, m.dest) in ((high, low), (low, high)):
                forth = m.src == high
                first, *rest = self._message(m, i + 1)
                said.append((forth, first))
                if m.cancelled:
                    said.append(
                        (forth, self._packet(4, 0, m.src, m.dest, i + 1, 0, 0, 0, 0))
                    )
                    said.append(
                        (
                            not forth,
                            self._packet(5, 0, m.dest, m.src, i + 1, 0, 0, 0, 0),
                        )
                    )
                    continue
                if m.sync and (m.src, m.dest) not in self.unanswered:
                    said.append(
                        (
                            not forth,
                            self._packet(
                                3, 0, m.dest, m.src, i + 1, 0, 0, 0, 0, drqid=i + 1
                            ),
                        )
                    )
                said += [(forth, piece) for piece in rest]
        for src, dest in ((high, low), (low, high)):
            said.append((src == high, self.extra.get((src, dest), b"")))
        for src, dest in ((high, low), (low, high)):
            if (src, dest) not in self.no_fini:
                said.append((src == high, self._packet(7, 0, src, dest, 0, 0, 0, 0, 0)))
        return said

    def _message(self, m: Crossing, srqid: int) -> list[bytes]:
        data = (
            m.payload
            if m.payload is not None
            else (m.contains or b"").ljust(m.nbytes or 0, b"\0")
        )
        ends, size = (m.src, m.dest, srqid), len(data)
        first, kind = data[:DATALEN], 1 if m.sync or size > DATALEN else 0
        lsrank = m.src if m.header.lsrank is None else m.header.lsrank
        told = {"lsrank": lsrank, "count": m.header.elements or 0}
        out = [
            self._packet(kind, len(first), *ends, size, m.tag, m.cid, **told) + first
        ]
        for at in range(DATALEN, size, DATALEN):
            piece = data[at : at + DATALEN]
            out.append(
                self._packet(
                    0, len(piece), *ends, size, m.tag, m.cid, **told, drqid=srqid
                )
                + piece
            )
        return out

    def packet(self, kind: int, src: int, dest: int, *, srqid: int = 0) -> bytes:
        """A packet of its own, for ``extra``."""
        return self._packet(kind, 0, src, dest, srqid, 0, 0, 0, 0)

    def _packet(
        self, kind, length, src, dest, srqid, msglen, tag, cid, lsrank, drqid=0, count=0
    ) -> bytes:
        a, b = (
            (self.ipv6(rank), self.pids.get(rank, 900 + rank)) for rank in (src, dest)
        )
        return HEADER.pack(
            kind, length, *a, *b, srqid, drqid, msglen, lsrank, tag, cid, 0, count, 0, 0
        )


Tweak = Callable[[Job], None]


def quiet_captures(nodes: Iterable[str]) -> list[Capture]:
    """Return the packets in a capture without events: the canaries."""
    first, last = b"canary one", b"canary two"
    found = []
    for node in nodes:
        maker = PcapMaker()
        maker.udp("10.9.0.1", "10.9.0.2", first)
        maker.udp("10.9.0.1", "10.9.0.2", last)
        found.append(
            Capture(node=node, pcap=maker.bytes(), dropped=0, canaries=(first, last))
        )
    return found


class FakeCommand:
    pid = 7

    def __init__(self, done: Completed, *, hangs: bool = False) -> None:
        self._done, self._hangs = done, hangs

    def poll(self) -> Completed | None:
        return None if self._hangs else self._done

    def wait(self, timeout_s: float) -> Completed:
        self._hangs = False  # its deadline ends it
        return self._done

    def stdout(self) -> bytes:
        return self._done.stdout

    def stderr(self) -> bytes:
        return self._done.stderr

    def stop(self) -> Completed:
        self._hangs = False
        return self._done


class FakeWitness(FakeCommand):
    """Says nothing until it has been looked at a number of times."""

    def __init__(self, job: Job, done: Completed) -> None:
        super().__init__(done)
        self._job = job

    def poll(self) -> Completed | None:
        return None if self._job.slow_start > 0 else super().poll()

    def stdout(self) -> bytes:
        self._job.slow_start -= 1
        return b"" if self._job.slow_start > 0 else super().stdout()


class FakeClient(FakeCommand):
    """Is over only once its ranks have started."""

    def __init__(
        self, job: Job, done: Completed, *, hangs: bool, log: list[str]
    ) -> None:
        super().__init__(done, hangs=hangs)
        self._job, self._log = job, log

    def poll(self) -> Completed | None:
        return None if self._job.slow_start > 0 else super().poll()

    def stop(self) -> Completed:
        self._log.append("stop client")
        return super().stop()


class FakeServer:
    """Knows its end only once the cell's plan has been written."""

    pid = 7

    def __init__(self, lab: FakeLab) -> None:
        self._lab = lab

    def _done(self) -> Completed:
        job = self._lab.job
        assert job is not None
        assert job.server is not None
        return replace(job.server, stdout=job.server.stdout or b"10.9.0.250:4000\n")

    def poll(self) -> Completed | None:
        job = self._lab.job
        return (
            None
            if job is None or job.slow_start > 0 or "server" in job.hangs
            else self._done()
        )

    def wait(self, timeout_s: float) -> Completed:
        return self._done()

    def stdout(self) -> bytes:
        return self._done().stdout

    def stderr(self) -> bytes:
        job = self._lab.job
        there = (
            [
                (c, job.clients[c])
                for c in range(job.roster.nclients)
                if c not in job.absent
            ]
            if job
            else []
        )
        said = [f"client {c} has joined from 10.9.{c + 1}.1\n" for c, _ in there]
        said += [f"client {c} has finished\n" for c, done in there if done.code == 0]
        return "".join(said).encode() + self._done().stderr

    def stop(self) -> Completed:
        return self._done()


class FakeNode:
    def __init__(self, lab: FakeLab, name: str, address: str) -> None:
        self.lab = lab
        self.name: str = name
        self.address: str = address
        self._files: dict[str, bytes] = {}

    def start(self, argv, *, env=None, warm=False) -> RunningCommand:
        return self.lab.start(self, list(argv))

    def read(self, path: str) -> bytes | None:
        if "/work/" in path and self.lab.job is not None:
            return self.lab.job.output
        return self._files.get(self._absolute(path))

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._files[self._absolute(path)] = data
        self.lab.written(self, path, data)

    def _absolute(self, path: str) -> str:
        return str(Path(self.lab.access.nodes[self.name].home, path))


class FakeNetwork:
    """Implements :class:`impi.lab.nodes.links.Network`: what is asked for happens."""

    def __init__(self, lab: FakeLab) -> None:
        self._lab = lab
        self._links: dict[Direction, LinkSettings] = {}
        self._cuts: list[CutSeen] = []
        self._routes: list[RouteSeen] = []
        self._second: tuple[str, ...] = ()
        self._frozen: set[str] = set()

    def set_links(self, links) -> None:
        self._lab.backend.log.append("links")
        self._links.update(links)

    def prepare(self, nodes) -> None:
        self._lab.backend.log.append(f"prepare {len(nodes)}")

    def cut(self, directions, how: str) -> None:
        self._lab.backend.log.append(how)
        refused = self._lab.backend.refused
        self._cuts += [
            CutSeen(source=a, target=b, how=how, refused=refused) for a, b in directions
        ]

    def add_second(self, nodes, known_to=()) -> None:
        self._lab.backend.log.append("second")
        self._second = tuple(nodes)

    def route(self, via, behind, translated) -> None:
        self._lab.backend.log.append("route")
        self._routes += [
            RouteSeen(
                node=node, gateway=gateway, out=5, back=5, translated=int(translated)
            )
            for gateway, nodes in behind.items()
            for node in nodes
        ]

    def heal(self, directions, how: str) -> None:
        self._lab.backend.log.append("heal")

    def seen(self) -> NetworkSeen:
        changed: dict[str, Any] = dict(self._lab.job.link) if self._lab.job else {}
        counts: dict[str, Any] = {
            "matched": 100,
            "arrived": 100,
            "passed": 98,
            "lost": 2,
            "overtook": 1,
        }
        links = [
            LinkSeen(
                source=a,
                target=b,
                asked=asked,
                **{
                    **counts,
                    "mean": asked.delay,
                    "shortest": asked.delay - asked.jitter,
                    **changed,
                },
            )
            for (a, b), asked in self._links.items()
        ]
        return NetworkSeen(
            links=tuple(links),
            cuts=tuple(self._cuts),
            routes=tuple(self._routes),
            second=self._second,
        )

    def clear(self) -> None:
        self._lab.backend.log.append("clear")
        self._links.clear()
        self._cuts.clear()
        self._routes.clear()
        self._second = ()

    def kill(self, node: str) -> bool:
        self._lab.backend.log.append("kill")
        return True

    def freeze(self, node: str) -> None:
        self._frozen.add(node)

    def thaw(self, node: str) -> bool:
        frozen = node in self._frozen
        self._frozen.discard(node)
        return frozen


class FakeLab:
    """Implements :class:`impi.lab.nodes.interface.Lab` by made-up jobs."""

    def __init__(
        self, backend: FakeBackend, vendors, topology: Topology, run: str
    ) -> None:
        self.backend = backend
        self.captures, self.unseen = backend.captures, backend.unseen
        self.software: Mapping[str, str] = {"fake": "1"}
        self.network: Network | None = FakeNetwork(self) if backend.captures else None
        self.server: Node = FakeNode(self, "server", "10.9.0.1")
        self.clients: Sequence[Sequence[Node]] = [
            [
                FakeNode(self, name, f"10.9.{i + 1}.{j + 1}")
                for j, name in enumerate(names)
            ]
            for i, names in enumerate(node_names(topology, vendors))
        ]
        nodes = [self.server, *(node for nodes in self.clients for node in nodes)]
        self.access = Access(
            backend="fake",
            lab=f"lab-{backend.log.count('open')}",
            run=run,
            vendors=tuple(vendors),
            topology=topology,
            expires=4e9,
            nodes={
                node.name: NodeAccess(address=node.address, home=f"/lab/{node.name}")
                for node in nodes
            },
            environment={node.name: {"PATH": "/bin"} for node in nodes},
            python="python3",
            builds={v: backend.builds[v] for v in vendors if v in backend.builds},
        )
        self.nonces: dict[str, str] = {}
        self.job: Job | None = None
        self._left: dict[str, None] = {}
        self.closed = False

    def written(self, node: FakeNode, path: str, data: bytes) -> None:
        if path.endswith("bundle.zip"):
            import io
            import zipfile

            nonce = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("node.json"))[
                "nonce"
            ]
            self.nonces[node.name] = nonce
        elif path.endswith("cell.json"):
            plan = json.loads(data)
            if self.job is None or self.job.nonce != plan["nonce"]:
                self.job = Job.good(plan["cell"], plan["nonce"], self.nonces)
                self.backend.tweak(self.job)

    def start(self, node: FakeNode, argv: list[str]) -> RunningCommand:
        if argv[0] in self.backend.commands:
            return FakeCommand(
                self.backend.commands[argv[0]],
                hangs=self.backend.commands[argv[0]].code is None,
            )
        if any("bundle.zip" in word for word in argv):
            vendor = self.access.vendors[int(node.name[1])]
            files = (
                {}
                if vendor == "pure"
                else {"/opt": {"/opt/libmpi.so": LIBRARY[vendor]}}
            )
            text = json.dumps({"kind": "libraries", "value": files}).encode()
            return FakeCommand(
                Completed(argv=tuple(argv), code=0, stdout=text, stderr=b"")
            )
        if any("connect_ex" in word for word in argv):  # somebody knocks
            return FakeCommand(
                Completed(argv=tuple(argv), code=0, stdout=b"", stderr=b"")
            )
        if "-server" in argv:
            self.job = None
            return FakeServer(self)
        job = self.job
        assert job is not None
        if any("witness.py" in a for a in argv):
            out = job.witness(node.name)
            return FakeWitness(job, Completed(argv=(), code=0, stdout=out, stderr=b""))
        if any("look.py" in a for a in argv):
            return FakeCommand(
                Completed(argv=(), code=0, stdout=job.look(node.name), stderr=b"")
            )
        if "-c" in argv:  # waits for a phase of a fault, to which no rank comes
            return FakeCommand(Completed(argv=(), code=0, stdout=b"{}", stderr=b""))
        # A native client's script has the number behind its prefix.
        client = int(argv[argv.index("-client") + 1 if "-client" in argv else 3])
        return FakeClient(
            job,
            job.clients[client],
            hangs=f"client {client}" in job.hangs,
            log=self.backend.log,
        )

    def renamed(self, node: str, name: str) -> Node:
        """Names tell addresses here, so a node keeps its own."""
        assert node == name
        nodes = [self.server, *(each for nodes in self.clients for each in nodes)]
        return next(each for each in nodes if each.name == node)

    def network_among(self, nodes) -> Network | None:
        return self.network

    def software_of(self, access, server, clients) -> Mapping[str, str]:
        return self.software

    def begin_capture(self, only: Collection[str] = ()) -> None:
        self.backend.log.append("begin")
        if self.backend.broken_capture:
            raise LabError("tcpdump did not start")

    def end_capture(self, only: Collection[str] = ()) -> list[Capture]:
        self.backend.log.append("end")
        if not self.captures:
            return []
        found = self.job.captures() if self.job else quiet_captures(self.access.nodes)
        return [
            replace(capture, ahead_s=self.backend.clocks)
            for capture in found
            if not only or capture.node in only
        ]

    def stacks(self, pids) -> Stacks:
        return Stacks(notes=("this lab is made up",))

    def residue(
        self, known: Collection[str] = (), only: Collection[str] = ()
    ) -> list[str]:
        """A job's leftovers stay for all cells that follow in this lab."""
        self._left |= dict.fromkeys(self.job.leftovers if self.job else [])
        return [left for left in self._left if left not in known]

    def hold(self) -> None:
        self.backend.log.append("hold")
        self.backend.held[self.access.lab] = self

    def close(self) -> None:
        self.backend.running.pop(self.access.lab, None)
        if not self.closed:
            self.backend.log.append("close")
            self.backend.open_labs -= 1
        self.closed = True


class FakeInventory:
    """An :class:`impi.lab.nodes.interface.Inventory` of labs that a test names."""

    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    def find(self) -> list[LabSeen]:
        states = {
            **dict.fromkeys(self._backend.running, "running"),
            **dict.fromkeys(self._backend.held, "kept"),
        }
        return self._backend.seen + [
            LabSeen(
                lab=lab,
                labels={},
                parts=(f"container {lab}",),
                state=state,
                age_s=100,
                left_s=1000,
            )
            for lab, state in states.items()
        ]

    def remove(self, seen: LabSeen) -> list[str]:
        self._backend.log.append("remove")
        self._backend.held.pop(seen.lab, None)
        self._backend.seen = [other for other in self._backend.seen if other != seen]
        return list(seen.parts)


class FakeBackend:
    """Implements :class:`impi.lab.nodes.interface.Backend`."""

    name = "fake"
    parts = False

    def __init__(
        self, *, captures: bool = True, tweak: Tweak = lambda job: None
    ) -> None:
        self.captures, self.tweak = captures, tweak
        self.unseen: Sequence[str] = ()
        self.clocks = (0.0, 0.0)
        """How far clocks of nodes are ahead of ours, at least and at most."""
        self.log: list[str] = []
        self.open_labs = 0
        self.broken_open = ""
        self.broken_capture = False
        self.unsupported: dict[str, str] = {}
        self.refused = 7  # packets of each direction that is cut
        self.findings = [Finding(subject="engine", ok=True, detail="fine")]
        self.prepared: list[str] = []
        self.replaced: dict[str, str] = {}
        self.builds: Mapping[str, Build] = {}
        self.running: dict[str, FakeLab] = {}
        self.held: dict[str, FakeLab] = {}
        self.seen: list[LabSeen] = []
        self.inventory: Inventory = FakeInventory(self)
        self.commands: dict[str, Completed] = {}
        """The end of a command, by name; code None: only stop() or a deadline ends it."""

    def doctor(self) -> list[Finding]:
        return self.findings

    def prepare(self, vendors, builds=None, *, compiled=False) -> None:
        self.prepared = list(vendors)
        self.replaced = dict(builds or {})

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        return self.unsupported.get(str(topology), "")

    def no_machine(self, machine: str) -> str:
        return "" if self.captures else "this backend is made up"

    def no_network(self) -> str:
        return "" if self.captures else "this backend is made up"

    def network(self, access) -> Network:
        network = self.held[access.lab].network
        if network is None:
            raise LabError(self.no_network())
        return network

    def open(self, vendors, topology, *, run: str, terms: Terms = Terms()) -> FakeLab:
        if self.broken_open:
            raise LabError(self.broken_open)
        if len(vendors) != len(topology.clients):
            raise UsageError(
                f"{len(vendors)} vendors do not fit the {len(topology.clients)} clients of {topology}"
            )
        self.open_labs += 1
        self.log.append("open")
        lab = FakeLab(self, vendors, topology, run)
        self.running[lab.access.lab] = lab
        return lab

    def attach(self, access: Access) -> FakeLab:
        self.log.append("attach")
        lab = self.held.pop(access.lab, None)
        if lab is None:
            raise LabError(f"lab {access.lab} does not exist any more")
        self.running[access.lab] = lab
        lab.closed, self.open_labs = False, self.open_labs + lab.closed
        return lab

    def logs(self, access: Access, node: str) -> str:
        return f"{node} of {access.lab} says nothing\n"
