"""Short messages past the queues: octets, counts and matches equal the slow twin's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_world import LIMIT, ShortWorld, drain, feed, make_job

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.transfer import Transfer
from impi.protocol.transfer.reader import WHOLE
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    SHORT_HEADER,
    SRQID_OFFSET,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)


def _nobody(dest: int, packet: bytes) -> None:
    raise AssertionError(f"a PROTOACK for rank {dest}")


tags = st.integers(0, 2)
moves = st.one_of(
    st.tuples(
        st.just("send"),
        st.binary(max_size=LIMIT + 8),
        tags,
        st.booleans(),
        st.sampled_from([0, 5, 130, 9999]),
    ),
    st.tuples(st.just("post"), tags),
    st.tuples(st.just("write"), st.sampled_from([0, 1]), st.integers(1, 400)),
    st.tuples(
        st.just("read"),
        st.sampled_from([0, 1]),
        st.sampled_from([1, 7, 128, 200, 9999]),
    ),
)


@pytest.mark.clause("3.6")
@pytest.mark.clause("3.7.1")
@settings(max_examples=120, deadline=None)
@given(
    st.lists(moves, max_size=60), st.sampled_from([(1, 1), (2, 4), (3, 3), (10, 20)])
)
def test_fast_and_slow_are_twins(program, marks):
    fast, slow = worlds = ShortWorld(True, *marks), ShortWorld(False, *marks)
    end: list[tuple[Any, ...]] = [
        ("write", 0, 1 << 30),
        ("read", 1, 1 << 30),
        ("read", 0, 1 << 30),
    ] * 20
    end += [("post", tag) for tag in range(3) for _ in range(60)] + end
    for name, *arguments in [*program, *end]:
        for world in worlds:
            getattr(world, name)(*arguments)
    assert [link.sent for link in fast.links] == [link.sent for link in slow.links]
    for tag in range(3):
        assert [m for m in fast.received if m[0] == tag] == [
            m for m in slow.received if m[0] == tag
        ]
    assert len(fast.received) == sum(move[0] == "send" for move in program)
    assert all(machine.idle for world in worlds for machine in world.machines)


NOTHING, ONE = memoryview(b""), memoryview(b"a")


def test_nothing_is_made_where_something_stands_before():
    job = make_job([[1], [1]], ackmark=2, hiwater=2)
    machine = Transfer(job, 0)
    make = machine.short_sender(1, 0, 0)
    assert make(0, memoryview(bytes(LIMIT + 1)), 1) is None  # several packets
    assert make(32768, NOTHING, 0) is None and make(-1, NOTHING, 0) is None  # no tag
    assert make(0, ONE, 1) is not None and make(0, ONE, 1) is not None
    assert make(0, ONE, 1) is None  # no credit
    machine.send(1, cid=0, tag=0, lsrank=0, views=[memoryview(b"d")])
    feed(machine, 1, _header(job, PacketType.PROTOACK))
    assert make(0, ONE, 1) is None  # d comes first
    assert drain(machine, 1)[-1:] == b"d" and make(0, ONE, 1) is not None
    feed(machine, 1, _header(job, PacketType.PROTOACK))
    machine.finish()
    assert make(0, ONE, 1) is None


def test_senders_of_one_path_take_turns_with_its_frame():
    machine = Transfer(make_job([[1], [1]]), 0)
    one, other = machine.short_sender(1, 4, 0), machine.short_sender(1, 6, 2)
    made = []
    for make, data in [(one, b"a"), (other, b"b"), (other, b"c"), (one, b"d")]:
        packet = make(9, memoryview(data), 1)
        assert isinstance(packet, memoryview)
        header = unpack_header(packet)
        made.append(
            (header.cid, header.lsrank, header.srqid, bytes(packet[HEADER_SIZE:]))
        )
    assert made == [(4, 0, 1, b"a"), (6, 2, 2, b"b"), (6, 2, 3, b"c"), (4, 0, 4, b"d")]


def test_many_octets_are_not_copied_behind_their_header():
    job = make_job([[1], [1]], maxdatalen=10_000)
    fast, slow = Transfer(job, 0), Transfer(job, 0)
    data = memoryview(bytes(range(250)) * 40)
    for nbytes in (4097, 10_000):
        packet = fast.short_sender(1, 4, 0)(3, data[:nbytes], nbytes)
        assert isinstance(packet, list) and packet[1].obj is data.obj
        slow.send(1, cid=4, tag=3, lsrank=0, views=[data[:nbytes]], count=nbytes)
        assert b"".join(packet) == drain(slow, 1)


def _header(job, kind: PacketType, **more: Any) -> bytes:
    me, peer = job.procs
    return pack_header(
        Header(int(kind), 0, peer.ipv6, peer.pid, me.ipv6, me.pid)._replace(**more)
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"pk_len": 3, "msglen": 4}, "both must be equal"),
        ({"tag": 40000}, "40000"),
        ({"lsrank": -1}, "local rank -1"),
        ({"pk_len": 17, "msglen": 17}, "17 octets in a packet"),
        ({"src_pid": 7}, r"from a process that is not in this job \(pid 7\)"),
    ],
)
def test_what_is_wrong_is_left_to_parse(wrong, sentence):
    job = make_job([[1], [1]])
    machine = Transfer(job, 0)
    taken = []
    take = machine.short_reader(
        1, lambda *arguments: taken.append(arguments) is None, _nobody
    )
    octets = _header(job, PacketType.DATA, **wrong) + bytes(20)
    machine.get_buffer(1)[: len(octets)] = octets
    assert not take(len(octets)) and not taken
    with pytest.raises(PeerError, match=sentence):
        machine.parse(1)


@pytest.mark.clause("3.6")
def test_who_overruns_hiwater_is_found_here_too():
    job = make_job([[1], [1]], ackmark=2, hiwater=2)
    machine = Transfer(job, 0)
    take = machine.short_reader(1, lambda *_: True, _nobody)
    octets = _header(job, PacketType.DATA) * 3
    machine.get_buffer(1)[: len(octets)] = octets
    with pytest.raises(PeerError, match="while 2 were unacknowledged") as caught:
        take(len(octets))
    assert caught.value.peer and caught.value.octets == octets[:HEADER_SIZE]


def test_an_acknowledgement_that_is_due_goes_out_at_once():
    """With the last message that was read, and while nothing is queued, it bypasses the queue."""
    job = make_job([[1], [1]], ackmark=2, hiwater=4)
    machine = Transfer(job, 0)
    sent = []
    take = machine.short_reader(
        1, lambda *_: True, lambda dest, packet: sent.append((dest, packet))
    )
    octets = _header(job, PacketType.DATA) * 2
    machine.get_buffer(1)[: len(octets)] = octets
    assert take(len(octets))
    [(dest, packet)] = sent
    assert (dest, unpack_header(packet).pk_type) == (1, PacketType.PROTOACK)
    assert not machine.wants_write(1)


def test_a_short_header_is_a_header():
    pair = bytes(range(48))
    octets = SHORT_HEADER.pack(0, 5, pair, 7, 5, 3, 2, 8, 5)
    assert len(octets) == HEADER_SIZE
    known = Header(
        0,
        5,
        pair[:16],
        int.from_bytes(pair[16:24], "big"),
        pair[24:40],
        0,
        7,
        0,
        5,
        3,
        2,
        8,
        0,
        5,
    )
    header = unpack_header(octets)
    assert header == known._replace(dest_pid=header.dest_pid)
    assert octets[SRQID_OFFSET : SRQID_OFFSET + 8] == (7).to_bytes(8, "big")


def test_a_short_message_that_is_waited_for_is_no_event():
    world = ShortWorld(True, 2, 4)
    world.post(1)
    world.send(b"abc", 1, False, 9999)
    world.read(1, 130)
    assert not world.received  # a part is not enough
    world.read(1, 9999)
    assert world.received == [(1, bytearray(b"abc"), 3)] and world.short == 1


@pytest.mark.parametrize(("nbytes", "waits"), [(WHOLE, True), (WHOLE + 1, False)])
def test_the_rest_of_a_larger_message_goes_directly_to_its_place(nbytes, waits):
    """64 KiB wait in the read-ahead buffer, to be copied once; more become an event."""
    job = make_job([[1], [1]], maxdatalen=2 * WHOLE)
    machine = Transfer(job, 0)
    data = bytes(range(256)) * (WHOLE // 256 + 1)
    taken = []
    take = machine.short_reader(
        1, lambda *found: taken.append(bytes(found[4])) is None, _nobody
    )
    octets = _header(job, PacketType.DATA, pk_len=nbytes, msglen=nbytes) + data[:nbytes]
    machine.get_buffer(1)[:200] = octets[:200]
    assert take(200) is waits and not taken
    if waits:
        machine.get_buffer(1)[: nbytes - 72] = octets[200:]
        assert take(nbytes - 72) and taken == [data[:nbytes]]
        return
    [event] = machine.parse(1)
    place = bytearray(nbytes)
    machine.accept(event.incoming, memoryview(place))
    room = machine.get_buffer(1)
    assert len(room) == nbytes - 72
    room[:] = octets[200:]
    assert not take(nbytes - 72)  # user data of a message that parse() knows
    assert machine.parse(1) == [] and event.incoming.available
    assert place == data[:nbytes] and not taken


@pytest.mark.parametrize("excess", [-(HEADER_SIZE - 1), 2 * WHOLE])
def test_octets_that_cannot_have_been_read_are_not_noted(excess):
    job = make_job([[1], [1]], maxdatalen=LIMIT, ackmark=3, hiwater=3)
    machine = Transfer(job, 0)
    tags = []
    take = machine.short_reader(
        1, lambda _source, _cid, tag, *_: tags.append(tag) is None, _nobody
    )
    octets = _header(job, PacketType.DATA, tag=1) + _header(job, PacketType.DATA, tag=2)
    first, rest = HEADER_SIZE + 1, HEADER_SIZE - 1
    machine.get_buffer(1)[:first] = octets[:first]
    assert take(first) and tags == [1]
    machine.get_buffer(1)[:rest] = octets[first:]
    with pytest.raises(LocalProtocolError, match="cannot have been read"):
        take(rest + excess)
    assert tags == [1]
    assert take(rest) and tags == [1, 2]
