"""A process whose host is an agent of its own: one channel for all, and whom errors on it name."""

from typing import Any

import pytest
from transfer_world import Proc, drain, feed, make_job, packets

from impi.base.errors import JobError, LocalProtocolError, PeerError
from impi.protocol.transfer import Transfer
from impi.protocol.wire.packets import Header, PacketType, pack_header

JOB = make_job([[2], [1, 1], [1]], ackmark=1, hiwater=2)
"""Hosts 0, 1, 2, 3 with the ranks 0 and 1; 2; 3; 4."""
FINI = pack_header(Header(int(PacketType.FINI)))


def from_rank(rank: int, kind: PacketType, **fields: Any) -> bytes:
    peer, me = JOB.procs[rank], JOB.procs[0]
    return pack_header(
        Header(int(kind), 0, peer.ipv6, peer.pid, me.ipv6, me.pid)._replace(**fields)
    )


def test_all_packets_go_over_the_one_channel():
    machine = Transfer(JOB, 0, agent=True)
    assert tuple(machine.hosts.channels) == (0,)
    for dest in (2, 3, 4):
        for data in (b"one", b"two", b"three"):
            machine.send(dest, cid=0, tag=0, lsrank=0, views=[memoryview(data)])
    assert machine.hosts.busy == {0}
    pids = [header.dest_pid - 1000 for header, _ in packets(drain(machine, 0))]
    assert pids == [2, 3, 4, 2, 3, 4]  # a round, as far as credit goes
    feed(machine, 0, from_rank(3, PacketType.PROTOACK))
    [(header, data)] = packets(drain(machine, 0))
    assert (header.dest_pid - 1000, data) == (3, b"three")


def test_messages_of_all_hosts_arrive_over_it():
    proc = Proc(JOB, 0)
    proc.machine = Transfer(JOB, 0, agent=True)
    for rank in (2, 3, 4):
        proc.handle(
            feed(
                proc.machine,
                0,
                from_rank(rank, PacketType.DATA, pk_len=1, msglen=1) + bytes([rank]),
            )
        )
    assert [(incoming.source, bytes(room)) for incoming, room in proc.received] == [
        (2, b"\2"),
        (3, b"\3"),
        (4, b"\4"),
    ]


@pytest.mark.clause("3.8")
def test_one_fini_each_way():
    machine = Transfer(JOB, 0, agent=True)
    machine.finish()
    assert drain(machine, 0) == FINI
    assert not machine.finished
    feed(machine, 0, FINI)
    assert machine.finished
    machine.eof(0)


def test_errors_name_the_host_that_sent_the_packet():
    machine = Transfer(JOB, 0, agent=True)
    with pytest.raises(PeerError) as caught:
        feed(machine, 0, from_rank(3, PacketType.SYNCACK, srqid=7))
    assert caught.value.peer == "host 2 of client 1 (10.0.0.3 port 5002)"
    with pytest.raises(PeerError) as caught:
        feed(Transfer(JOB, 0, agent=True), 0, from_rank(1, PacketType.SYNCACK))
    assert caught.value.peer == "our agent, host 0 of client 0 (10.0.0.1 port 5000)"


def test_an_agent_that_is_lost():
    machine = Transfer(JOB, 0, agent=True)
    with pytest.raises(JobError, match=r"our agent, host 0 of client 0 .* was lost"):
        machine.eof(0)
    with pytest.raises(LocalProtocolError, match="no channel with host 1"):
        machine.get_buffer(1)
