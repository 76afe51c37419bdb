"""The channels and paths of one process, and which hosts are busy."""

import pytest
from transfer_world import make_job

from impi.base.errors import LocalProtocolError
from impi.base.records import replaced
from impi.protocol.job import LAZY_VERSION
from impi.protocol.transfer.hosts import Hosts
from impi.protocol.wire.packets import PacketType

JOB = make_job([[2], [1, 2]])
"""Hosts 0, 1, 2 with the ranks 0 and 1; 2; 3 and 4."""


def test_each_remote_host_has_a_channel_and_each_of_its_procs_a_path():
    hosts = Hosts(JOB, JOB.procs[0], agent=False)
    assert {
        index: [path.rank for path in channel.paths]
        for index, channel in hosts.channels.items()
    } == {
        1: [2],
        2: [3, 4],
    }
    assert [hosts.path(rank).host for rank in (2, 3, 4)] == [1, 2, 2]
    assert [hosts.reverse[path.reverse] is path for path in hosts.paths.values()] == [
        True
    ] * 3
    for ask in (lambda: hosts.path(1), lambda: hosts.channel(0)):
        with pytest.raises(LocalProtocolError):
            ask()


def test_an_agent_is_the_way_to_all():
    hosts = Hosts(JOB, JOB.procs[1], agent=True)
    assert [path.rank for path in hosts.channel(0).paths] == [2, 3, 4]
    assert hosts.channel(0).name.startswith("our agent, host 0 of client 0")


def test_a_lazy_job_has_channels_one_by_one():
    hosts = Hosts(replaced(JOB, version=LAZY_VERSION), JOB.procs[0], agent=False)
    assert not hosts.channels
    hosts.open(2)
    assert list(hosts.channels) == [2] and list(hosts.paths) == [3, 4]


def test_a_host_is_busy_while_something_is_queued():
    hosts = Hosts(JOB, JOB.procs[0], agent=False)
    path, channel = hosts.path(2), hosts.channel(1)
    path.lanes.acks.append(path.bare(PacketType.SYNCACK, 1))
    hosts.queued(path)
    assert hosts.busy == {1} and path.awake
    channel.sent(sum(view.nbytes for view in channel.views()))
    hosts.refresh(channel)
    assert not hosts.busy


def test_what_is_queued_for_a_lost_host_is_dropped():
    hosts = Hosts(JOB, JOB.procs[0], agent=False)
    hosts.abandon(1)
    path = hosts.path(2)
    path.lanes.acks.append(b"")
    hosts.queued(path)
    assert not path.lanes.queued and not hosts.busy and hosts.parted(1)
    hosts.forget(1)
    assert list(hosts.paths) == [3, 4] and list(hosts.channels) == [2]
