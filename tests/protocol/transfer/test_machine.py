"""IMPI 3.5 to 3.8 between machines of ours, wired in memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_world import LIMIT, Proc, World, drain, feed, make_job, packets

from impi.base.errors import LocalProtocolError
from impi.protocol.transfer import Arrived, Transfer
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, pack_header


def kinds(stream: bytes) -> list[str]:
    return [PacketType(header.pk_type).name for header, _ in packets(stream)]


def pair(**options) -> tuple[Proc, Proc, World]:
    eager = options.pop("eager", True)
    job = make_job([[1], [1]], **options)
    left, right = Proc(job, 0, eager=eager), Proc(job, 1, eager=eager)
    return left, right, World(left, right)


def octets(length: int, seed: int = 0) -> bytes:
    return bytes((i * 7 + seed) & 255 for i in range(length))


@pytest.mark.clause("3.7")
@pytest.mark.clause("3.7.1")
@pytest.mark.parametrize("length", [0, 1, LIMIT - 1, LIMIT])
@pytest.mark.parametrize("synchronous", [False, True])
def test_short_message_is_one_packet(length, synchronous):
    left, right, world = pair(eager=False)
    out = left.send(1, octets(length), tag=5, synchronous=synchronous)
    world.run()
    ((header, data),) = packets(bytes(world.links[0, 1].sent))
    assert header.pk_type == (PacketType.DATASYNC if synchronous else PacketType.DATA)
    assert (header.pk_len, header.msglen, data) == (length, length, octets(length))
    assert (header.tag, header.lsrank, header.drqid) == (5, 0, 0)
    assert out.handed and out.done is not synchronous
    incoming = right.accept()
    assert incoming.done and right.received[0][1] == octets(length)
    world.run()
    assert out.done
    assert kinds(bytes(world.links[1, 0].sent)) == (["SYNCACK"] if synchronous else [])


@pytest.mark.clause("3.7")
@pytest.mark.clause("3.7.2")
@pytest.mark.parametrize("length", [LIMIT + 1, 2 * LIMIT, 3 * LIMIT + 5])
@pytest.mark.parametrize("synchronous", [False, True])
def test_long_message_waits_after_its_first_packet(length, synchronous):
    left, right, world = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous, pieces=5)
    world.run()
    assert kinds(bytes(world.links[0, 1].sent)) == ["DATASYNC"]
    assert not out.handed and not out.done and left.machine.idle
    right.accept()
    world.run()
    sent = list(packets(bytes(world.links[0, 1].sent)))
    assert [h.pk_type for h, _ in sent[1:] if h.pk_type != PacketType.PROTOACK] == [
        0
    ] * (-(-length // LIMIT) - 1)
    ((ack, _),) = [
        p
        for p in packets(bytes(world.links[1, 0].sent))
        if p[0].pk_type == PacketType.SYNCACK
    ]
    assert ack.srqid == sent[0][0].srqid
    assert (
        {h.drqid for h, _ in sent[1:] if h.pk_type == PacketType.DATA}
        == {ack.drqid}
        != {0}
    )
    assert all(
        h.msglen == length and h.srqid == ack.srqid
        for h, _ in sent
        if h.pk_type == PacketType.DATA
    )
    assert (
        out.done
        and right.received[0][0].done
        and right.received[0][1] == octets(length)
    )


@pytest.mark.clause("3.5")
def test_header_only_packets_are_zero_where_table_3_1_is_silent():
    left, right, world = pair(ackmark=1, hiwater=1)
    left.send(1, b"abc", synchronous=True, tag=9)
    world.run()
    world.finish()
    by_kind = {
        h.pk_type: h
        for link in world.links.values()
        for h, _ in packets(bytes(link.sent))
    }
    me, peer = (make_job([[1], [1]]).procs[i] for i in (0, 1))
    ack = by_kind[PacketType.SYNCACK]
    assert ack == Header(3, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, ack.srqid)
    assert by_kind[PacketType.FINI] == Header(7)
    # One each way: for the message, and for the SYNCACK, which counts as well.
    acks = [
        h
        for link in world.links.values()
        for h, _ in packets(bytes(link.sent))
        if h.pk_type == 2
    ]
    assert sorted(acks) == [
        Header(2, 0, me.ipv6, me.pid, peer.ipv6, peer.pid),
        Header(2, 0, peer.ipv6, peer.pid, me.ipv6, me.pid),
    ]
    assert right.machine.finished


@pytest.mark.clause("3.9")
def test_maxdatalen_one():
    left, right, world = pair(maxdatalen=1, ackmark=1, hiwater=1)
    outs = [left.send(1, octets(length, length)) for length in (0, 1, 2, 7)]
    world.run()
    assert [bytes(room) for _, room in right.received] == [
        octets(length, length) for length in (0, 1, 2, 7)
    ]
    assert all(out.done for out in outs)


@pytest.mark.clause("3.6")
def test_sender_stops_at_hiwater_and_goes_on_by_ackmark():
    left, right, world = pair(ackmark=2, hiwater=4)
    outs = [left.send(1, bytes([i])) for i in range(7)]
    assert len(list(packets(drain(left.machine, 1)))) == 4
    assert [out.handed for out in outs] == [True] * 4 + [False] * 3
    assert not left.machine.wants_write(1) and not left.machine.idle
    right.send(0, b"")  # any packet but a PROTOACK opens nothing
    world.write(1, 0)
    world.read(1, 0)
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
    outs = [
        machine.send(dest, cid=0, tag=0, lsrank=0, views=[memoryview(bytes(160))])
        for dest in (1, 1, 2)
    ]
    first = list(packets(drain(machine, 1)))
    assert [h.pk_type for h, _ in first] == [1, 1, 1]
    me = job.procs[0]
    for number, (out, dest) in enumerate(zip(outs, (1, 1, 2), strict=True)):
        peer = job.procs[dest]
        feed(
            machine,
            1,
            pack_header(
                Header(
                    3,
                    0,
                    peer.ipv6,
                    peer.pid,
                    me.ipv6,
                    me.pid,
                    out.header.srqid,
                    77 + number,
                )
            ),
        )
    order = [h.drqid for h, _ in packets(drain(machine, 1))]
    assert order[:12] == [77, 79, 78, 79] * 3
    assert sorted(order) == [77] * 9 + [78] * 9 + [79] * 9
    assert all(out.done for out in outs)


def test_short_messages_are_not_starved_by_a_long_one():
    left, right, world = pair(ackmark=1, hiwater=1)
    left.send(1, bytes(1600))
    for _ in range(3):
        world.write(0, 1)
        world.read(0, 1)
        world.write(1, 0)
        world.read(1, 0)
    left.send(1, b"now", tag=1)
    for _ in range(3):
        world.write(0, 1)
        world.read(0, 1)
        world.write(1, 0)
        world.read(1, 0)
    done = {incoming.header.tag: incoming.done for incoming, _ in right.received}
    assert done == {0: False, 1: True}


def test_no_lane_starves_another():
    """With credit for one packet: acknowledgements, messages and a long one take turns."""
    job = make_job([[1], [1]], ackmark=1, hiwater=1)
    left, right = job.procs
    proc = Proc(job, 0)

    def from_peer(kind: int, srqid: int) -> bytes:
        return pack_header(
            Header(kind, 0, right.ipv6, right.pid, left.ipv6, left.pid, srqid)
        )

    long = proc.send(1, bytes(5 * LIMIT))
    sent = drain(proc.machine, 1)
    feed(proc.machine, 1, from_peer(PacketType.SYNCACK, long.header.srqid))
    sent += drain(proc.machine, 1)
    for i in range(9):
        proc.send(1, bytes([i]), tag=1)
        # accepted: a SYNCACK is due
        proc.handle(feed(proc.machine, 1, from_peer(PacketType.DATASYNC, i)))
        sent += drain(proc.machine, 1)  # its PROTOACK
    for _ in range(12):
        feed(proc.machine, 1, from_peer(PacketType.PROTOACK, 0))
        sent += drain(proc.machine, 1)
    lanes = [
        "ack" if h.pk_type == PacketType.SYNCACK else "short" if h.tag == 1 else "long"
        for h, _ in packets(sent)
        if h.pk_type != PacketType.PROTOACK
    ]
    assert sorted(lanes[1:13]) == ["ack"] * 4 + ["long"] * 4 + ["short"] * 4
    assert all(len(set(lanes[i : i + 3])) == 3 for i in range(1, 13, 3))


def test_payload_goes_directly_to_the_accepted_view():
    """No read of user data of a long message goes anywhere but to its place."""
    left, right, world = pair(maxdatalen=1 << 20, eager=False)
    data = octets(3 << 20)
    left.send(1, data)
    world.write(0, 1)
    world.read(0, 1)
    incoming = right.unexpected[0]
    place = bytearray(len(data))
    right.machine.accept(incoming, memoryview(place))
    world.write(1, 0)
    world.read(1, 0)
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
    left, right, world = pair(ackmark=2, hiwater=2, eager=False)
    for i in range(9):
        left.send(1, octets(i, i))
    world.run()
    assert left.machine.idle and len(right.unexpected) == 9
    for _ in range(9):
        right.accept(-1)
    assert [bytes(room) for _, room in right.received] == [
        octets(i, i) for i in reversed(range(9))
    ]


def test_many_small_views_are_sent_64_at_a_time():
    left, right, world = pair(maxdatalen=1000)
    data = octets(900)
    out = left.send(1, data, pieces=300)
    assert len(left.machine.data_to_send(1)) == 64
    world.run()
    assert out.done and right.received[0][1] == data


def test_buffers_are_let_go_when_done():
    left, right, world = pair()
    data = bytearray(40)
    out = left.machine.send(1, cid=0, tag=0, lsrank=0, views=[memoryview(data)])
    world.run()
    assert out.done
    data.append(1)  # BufferError while a view of it lives
    right.received[0][1].append(1)


# Cancellation, 3.7.4


@pytest.mark.clause("3.7.4")
def test_cancel_before_anything_left_is_decided_here():
    left, _, world = pair()
    out = left.send(1, b"abc")
    left.machine.cancel(out)
    assert (out.cancelled, out.done) == (True, True)
    assert left.machine.idle and not left.machine.wants_write(1)
    world.finish()
    assert kinds(bytes(world.links[0, 1].sent)) == ["FINI"]


@pytest.mark.clause("3.7.4")
@pytest.mark.parametrize(
    ("length", "synchronous"), [(3, False), (3, True), (50, False)]
)
def test_cancel_of_an_unmatched_message_destroys_it(length, synchronous):
    left, right, world = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous)
    world.run()
    left.machine.cancel(out)
    left.machine.cancel(out)  # a second time asks nothing more
    assert not out.done and out.cancelled is None
    world.run()
    assert (out.cancelled, out.done) == (True, True)  # type: ignore[comparison-overlap]
    assert kinds(bytes(world.links[0, 1].sent)) == [
        PacketType(int(synchronous or length > LIMIT)).name,
        "CANCEL",
    ]
    assert kinds(bytes(world.links[1, 0].sent)) == ["PROTOACK", "CANCELYES"]
    assert (
        len(right.cancelled) == 1
        and not right.unexpected
        and right.cancelled[0].cancelled
    )
    with pytest.raises(LocalProtocolError, match="cancelled"):
        right.machine.accept(right.cancelled[0], memoryview(bytearray(length)))


@pytest.mark.clause("3.7.4")
@pytest.mark.parametrize(
    ("length", "synchronous"), [(3, False), (3, True), (50, False)]
)
def test_cancel_of_a_matched_message_is_answered_no_even_after_the_syncack(
    length, synchronous
):
    left, right, world = pair(eager=False)
    out = left.send(1, octets(length), synchronous=synchronous)
    world.run()
    right.accept()
    world.write(1, 0)  # a SYNCACK, where there is one, is on its way
    left.machine.cancel(out)
    world.run()
    assert (out.cancelled, out.done) == (False, True)
    assert kinds(bytes(world.links[1, 0].sent)).count("CANCELNO") == 1
    assert right.received[0][0].done and right.received[0][1] == octets(length)


@pytest.mark.clause("3.7.4")
def test_cancel_after_the_syncack_is_decided_here():
    left, _, world = pair()
    out = left.send(1, b"abc", synchronous=True)
    world.run()
    left.machine.cancel(out)
    assert (out.cancelled, out.done) == (False, True)
    assert "CANCEL" not in kinds(bytes(world.links[0, 1].sent))


@pytest.mark.clause("3.7.4")
def test_cancel_reaches_the_newest_message_of_a_reused_request_id():
    job = make_job([[1], [1]], ackmark=100, hiwater=100)
    left, right = job.procs
    proc = Proc(job, 1, eager=False)

    def data(tag: int) -> bytes:
        return (
            pack_header(
                Header(
                    0, 1, left.ipv6, left.pid, right.ipv6, right.pid, 7, 0, 1, 0, tag
                )
            )
            + b"x"
        )

    cancel = pack_header(Header(4, 0, left.ipv6, left.pid, right.ipv6, right.pid, 7))
    proc.handle(feed(proc.machine, 0, data(1) + data(2) + data(3) + cancel))
    assert [incoming.header.tag for incoming in proc.unexpected] == [1, 2]
    proc.handle(feed(proc.machine, 0, cancel))  # those left belong to no active request
    assert [incoming.header.tag for incoming in proc.unexpected] == [1, 2]
    proc.handle(feed(proc.machine, 0, data(4)))
    proc.accept(2)
    proc.handle(feed(proc.machine, 0, cancel))  # the newest has been matched
    assert [incoming.header.tag for incoming in proc.unexpected] == [1, 2]
    assert kinds(drain(proc.machine, 0)) == ["CANCELYES", "CANCELNO", "CANCELNO"]


@pytest.mark.clause("3.6")
def test_cancels_count_as_packets():
    left, _, world = pair(ackmark=1, hiwater=1, eager=False)
    out = left.send(1, b"abc")
    world.write(0, 1)
    left.machine.cancel(out)
    assert not left.machine.wants_write(1)
    world.run()
    assert out.cancelled
    assert kinds(bytes(world.links[1, 0].sent)) == ["PROTOACK", "PROTOACK", "CANCELYES"]
    assert kinds(bytes(world.links[0, 1].sent)) == ["DATA", "CANCEL", "PROTOACK"]


# Finalization, 3.8


@pytest.mark.clause("3.8")
def test_fini_goes_behind_held_packets_and_ends_when_both_have_come():
    left, right, world = pair(ackmark=1, hiwater=1)
    for i in range(5):
        left.send(1, bytes([i]))
    left.machine.finish()
    world.run()
    assert kinds(bytes(world.links[0, 1].sent)) == ["DATA"] * 5 + ["FINI"]
    assert left.machine.idle and not left.machine.finished
    right.machine.finish()
    assert not right.machine.finished and not right.machine.idle
    world.run()
    assert left.machine.finished and right.machine.finished
    left.machine.eof(1)
    right.machine.eof(0)


def test_nothing_is_sent_any_more_after_both_finis():
    """The peer may have closed by then; an acknowledgement would run into a reset."""
    job = make_job([[1], [1]], ackmark=1, hiwater=1)
    me, peer = job.procs
    proc = Proc(job, 0, eager=False)
    proc.handle(
        feed(
            proc.machine,
            1,
            pack_header(Header(1, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, 1)),
        )
    )
    proc.machine.finish()
    assert kinds(drain(proc.machine, 1)) == ["PROTOACK", "FINI"]
    feed(
        proc.machine,
        1,
        pack_header(Header(1, 0, peer.ipv6, peer.pid, me.ipv6, me.pid, 2))
        + pack_header(Header(7)),
    )
    proc.accept()
    assert proc.machine.finished and proc.machine.idle
    assert not proc.machine.wants_write(1) and proc.machine.data_to_send(1) == []
    proc.machine.eof(1)


@pytest.mark.clause("3.8")
def test_acknowledgements_go_on_after_our_fini():
    left, right, world = pair(ackmark=1, hiwater=2, eager=False)
    early = left.send(1, b"early", synchronous=True)
    world.run()
    right.machine.finish()
    world.run()
    late = [left.send(1, octets(n)) for n in (3, 0, 50)]  # nobody will match these
    world.run()
    assert len(right.unexpected) == 1
    left.machine.cancel(late[2])
    world.run()
    assert late[0].done and late[1].done and late[2].cancelled is False
    right.accept()
    world.run()
    assert early.done
    assert [k for k in kinds(bytes(world.links[1, 0].sent)) if k != "PROTOACK"] == [
        "FINI",
        "CANCELNO",
        "SYNCACK",
    ]
    left.machine.finish()
    world.run()
    assert left.machine.finished and right.machine.finished


@pytest.mark.clause("3.8")
def test_nothing_but_acknowledgements_may_be_asked_for_after_finish():
    left, _, world = pair(eager=False)
    out = left.send(1, b"abc")
    world.run()
    left.machine.finish()
    with pytest.raises(LocalProtocolError, match=r"3\.8"):
        left.send(1, b"late")
    with pytest.raises(LocalProtocolError, match=r"3\.8"):
        left.machine.cancel(out)


def test_channels_are_those_of_other_clients():
    job = make_job([[1, 1], [2, 1], [1]])
    assert tuple(Transfer(job, 0).hosts.channels) == (2, 3, 4)
    assert tuple(Transfer(job, 3).hosts.channels) == (0, 1, 4)
    with pytest.raises(
        LocalProtocolError, match="rank 1 is not a process of another client"
    ):
        Transfer(job, 0).send(1, cid=0, tag=0, lsrank=0, views=[])
    with pytest.raises(LocalProtocolError, match="no channel with host 1"):
        Transfer(job, 0).get_buffer(1)


# All of it

MESSAGE = st.tuples(st.integers(0, 5 * LIMIT), st.booleans(), st.integers(1, 4))


@settings(deadline=None, max_examples=150)
@given(
    messages=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 2), MESSAGE), max_size=40
    ),
    maxdatalen=st.sampled_from([1, 3, LIMIT, 1000]),
    ackmark=st.integers(1, 4),
    more=st.integers(0, 4),
    eager=st.booleans(),
    data=st.data(),
)
def test_nothing_is_lost_duplicated_or_reordered(
    messages, maxdatalen, ackmark, more, eager, data
):
    """Three clients of one process, every size and mode, any split, early or late match."""
    job = make_job(
        [[1], [1], [1]], maxdatalen=maxdatalen, ackmark=ackmark, hiwater=ackmark + more
    )
    procs = [Proc(job, rank, eager=eager) for rank in range(3)]
    # By a seed: a draw for each choice is more than data holds
    rng = data.draw(st.randoms(use_true_random=True))
    world = World(*procs, chunk=lambda: rng.choice([1, 7, 127, 128, 129, 500]))
    todo = [
        (source, (source + step) % 3, message) for source, step, message in messages
    ]
    expected: dict[tuple[int, int], list[bytes]] = {}
    outs = []
    turns = 0
    # Chance moves a packet in some hundred turns if each waits for a PROTOACK.
    needed = sum(1 + length // maxdatalen for _, _, (length, _, _) in messages)
    while (
        todo
        or any(proc.unexpected or not proc.machine.idle for proc in procs)
        or any(link.under_way for link in world.links.values())
    ):
        turns += 1
        assert turns < 20_000 + 2_000 * needed, "stuck"
        choice = rng.randrange(4)
        a = rng.randrange(3)
        b = (a + rng.randrange(1, 3)) % 3
        if choice == 0 and todo:
            source, dest, (length, synchronous, pieces) = todo.pop(0)
            text = octets(length, len(todo))
            expected.setdefault((source, dest), []).append(text)
            outs.append(
                procs[source].send(dest, text, synchronous=synchronous, pieces=pieces)
            )
        elif choice == 1:
            world.write(a, b, rng.choice([1, 100, 1000, 1 << 20]))
        elif choice == 2:
            world.read(a, b, rng.choice([1, 128, 1000, 1 << 20]))
        elif procs[a].unexpected:
            procs[a].accept()
    got: dict[tuple[int, int], list[bytes]] = {}
    for proc in procs:
        for incoming, room in proc.received:
            assert incoming.done
            got.setdefault((incoming.source, proc.rank), []).append(bytes(room))
    assert got == expected
    assert all(out.done and out.handed for out in outs)
    world.finish()
    world.check_credit(ackmark, ackmark + more)
    for link in world.links.values():
        assert all(
            len(payload) <= maxdatalen for _, payload in packets(bytes(link.sent))
        )
