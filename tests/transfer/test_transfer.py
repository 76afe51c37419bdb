"""IMPI 3.5 to 3.8 between machines of ours, wired in memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_world import LIMIT, Side, Wire, drain, feed, make_job, packets

from impi.errors import LocalProtocolError
from impi.transfer import Arrived, Transfer
from impi.wire.packets import HEADER_SIZE, Header, PacketType, pack_header


def kinds(stream: bytes) -> list[str]:
    return [PacketType(header.pk_type).name for header, _ in packets(stream)]


def pair(**options) -> tuple[Side, Side, Wire]:
    eager = options.pop("eager", True)
    job = make_job([[1], [1]], **options)
    left, right = Side(job, 0, eager=eager), Side(job, 1, eager=eager)
    return left, right, Wire(left, right)


def octets(length: int, seed: int = 0) -> bytes:
    return bytes((i * 7 + seed) & 255 for i in range(length))


@pytest.mark.clause("3.7")
@pytest.mark.clause("3.7.1")
@pytest.mark.parametrize("length", [0, 1, LIMIT - 1, LIMIT])
@pytest.mark.parametrize("synchronous", [False, True])
def test_short_message_is_one_packet(length, synchronous):
    left, right, wire = pair(eager=False)
    out = left.send(1, octets(length), tag=5, synchronous=synchronous)
    wire.settle()
    ((header, data),) = packets(bytes(wire.streams[0, 1]))
    assert header.pk_type == (PacketType.DATASYNC if synchronous else PacketType.DATA)
    assert (header.pk_len, header.msglen, data) == (length, length, octets(length))
    assert (header.tag, header.lsrank, header.drqid) == (5, 0, 0)
    assert out.handed and out.done is not synchronous
    incoming = right.accept()
    assert incoming.done and right.got[0][1] == octets(length)
    wire.settle()
    assert out.done
    assert kinds(bytes(wire.streams[1, 0])) == (["SYNCACK"] if synchronous else [])


@pytest.mark.clause("3.7")
@pytest.mark.clause("3.7.2")
@pytest.mark.parametrize("length", [LIMIT + 1, 2 * LIMIT, 3 * LIMIT + 5])
@pytest.mark.parametrize("synchronous", [False, True])
def test_long_message_waits_after_its_first_packet(length, synchronous):
    left, right, wire = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous, pieces=5)
    wire.settle()
    assert kinds(bytes(wire.streams[0, 1])) == ["DATASYNC"]
    assert not out.handed and not out.done and left.machine.idle
    right.accept()
    wire.settle()
    sent = list(packets(bytes(wire.streams[0, 1])))
    assert [h.pk_type for h, _ in sent[1:] if h.pk_type != PacketType.PROTOACK] == [0] * (-(-length // LIMIT) - 1)
    ((ack, _),) = [p for p in packets(bytes(wire.streams[1, 0])) if p[0].pk_type == PacketType.SYNCACK]
    assert ack.srqid == sent[0][0].srqid
    assert {h.drqid for h, _ in sent[1:] if h.pk_type == PacketType.DATA} == {ack.drqid} != {0}
    assert all(h.msglen == length and h.srqid == ack.srqid for h, _ in sent if h.pk_type == PacketType.DATA)
    assert out.done and right.got[0][0].done and right.got[0][1] == octets(length)


@pytest.mark.clause("3.5")
def test_header_only_packets_are_zero_where_table_3_1_is_silent():
    left, right, wire = pair(ackmark=1, hiwater=1)
    left.send(1, b"abc", synchronous=True, tag=9)
    wire.settle()
    wire.finish()
    by_kind = {h.pk_type: h for stream in wire.streams.values() for h, _ in packets(bytes(stream))}
    me, peer = (make_job([[1], [1]]).procs[i] for i in (0, 1))
    ack = by_kind[PacketType.SYNCACK]
    assert ack == Header(3, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, ack.srqid)
    assert by_kind[PacketType.FINI] == Header(7)
    # One each way: for the message, and for the SYNCACK, which counts as well.
    acks = [h for stream in wire.streams.values() for h, _ in packets(bytes(stream)) if h.pk_type == 2]
    assert sorted(acks) == [
        Header(2, 0, me.ipv6, me.pid, peer.ipv6, peer.pid),
        Header(2, 0, peer.ipv6, peer.pid, me.ipv6, me.pid),
    ]
    assert right.machine.finished


@pytest.mark.clause("3.9")
def test_maxdatalen_one():
    left, right, wire = pair(maxdatalen=1, ackmark=1, hiwater=1)
    outs = [left.send(1, octets(length, length)) for length in (0, 1, 2, 7)]
    wire.settle()
    assert [bytes(room) for _, room in right.got] == [octets(length, length) for length in (0, 1, 2, 7)]
    assert all(out.done for out in outs)


@pytest.mark.clause("3.6")
def test_sender_stops_at_hiwater_and_goes_on_by_ackmark():
    left, right, wire = pair(ackmark=2, hiwater=4)
    outs = [left.send(1, bytes([i])) for i in range(7)]
    assert len(list(packets(drain(left.machine, 1)))) == 4
    assert [out.handed for out in outs] == [True] * 4 + [False] * 3
    assert not left.machine.wants_write(1) and not left.machine.idle
    right.send(0, b"")  # any packet but a PROTOACK opens nothing
    wire.write(1, 0)
    wire.read(1, 0)
    assert not left.machine.wants_write(1)
    job = make_job([[1], [1]])
    ack = pack_header(Header(2, 0, job.procs[1].ipv6, 1001, job.procs[0].ipv6, 1000))
    feed(left.machine, 1, ack)
    assert [data for _, data in packets(drain(left.machine, 1))] == [b"\4", b"\5"]
    assert not left.machine.idle
    feed(left.machine, 1, ack)
    assert [data for _, data in packets(drain(left.machine, 1))] == [b"\6"]
    assert left.machine.idle


@pytest.mark.clause("3.6")
def test_protoack_is_not_held_back_by_a_closed_window_and_overtakes_what_has_not_begun():
    left, right, _ = pair(ackmark=1, hiwater=2)
    for i in range(6):
        right.send(0, bytes([i]) * 8)
    views = right.machine.data_to_send(0)
    right.machine.sent(0, 10)  # the first packet has begun
    left.send(1, b"x")
    right.handle(feed(right.machine, 0, drain(left.machine, 1)))
    stream = b"".join(views)[:10] + drain(right.machine, 0)
    assert kinds(stream) == ["DATA", "PROTOACK", "DATA"]
    right.handle(feed(right.machine, 0, drain(left.machine, 1)))
    assert not right.machine.wants_write(0)  # window closed
    left.send(1, b"y")
    right.handle(feed(right.machine, 0, drain(left.machine, 1)))
    assert kinds(drain(right.machine, 0)) == ["PROTOACK"]


@pytest.mark.clause("3.1")
def test_long_messages_to_one_and_to_several_processes_take_turns():
    job = make_job([[1], [2]], ackmark=10, hiwater=1000)
    machine = Transfer(job, 0)
    outs = [machine.send(dest, cid=0, tag=0, lsrank=0, views=[memoryview(bytes(160))]) for dest in (1, 1, 2)]
    first = list(packets(drain(machine, 1)))
    assert [h.pk_type for h, _ in first] == [1, 1, 1]
    me = job.procs[0]
    for number, (out, dest) in enumerate(zip(outs, (1, 1, 2), strict=True)):
        peer = job.procs[dest]
        feed(machine, 1, pack_header(Header(3, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, out.srqid, 77 + number)))
    order = [h.drqid for h, _ in packets(drain(machine, 1))]
    assert order[:12] == [77, 79, 78, 79] * 3
    assert sorted(order) == [77] * 9 + [78] * 9 + [79] * 9
    assert all(out.done for out in outs)


def test_short_messages_are_not_starved_by_a_long_one():
    left, right, wire = pair(ackmark=1, hiwater=1)
    left.send(1, bytes(1600))
    for _ in range(3):
        wire.write(0, 1)
        wire.read(0, 1)
        wire.write(1, 0)
        wire.read(1, 0)
    left.send(1, b"now", tag=1)
    for _ in range(3):
        wire.write(0, 1)
        wire.read(0, 1)
        wire.write(1, 0)
        wire.read(1, 0)
    done = {incoming.tag: incoming.done for incoming, _ in right.got}
    assert done == {0: False, 1: True}


def test_no_lane_starves_another():
    """With credit for one packet: acknowledgements, messages and a long one take turns."""
    job = make_job([[1], [1]], ackmark=1, hiwater=1)
    left, right = job.procs
    side = Side(job, 0)

    def from_peer(kind: int, srqid: int) -> bytes:
        return pack_header(Header(kind, 0, right.ipv6, right.pid, left.ipv6, left.pid, srqid))

    long = side.send(1, bytes(5 * LIMIT))
    sent = drain(side.machine, 1)
    feed(side.machine, 1, from_peer(PacketType.SYNCACK, long.srqid))
    sent += drain(side.machine, 1)
    for i in range(9):
        side.send(1, bytes([i]), tag=1)
        side.handle(feed(side.machine, 1, from_peer(PacketType.DATASYNC, i)))  # accepted: a SYNCACK is due
        sent += drain(side.machine, 1)  # its PROTOACK
    for _ in range(12):
        feed(side.machine, 1, from_peer(PacketType.PROTOACK, 0))
        sent += drain(side.machine, 1)
    lanes = [
        "ack" if h.pk_type == PacketType.SYNCACK else "short" if h.tag == 1 else "long"
        for h, _ in packets(sent)
        if h.pk_type != PacketType.PROTOACK
    ]
    assert sorted(lanes[1:13]) == ["ack"] * 4 + ["long"] * 4 + ["short"] * 4
    assert all(len(set(lanes[i : i + 3])) == 3 for i in range(1, 13, 3))


def test_payload_goes_directly_to_the_accepted_view():
    """No read of user data of a long message goes anywhere but to its place."""
    left, right, wire = pair(maxdatalen=1 << 20, eager=False)
    data = octets(3 << 20)
    left.send(1, data)
    wire.write(0, 1)
    wire.read(0, 1)
    incoming = right.waiting[0]
    place = bytearray(len(data))
    right.machine.accept(incoming, memoryview(place))
    wire.write(1, 0)
    wire.read(1, 0)
    direct = 0
    for header, payload in packets(drain(left.machine, 1)):
        room = right.machine.get_buffer(0)
        assert len(room) == HEADER_SIZE
        room[:] = pack_header(header)
        assert right.machine.received(0, HEADER_SIZE) == []
        room = right.machine.get_buffer(0)
        assert room.obj is place and len(room) == len(payload)
        room[:] = payload
        direct += len(payload)
        right.machine.received(0, len(payload))
    assert direct == 2 << 20 and incoming.done and place == data
    assert len(right.machine.get_buffer(0)) > HEADER_SIZE  # reads ahead again


def test_accepted_in_the_middle_of_its_first_packet():
    left, right, _ = pair(maxdatalen=1 << 20, eager=False)
    data = octets(200_000)
    left.send(1, data)
    stream = drain(left.machine, 1)
    (event,) = feed(right.machine, 0, stream[:1000])
    feed(right.machine, 0, stream[1000:90_000])
    assert isinstance(event, Arrived) and not event.incoming.available
    room = right.machine.get_buffer(0)  # lent before the message is matched, read after
    place = bytearray(len(data))
    right.machine.accept(event.incoming, memoryview(place))
    room[:5] = stream[90_000:90_005]
    right.machine.received(0, 5)
    assert right.machine.get_buffer(0).obj is place
    feed(right.machine, 0, stream[90_005:])
    assert event.incoming.done and event.incoming.available and place == data


@pytest.mark.clause("3.6")
def test_unexpected_messages_are_kept_and_acknowledged_on_arrival():
    left, right, wire = pair(ackmark=2, hiwater=2, eager=False)
    for i in range(9):
        left.send(1, octets(i, i))
    wire.settle()
    assert left.machine.idle and len(right.waiting) == 9
    for _ in range(9):
        right.accept(-1)
    assert [bytes(room) for _, room in right.got] == [octets(i, i) for i in reversed(range(9))]


def test_many_small_views_are_sent_64_at_a_time():
    left, right, wire = pair(maxdatalen=1000)
    data = octets(900)
    out = left.send(1, data, pieces=300)
    assert len(left.machine.data_to_send(1)) == 64
    wire.settle()
    assert out.done and right.got[0][1] == data


def test_buffers_are_let_go_when_done():
    left, right, wire = pair()
    data = bytearray(40)
    out = left.machine.send(1, cid=0, tag=0, lsrank=0, views=[memoryview(data)])
    wire.settle()
    assert out.done
    data.append(1)  # BufferError while a view of it lives
    right.got[0][1].append(1)


# Cancellation, 3.7.4


@pytest.mark.clause("3.7.4")
def test_cancel_before_anything_left_is_decided_here():
    left, _, wire = pair()
    out = left.send(1, b"abc")
    left.machine.cancel(out)
    assert (out.cancelled, out.done) == (True, True)
    assert left.machine.idle and not left.machine.wants_write(1)
    wire.finish()
    assert kinds(bytes(wire.streams[0, 1])) == ["FINI"]


@pytest.mark.clause("3.7.4")
@pytest.mark.parametrize(("length", "synchronous"), [(3, False), (3, True), (50, False)])
def test_cancel_of_an_unmatched_message_destroys_it(length, synchronous):
    left, right, wire = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous)
    wire.settle()
    left.machine.cancel(out)
    left.machine.cancel(out)  # a second time asks nothing more
    assert not out.done and out.cancelled is None
    wire.settle()
    assert (out.cancelled, out.done) == (True, True)  # type: ignore[comparison-overlap]
    assert kinds(bytes(wire.streams[0, 1])) == [PacketType(int(synchronous or length > LIMIT)).name, "CANCEL"]
    assert kinds(bytes(wire.streams[1, 0])) == ["PROTOACK", "CANCELYES"]
    assert len(right.dropped) == 1 and not right.waiting and right.dropped[0].cancelled
    with pytest.raises(LocalProtocolError, match="cancelled"):
        right.machine.accept(right.dropped[0], memoryview(bytearray(length)))


@pytest.mark.clause("3.7.4")
@pytest.mark.parametrize(("length", "synchronous"), [(3, False), (3, True), (50, False)])
def test_cancel_of_a_matched_message_is_answered_no_even_after_the_syncack(length, synchronous):
    left, right, wire = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous)
    wire.settle()
    right.accept()
    wire.write(1, 0)  # a SYNCACK, where there is one, is on its way
    left.machine.cancel(out)
    wire.settle()
    assert (out.cancelled, out.done) == (False, True)
    assert kinds(bytes(wire.streams[1, 0])).count("CANCELNO") == 1
    assert right.got[0][0].done and right.got[0][1] == octets(length)


@pytest.mark.clause("3.7.4")
def test_cancel_after_the_syncack_is_decided_here():
    left, _, wire = pair()
    out = left.send(1, b"abc", synchronous=True)
    wire.settle()
    left.machine.cancel(out)
    assert (out.cancelled, out.done) == (False, True)
    assert "CANCEL" not in kinds(bytes(wire.streams[0, 1]))


@pytest.mark.clause("3.7.4")
def test_cancel_reaches_the_newest_message_of_a_reused_request_id():
    job = make_job([[1], [1]], ackmark=100, hiwater=100)
    left, right = job.procs
    side = Side(job, 1, eager=False)

    def data(tag: int) -> bytes:
        return pack_header(Header(0, 1, left.ipv6, left.pid, right.ipv6, right.pid, 7, 0, 1, 0, tag)) + b"x"

    cancel = pack_header(Header(4, 0, left.ipv6, left.pid, right.ipv6, right.pid, 7))
    side.handle(feed(side.machine, 0, data(1) + data(2) + data(3) + cancel))
    assert [incoming.tag for incoming in side.waiting] == [1, 2]
    side.handle(feed(side.machine, 0, cancel))  # those left belong to no active request
    assert [incoming.tag for incoming in side.waiting] == [1, 2]
    side.handle(feed(side.machine, 0, data(4)))
    side.accept(2)
    side.handle(feed(side.machine, 0, cancel))  # the newest has been matched
    assert [incoming.tag for incoming in side.waiting] == [1, 2]
    assert kinds(drain(side.machine, 0)) == ["CANCELYES", "CANCELNO", "CANCELNO"]


@pytest.mark.clause("3.6")
def test_cancels_count_as_packets():
    left, _, wire = pair(ackmark=1, hiwater=1, eager=False)
    out = left.send(1, b"abc")
    wire.write(0, 1)
    left.machine.cancel(out)
    assert not left.machine.wants_write(1)
    wire.settle()
    assert out.cancelled
    assert kinds(bytes(wire.streams[1, 0])) == ["PROTOACK", "PROTOACK", "CANCELYES"]
    assert kinds(bytes(wire.streams[0, 1])) == ["DATA", "CANCEL", "PROTOACK"]


# Finalization, 3.8


@pytest.mark.clause("3.8")
def test_fini_goes_behind_held_packets_and_ends_when_both_have_come():
    left, right, wire = pair(ackmark=1, hiwater=1)
    for i in range(5):
        left.send(1, bytes([i]))
    left.machine.finish()
    wire.settle()
    assert kinds(bytes(wire.streams[0, 1])) == ["DATA"] * 5 + ["FINI"]
    assert left.machine.idle and not left.machine.finished
    right.machine.finish()
    assert not right.machine.finished and not right.machine.idle
    wire.settle()
    assert left.machine.finished and right.machine.finished
    left.machine.eof(1)
    right.machine.eof(0)


def test_nothing_is_sent_any_more_after_both_finis():
    """The peer may have closed by then; an acknowledgement would run into a reset."""
    job = make_job([[1], [1]], ackmark=1, hiwater=1)
    me, peer = job.procs
    side = Side(job, 0, eager=False)
    side.handle(feed(side.machine, 1, pack_header(Header(1, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, 1))))
    side.machine.finish()
    assert kinds(drain(side.machine, 1)) == ["PROTOACK", "FINI"]
    feed(side.machine, 1, pack_header(Header(1, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, 2)) + pack_header(Header(7)))
    side.accept()
    assert side.machine.finished and side.machine.idle
    assert not side.machine.wants_write(1) and side.machine.data_to_send(1) == []
    side.machine.eof(1)


@pytest.mark.clause("3.8")
def test_acknowledgements_go_on_after_our_fini():
    left, right, wire = pair(ackmark=1, hiwater=2, eager=False)
    early = left.send(1, b"early", synchronous=True)
    wire.settle()
    right.machine.finish()
    wire.settle()
    late = [left.send(1, octets(n)) for n in (3, 0, 50)]  # nobody will match these
    wire.settle()
    assert len(right.waiting) == 1
    left.machine.cancel(late[2])
    wire.settle()
    assert late[0].done and late[1].done and late[2].cancelled is False
    right.accept()
    wire.settle()
    assert early.done
    assert [k for k in kinds(bytes(wire.streams[1, 0])) if k != "PROTOACK"] == ["FINI", "CANCELNO", "SYNCACK"]
    left.machine.finish()
    wire.settle()
    assert left.machine.finished and right.machine.finished


@pytest.mark.clause("3.8")
def test_nothing_but_acknowledgements_may_be_asked_for_after_finish():
    left, _, wire = pair(eager=False)
    out = left.send(1, b"abc")
    wire.settle()
    left.machine.finish()
    with pytest.raises(LocalProtocolError, match=r"3\.8"):
        left.send(1, b"late")
    with pytest.raises(LocalProtocolError, match=r"3\.8"):
        left.machine.cancel(out)


def test_channels_are_those_of_other_clients():
    job = make_job([[1, 1], [2, 1], [1]])
    assert Transfer(job, 0).hosts == (2, 3, 4)
    assert Transfer(job, 3).hosts == (0, 1, 4)
    with pytest.raises(LocalProtocolError, match="rank 1 is not a process of another client"):
        Transfer(job, 0).send(1, cid=0, tag=0, lsrank=0, views=[])
    with pytest.raises(LocalProtocolError, match="no channel with host 1"):
        Transfer(job, 0).get_buffer(1)


# All of it

MESSAGE = st.tuples(st.integers(0, 5 * LIMIT), st.booleans(), st.integers(1, 4))


@settings(deadline=None, max_examples=150)
@given(
    messages=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), MESSAGE), max_size=40),
    maxdatalen=st.sampled_from([1, 3, LIMIT, 1000]),
    ackmark=st.integers(1, 4),
    more=st.integers(0, 4),
    eager=st.booleans(),
    data=st.data(),
)
def test_nothing_is_lost_duplicated_or_reordered(messages, maxdatalen, ackmark, more, eager, data):
    """Three clients of one process, every size and mode, any split, early or late match."""
    job = make_job([[1], [1], [1]], maxdatalen=maxdatalen, ackmark=ackmark, hiwater=ackmark + more)
    sides = [Side(job, rank, eager=eager) for rank in range(3)]
    rng = data.draw(st.randoms(use_true_random=True))  # by a seed: a draw for each choice is more than data holds
    wire = Wire(*sides, chunk=lambda: rng.choice([1, 7, 127, 128, 129, 500]))
    todo = [(source, (source + step) % 3, message) for source, step, message in messages]
    expected: dict[tuple[int, int], list[bytes]] = {}
    outs = []
    turns = 0
    # Chance moves a packet in some hundred turns if each waits for a PROTOACK.
    needed = sum(1 + length // maxdatalen for _, _, (length, _, _) in messages)
    while todo or any(side.waiting or not side.machine.idle for side in sides) or any(wire.under_way.values()):
        turns += 1
        assert turns < 20_000 + 2_000 * needed, "stuck"
        choice = rng.randrange(4)
        a = rng.randrange(3)
        b = (a + rng.randrange(1, 3)) % 3
        if choice == 0 and todo:
            source, dest, (length, synchronous, pieces) = todo.pop(0)
            text = octets(length, len(todo))
            expected.setdefault((source, dest), []).append(text)
            outs.append(sides[source].send(dest, text, synchronous=synchronous, pieces=pieces))
        elif choice == 1:
            wire.write(a, b, rng.choice([1, 100, 1000, 1 << 20]))
        elif choice == 2:
            wire.read(a, b, rng.choice([1, 128, 1000, 1 << 20]))
        elif sides[a].waiting:
            sides[a].accept()
    got: dict[tuple[int, int], list[bytes]] = {}
    for side in sides:
        for incoming, room in side.got:
            assert incoming.done
            got.setdefault((incoming.source, side.rank), []).append(bytes(room))
    assert got == expected
    assert all(out.done and out.handed for out in outs)
    wire.finish()
    wire.check_credit(ackmark, ackmark + more)
    for stream in wire.streams.values():
        assert all(len(payload) <= maxdatalen for _, payload in packets(bytes(stream)))
