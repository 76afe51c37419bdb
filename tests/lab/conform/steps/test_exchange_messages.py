"""Messages by the protocol of their length, and what is said of one that is otherwise."""

from __future__ import annotations

import pytest
from tester_world import TesterWorld

from impi.lab.conform.outcomes import Broken
from impi.lab.conform.steps.exchange_messages import Exchange, require

LONG = bytes(range(40))


@pytest.fixture
def world() -> TesterWorld:
    return TesterWorld(datalen=16)


def test_a_short_message_is_one_packet(world: TesterWorld) -> None:
    Exchange(world.job).send(world.path(2, 0), b"abc", {"tag": 7})
    (sent,) = world.sent()
    assert (sent.kind, sent.payload, sent.tag, sent.msglen, sent.lsrank) == (
        "DATA",
        b"abc",
        7,
        3,
        2,
    )


def test_a_long_message_goes_on_when_it_is_answered(world: TesterWorld) -> None:
    world.says("SYNCACK", 0, 2, srqid=1, drqid=77)
    Exchange(world.job).send(world.path(2, 0), LONG, {"tag": 7})
    first, *rest = world.sent()
    assert (first.kind, first.srqid, first.msglen) == ("DATASYNC", 1, 40)
    assert [p.length for p in rest] == [16, 8]
    assert {p.drqid for p in rest} == {77}
    assert first.payload + b"".join(p.payload for p in rest) == LONG


def test_without_an_answer_nothing_more_is_sent(world: TesterWorld) -> None:
    with pytest.raises(Broken, match="SYNCACK srqid=1 does not come"):
        Exchange(world.job).send(world.path(2, 0), b"abc", {}, sync=True)
    assert len(world.sent()) == 1


def test_a_long_message_is_answered_and_put_together(world: TesterWorld) -> None:
    handle = 1 + (1 << 20)
    world.says("DATASYNC", 0, 2, LONG[:16], msglen=40, srqid=5, tag=7)
    for at in (16, 32):
        world.says(
            "DATA", 0, 2, LONG[at : at + 16], msglen=40, srqid=5, drqid=handle, tag=7
        )
    assert Exchange(world.job).receive(world.path(2, 0), 40, tag=7, cid=0) == LONG
    assert ("SYNCACK", 5, handle) in [(p.kind, p.srqid, p.drqid) for p in world.sent()]


@pytest.mark.parametrize(
    ("said", "told", "clause"),
    [
        ({"tag": 8}, "pk_tag is 8, not 7", ""),
        ({"tag": 7, "cid": 2}, "pk_cid is 2, not 0", ""),
        ({"tag": 7, "lsrank": 1}, "pk_lsrank is 1, not 0", ""),
    ],
)
def test_a_message_with_another_header(
    world: TesterWorld, said: dict, told: str, clause: str
) -> None:
    world.says("DATA", 0, 2, b"abc", **said)
    with pytest.raises(Broken, match=told) as raised:
        Exchange(world.job).receive(world.path(2, 0), 3, tag=7, cid=0, lsrank=0)
    assert raised.value.clause == clause
    assert raised.value.octets[128:] == b"abc"


def test_a_long_message_that_is_sent_as_a_short_one(world: TesterWorld) -> None:
    world.says("DATA", 0, 2, LONG[:20], tag=7)
    with pytest.raises(Broken, match="type is DATA, not DATASYNC") as raised:
        Exchange(world.job).receive(world.path(2, 0), 40, tag=7)
    assert raised.value.clause == "3.7.2"


def test_only_what_fits_is_taken_and_the_rest_stays(world: TesterWorld) -> None:
    world.says("DATA", 0, 2, b"a", tag=1)
    world.says("DATA", 0, 2, b"b", tag=2)
    exchange, path = Exchange(world.job), world.path(2, 0)
    assert (
        exchange.next_packet(path, "tag 2", fits=lambda p: p.tag == 2).payload == b"b"
    )
    require(path.inbox[0], world.job, {"tag": 1, "kind": "DATA"})
    with pytest.raises(Broken, match="packet is DATA"):
        exchange.idle(path, 0.1)


def test_a_channel_that_is_closed_brings_nothing(world: TesterWorld) -> None:
    world.wire.ended = True
    with pytest.raises(Broken) as raised:
        Exchange(world.job).next_packet(world.path(2, 0), "DATA")
    assert raised.value.actual == "the channel was closed"
