"""Recorded conversations (tests/vectors): our machines in the place of either host.

In the recordings a host is an agent of two processes, so two machines stand in for it: what comes
goes to the one that it is addressed to, as an agent would do. What our machines send must be what
was recorded, packet for packet, except for what is an implementation's own: request ids, sequence
numbers, unused fields.
"""

import re
from collections import defaultdict, deque
from pathlib import Path

import pytest
from transfer_world import drain, feed, make_job, packets

from impi.base.records import replaced
from impi.protocol.job import Job
from impi.protocol.transfer import Arrived, Incoming, Transfer
from impi.protocol.wire.packets import Header, PacketType, pack_header

VECTORS = Path(__file__).parent.parent.parent / "vectors"
CASES = sorted(path.parent.name for path in VECTORS.glob("*/decoded.txt"))
DATA = (PacketType.DATA, PacketType.DATASYNC)
Packet = tuple[Header, bytes]


def recorded_job(case: str) -> Job:
    text = (VECTORS / case / "decoded.txt").read_text()
    pids = re.findall(
        r"client0 <- server : COLL len=\d+ P_PID client_mask=0x3 \[(.*?)\]", text
    )
    addresses = re.findall(
        r"client0 <- server : COLL len=\d+ H_IPV6 client_mask=0x3 \['(\w+)', '(\w+)'\]",
        text,
    )
    job = make_job(
        [[2], [2]],
        maxdatalen=65536,
        ackmark=10,
        hiwater=20,
        pids=[int(pid) for pid in pids[0].split(",")],
        addresses=[bytes.fromhex(address) for address in addresses[0]],
    )
    return replaced(job, tag_ub=2**31 - 1)


def timeline(case: str) -> list[tuple[int, Header, bytes]]:
    """All packets of both directions in the order of time: sending host, header, user data."""
    folder = VECTORS / case
    ways = {
        0: deque(packets((folder / "host0_to_host1.bin").read_bytes())),
        # After the host rank of the dance
        1: deque(packets((folder / "host1_to_host0.bin").read_bytes()[4:])),
    }
    out = []
    for host in re.findall(
        r"host(\d) -> host\d : (?!HOSTRANK)", (folder / "decoded.txt").read_text()
    ):
        out.append((int(host), *ways[int(host)].popleft()))
    assert not any(ways.values())
    return out


class Agent:
    """The two machines of one host, and the memory of which id stands for which."""

    def __init__(self, job: Job, host: int) -> None:
        self.job = job
        self.peer = 1 - host
        self.machines = {
            (p.ipv6, p.pid): Transfer(job, p.rank) for p in job.procs if p.host == host
        }
        self.ranks = {(p.ipv6, p.pid): p.rank for p in job.procs}
        self.srqids: dict[tuple[int, int], int] = {}
        self.drqids: dict[tuple[int, int], int] = {}
        self.unexpected: dict[tuple[int, int], Incoming] = {}
        self.received: list[tuple[Incoming, bytearray]] = []
        self.sent: list[Packet] = []

    def send(self, header: Header, data: bytes) -> None:
        """Return the recorded host's first packet of a message of ``data``."""
        me, dest = self.ranks[header[2:4]], self.ranks[header[4:6]]
        out = self.machines[header[2:4]].send(
            dest,
            cid=header.cid,
            tag=header.tag,
            lsrank=header.lsrank,
            views=[memoryview(data)],
            synchronous=header.pk_type == PacketType.DATASYNC,
            count=header.count,
        )
        self.srqids[me, header.srqid] = out.header.srqid
        self.collect()

    def take(self, header: Header, data: bytes) -> None:
        """Return the recorded peer's packets, with the ids that it would have got from us."""
        if header.pk_type == PacketType.FINI:
            for machine in self.machines.values():
                assert feed(machine, self.peer, pack_header(header)) == []
            return
        machine = self.machines[header[4:6]]
        me, source = self.ranks[header[4:6]], self.ranks[header[2:4]]
        if header.pk_type == PacketType.SYNCACK:
            header = header._replace(srqid=self.srqids[me, header.srqid])
        elif header.pk_type == PacketType.DATA and header.pk_len < header.msglen:
            header = header._replace(drqid=self.drqids[source, header.srqid])
        for event in feed(machine, self.peer, pack_header(header) + data):
            assert isinstance(event, Arrived)
            if header.pk_type == PacketType.DATASYNC:
                self.unexpected[source, header.srqid] = event.incoming
            else:
                self.accept(machine, event.incoming)
        self.collect()

    def acknowledge(self, header: Header) -> None:
        """The recorded host matched a message here."""
        source = self.ranks[header[4:6]]
        self.accept(
            self.machines[header[2:4]], self.unexpected.pop((source, header.srqid))
        )
        before = len(self.sent)
        self.collect()
        self.drqids[source, header.srqid] = self.sent[before][0].drqid

    def accept(self, machine: Transfer, incoming: Incoming) -> None:
        room = bytearray(incoming.nbytes)
        self.received.append((incoming, room))
        machine.accept(incoming, memoryview(room))

    def collect(self) -> None:
        for machine in self.machines.values():
            self.sent += packets(drain(machine, self.peer))


def shown(header: Header, data: bytes) -> tuple[object, ...]:
    """Return the fields of a packet that the specification fixes."""
    name = PacketType(header.pk_type).name
    if header.pk_type in DATA:
        return (
            name,
            *header[1:6],
            header.msglen,
            header.lsrank,
            header.tag,
            header.cid,
            header.count,
            data,
        )
    return (name, *header[2:6])


@pytest.mark.parametrize("host", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_our_machines_in_the_place_of_a_recorded_host(case, host):
    job = recorded_job(case)
    record = timeline(case)
    messages: dict[tuple[object, ...], list[bytes]] = defaultdict(list)
    firsts = []
    for index, (source, header, data) in enumerate(record):
        if header.pk_type not in DATA:
            continue
        first = header.pk_type == PacketType.DATASYNC or header.pk_len == header.msglen
        key = (
            source,
            header[2:6],
            header.srqid,
            header.msglen,
            index if header.pk_len == header.msglen else None,
        )
        messages[key].append(data)
        if first:
            firsts.append((index, key))
    whole = {index: b"".join(messages[key]) for index, key in firsts}
    agent = Agent(job, host)
    for index, (source, header, data) in enumerate(record):
        if source != host:
            agent.take(header, data)
        elif index in whole:
            agent.send(header, whole[index])
        elif header.pk_type == PacketType.SYNCACK:
            agent.acknowledge(header)
    expected = [
        shown(header, data)
        for source, header, data in record
        if source == host and header.pk_type != 7
    ]
    assert [shown(*packet) for packet in agent.sent] == expected
    assert not agent.unexpected and all(incoming.done for incoming, _ in agent.received)
    peers = {index: data for index, data in whole.items() if record[index][0] != host}
    assert sorted(bytes(room) for _, room in agent.received) == sorted(peers.values())
    for machine in agent.machines.values():
        assert machine.idle
        machine.finish()
        assert drain(machine, agent.peer) == pack_header(Header(PacketType.FINI))
        assert machine.finished


def test_all_recordings_are_there():
    assert len(CASES) == 14
