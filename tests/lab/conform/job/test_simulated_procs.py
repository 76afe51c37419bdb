"""Packets, credit and channels of simulated procs."""

from __future__ import annotations

import pytest
from tester_world import TesterWorld

from impi.lab.conform.outcomes import Broken


def test_the_fifth_packet_waits_for_a_protoack() -> None:
    world = TesterWorld(ackmark=2, hiwater=4)
    path = world.path(2, 0)
    for number in range(4):
        world.procs.send(path, path.fields("DATA", tag=number))
    with pytest.raises(Broken, match="does not acknowledge") as raised:
        world.procs.send(path, path.fields("DATA", tag=4))
    assert raised.value.clause == "3.6"
    world.says("PROTOACK", 0, 2)
    world.procs.send(path, path.fields("DATA", tag=4))
    assert [p.tag for p in world.sent()] == [0, 1, 2, 3, 4]
    assert path.outstanding == 3


def test_credit_may_be_ignored_and_protoacks_need_none() -> None:
    world = TesterWorld(hiwater=1)
    path = world.path(2, 0)
    for _ in range(3):
        world.procs.send(path, path.fields("DATA"), wait=False)
    world.procs.acknowledge(path)
    assert [p.kind for p in world.sent()] == ["DATA"] * 3 + ["PROTOACK"]


def test_every_second_packet_is_acknowledged_unless_the_test_does_that() -> None:
    world = TesterWorld(ackmark=2)
    for _ in range(4):
        world.says("DATA", 0, 2)
    world.procs.until(lambda: len(world.path(2, 0).inbox) == 4)
    assert [p.kind for p in world.sent()] == ["PROTOACK"] * 2
    world.path(3, 0).manual = True
    for _ in range(2):
        world.says("DATA", 0, 3)
    world.says("PROTOACK", 0, 3)
    world.procs.until(lambda: bool(world.path(3, 0).acks))
    assert world.sent() == []
    world.procs.release()
    assert [(p.kind, p.src[1]) for p in world.sent()] == [("PROTOACK", 201)]


def test_octets_that_are_no_packet_end_the_channel() -> None:
    world = TesterWorld()
    world.comes((9).to_bytes(4, "big") + bytes(124))
    with pytest.raises(Broken, match="type 9") as raised:
        world.procs.until(lambda: False)
    assert raised.value.clause == "3.5"


def test_a_packet_of_procs_of_another_channel() -> None:
    world = TesterWorld()
    world.says("DATA", 0, 2)
    octets = world.coming.popleft()
    octets()
    world.wire.incoming[31] ^= 8  # another P_PID
    with pytest.raises(Broken, match="not those of its channel") as raised:
        world.procs.until(lambda: False)
    assert raised.value.clause == "3.2"


def test_half_a_packet_waits_for_the_rest() -> None:
    world = TesterWorld()
    world.says("DATA", 0, 2, b"abcd")
    world.coming.popleft()()
    rest = world.wire.incoming[130:]
    del world.wire.incoming[130:]
    assert not world.procs.until(lambda: bool(world.path(2, 0).inbox))
    world.comes(bytes(rest))
    assert world.procs.until(lambda: bool(world.path(2, 0).inbox))
    ((path, found),) = world.procs.unclaimed()
    assert (path.theirs.rank, found.payload) == (0, b"abcd")


def test_fini_is_of_the_channel_and_said_once() -> None:
    world = TesterWorld()
    link = world.procs.links[1, 0]
    world.says("FINI", 0, 2)
    assert world.procs.until(lambda: link.finished)
    world.procs.finish(link)
    world.procs.finish(link)
    assert [p.kind for p in world.sent()] == ["FINI"]


def test_the_conversation_is_told_with_what_interpreters_say() -> None:
    world = TesterWorld()
    world.job.interpreters.tell(1, "echo")
    world.reports(1, "ok rank=1")
    world.job.interpreters.report(1)
    assert [line[9:] for line in world.procs.log] == [
        "-> rank 1 is told: echo",
        "<- rank 1 reports: ok rank=1",
    ]
