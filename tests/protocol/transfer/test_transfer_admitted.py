"""Channels with hosts of other jobs, which come and go (impi.rank.engine.other_jobs)."""

import pytest
from transfer_world import Proc, address, drain, make_job

from impi.base.errors import LocalProtocolError, PeerError
from impi.base.records import replaced
from impi.protocol.job import LAZY_VERSION

PIDS = (1000, 2000, 3000)


def alone(number: int, tag_ub: int = 32767) -> Proc:
    """A proc of a job of its own."""
    job = make_job([[1]], addresses=[address(number + 1)], pids=[PIDS[number]])
    return Proc(replaced(job, tag_ub=tag_ub), 0)


def admit(proc: Proc, other: Proc) -> None:
    """Let ``proc`` know ``other`` as rank 1 on host 1."""
    mine, theirs = proc.machine.hosts.job, other.machine.hosts.job
    procs, hosts = len(mine.procs), len(mine.hosts)
    host = replaced(theirs.hosts[0], index=hosts, client=1, procs=(procs,))
    proc_there = replaced(theirs.procs[0], rank=procs, host=hosts)
    job = replaced(mine, hosts=(*mine.hosts, host), procs=(*mine.procs, proc_there))
    proc.machine.hosts.admit(job, [host], theirs.tag_ub)


def carry(left: Proc, right: Proc, host: int = 1) -> None:
    moved = True
    while moved:
        moved = False
        for source, dest in ((left, right), (right, left)):
            if host in source.machine.hosts.channels and (
                octets := drain(source.machine, host)
            ):
                dest.read(host, octets)
                moved = True


@pytest.mark.parametrize("length", [0, 5, 100])
def test_two_jobs_talk_part_and_meet_again(length):
    left, right = alone(0), alone(1)
    data = bytes(range(length))
    for turn in range(2):
        host = 1 + turn
        admit(left, right)
        admit(right, left)
        assert (
            tuple(left.machine.hosts.channels)
            == tuple(right.machine.hosts.channels)
            == (host,)
        )
        sent = [left.send(host, data, tag=3), right.send(host, data, synchronous=True)]
        carry(left, right, host)
        assert all(one.done for one in sent)
        for proc in (left, right):
            incoming, room = proc.received.pop()
            assert (incoming.source, bytes(room)) == (host, data)
        left.machine.hosts.dismiss(host)
        carry(left, right, host)
        assert not left.machine.hosts.parted(host)
        right.machine.hosts.dismiss(host)
        carry(left, right, host)
        assert left.machine.hosts.parted(host)
        assert right.machine.hosts.parted(host)
        for proc in (left, right):
            proc.machine.hosts.forget(host)
            assert not proc.machine.hosts.channels
            assert proc.machine.idle
    with pytest.raises(LocalProtocolError, match="no channel"):
        left.machine.hosts.dismiss(1)


def test_tags_of_the_other_job_may_be_larger():
    left, right = alone(0, tag_ub=50_000), alone(1)
    admit(left, right)
    admit(right, left)
    left.send(1, b"x", tag=40_000)
    carry(left, right)
    assert right.received[0][0].header.tag == 40_000
    with pytest.raises(LocalProtocolError, match="not within 0 to 32767"):
        right.send(1, b"x", tag=40_000)


def test_who_was_forgotten_is_a_stranger():
    left, right, third = alone(0), alone(1), alone(2)
    for other in (right, third):
        admit(left, other)
        admit(other, left)
    left.machine.hosts.dismiss(1)
    right.machine.hosts.dismiss(1)
    carry(left, right)
    left.machine.hosts.forget(1)
    right.machine.hosts.forget(1)
    admit(right, left)
    right.send(2, b"x")
    with pytest.raises(PeerError, match="not one of its"):
        left.read(2, drain(right.machine, 2))


def test_a_host_that_is_abandoned_has_parted_and_keeps_nobody_waiting():
    left, right = alone(0), alone(1)
    admit(left, right)
    admit(right, left)
    right.send(1, b"come", tag=7)
    carry(left, right)
    lost = left.send(1, bytes(100), synchronous=True)
    left.machine.hosts.abandon(1)
    assert left.machine.hosts.parted(1)
    assert 1 not in left.machine.hosts.busy
    assert not lost.done
    left.machine.hosts.dismiss(1)
    assert 1 not in left.machine.hosts.busy
    assert bytes(left.received[0][1]) == b"come"


def test_what_a_lost_host_had_sent_still_arrives():
    """A write to it fails, while packets that were read together are looked at one by one."""
    left, right = alone(0), alone(1)
    admit(left, right)
    admit(right, left)
    for word in (b"first", b"second"):
        right.send(1, word)
    octets = drain(right.machine, 1)
    left.machine.hosts.abandon(1)
    left.read(1, octets)
    assert [bytes(room) for _, room in left.received] == [b"first", b"second"]
    assert left.machine.hosts.parted(1)


def test_a_lazy_job_has_the_channels_that_were_opened():
    job = replaced(make_job([[1], [1], [1]]), version=LAZY_VERSION)
    left, right = Proc(job, 0), Proc(job, 2)
    assert (
        tuple(left.machine.hosts.channels) == tuple(right.machine.hosts.channels) == ()
    )
    with pytest.raises(LocalProtocolError):
        left.send(2, b"no channel")
    left.machine.hosts.open(2)
    right.machine.hosts.open(0)
    sent = left.send(2, b"hello", tag=3)
    octets = drain(left.machine, 2)
    right.read(0, octets)
    assert sent.done
    incoming, room = right.received.pop()
    assert (incoming.source, bytes(room)) == (0, b"hello")
    for proc in (left, right):
        proc.machine.finish()
    right.read(0, drain(left.machine, 2))
    left.read(2, drain(right.machine, 0))
    assert left.machine.finished
    assert right.machine.finished
