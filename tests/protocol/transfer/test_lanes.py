"""The order of waiting packets."""

from impi.protocol.transfer.lanes import AFTER_FIRST, Lanes
from impi.protocol.transfer.message import Outgoing
from impi.protocol.wire.packets import Header


def message(tag: int) -> Outgoing:
    return Outgoing(1, Header(0, tag=tag), ())


def test_lanes_take_turns_and_each_is_first_in_first_out():
    lanes, messages = Lanes(), [message(tag) for tag in range(4)]
    lanes.acks.extend([b"1", b"2"])
    lanes.firsts.extend(messages[:2])
    lanes.longs.extend(messages[2:])
    assert [lanes.pop() for _ in range(6)] == [
        b"1",
        messages[0],
        messages[2],
        b"2",
        messages[1],
        messages[3],
    ]
    assert not lanes.queued


def test_an_empty_lane_misses_its_turn():
    lanes, long = Lanes(), message(0)
    lanes.longs.append(long)
    assert lanes.queued
    assert lanes.pop() is long and lanes.turn == 0
    lanes.turn = AFTER_FIRST
    lanes.acks.append(b"1")
    lanes.firsts.append(b"2")
    assert [lanes.pop(), lanes.pop()] == [b"1", b"2"]
