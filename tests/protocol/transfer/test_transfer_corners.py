"""Rare turns of the transfer machine: lent buffers, empty views, late acknowledgements."""

from typing import Any

import pytest
from transfer_world import Proc, drain, feed, make_job, packets

from impi.base.errors import PeerError
from impi.protocol.transfer import Transfer
from impi.protocol.wire.packets import Header, PacketType, pack_header

JOB = make_job([[1], [1]], maxdatalen=16, ackmark=2, hiwater=4)
ME, PEER = JOB.procs


def header(kind: int, **fields: Any) -> bytes:
    return pack_header(
        Header(int(kind), 0, PEER.ipv6, PEER.pid, ME.ipv6, ME.pid)._replace(**fields)
    )


def data(text: bytes, **fields: object) -> bytes:
    return header(PacketType.DATA, pk_len=len(text), msglen=len(text), **fields) + text


def kinds(stream: bytes) -> list[str]:
    return [PacketType(h.pk_type).name for h, _ in packets(stream)]


def test_empty_views_between_others():
    proc = Proc(JOB, 0)
    views = [memoryview(text) for text in (b"", b"ab", b"", b"", b"cde", b"")]
    proc.machine.send(1, cid=0, tag=0, lsrank=0, views=views)
    assert [text for _, text in packets(drain(proc.machine, 1))] == [b"abcde"]


def test_a_continuation_read_ahead_into_a_buffer_lent_before_the_match():
    proc = Proc(JOB, 0, eager=False)
    proc.handle(
        feed(
            proc.machine,
            1,
            header(PacketType.DATASYNC, pk_len=16, msglen=20, srqid=3)
            + bytes(range(16)),
        )
    )
    room = proc.machine.get_buffer(1)
    proc.accept()
    ((ack, _),) = packets(drain(proc.machine, 1))
    rest = header(
        PacketType.DATA, pk_len=4, msglen=20, srqid=3, drqid=ack.drqid
    ) + bytes(range(16, 20))
    rest += data(b"next")
    room[: len(rest)] = rest
    proc.handle(proc.machine.received(1, len(rest)))
    assert proc.received[0][0].done and proc.received[0][1] == bytes(range(20))
    proc.accept()
    assert proc.received[1][1] == b"next"


def test_user_data_read_ahead_for_a_match_made_in_the_same_turn():
    """The packet ends in the next read: read-ahead octets have moved to their place before."""
    proc = Proc(JOB, 0)
    whole = data(b"abcdefgh")
    for piece in (whole[:130], whole[130:]):
        proc.handle(feed(proc.machine, 1, piece))
    assert proc.received[0][0].done and proc.received[0][1] == b"abcdefgh"


def test_cancel_of_one_of_several_that_wait():
    proc = Proc(JOB, 0)
    outs = [proc.send(1, bytes([i])) for i in range(6)]
    proc.machine.cancel(outs[1])  # the path stays in the round for the others
    assert len(list(packets(drain(proc.machine, 1)))) == 4
    proc.machine.cancel(outs[5])  # held at hiwater: not in the round
    assert [out.cancelled for out in outs] == [None, True, None, None, None, True]
    assert proc.machine.idle


@pytest.mark.clause("3.7.4")
def test_an_older_message_of_a_reused_id_is_matched():
    proc = Proc(JOB, 0, eager=False)
    proc.handle(
        feed(
            proc.machine, 1, data(b"old", srqid=7, tag=1) + data(b"new", srqid=7, tag=2)
        )
    )
    proc.accept(0)
    proc.handle(feed(proc.machine, 1, header(PacketType.CANCEL, srqid=7)))
    assert [incoming.header.tag for incoming in proc.cancelled] == [2]
    assert kinds(drain(proc.machine, 1)) == ["PROTOACK", "CANCELYES"]


def test_no_protoack_once_both_have_said_fini():
    """Acknowledgements may follow a FINI and count; but then nobody is left to be acknowledged."""
    proc = Proc(JOB, 0)
    outs = [proc.send(1, b"x", synchronous=True) for _ in range(2)]
    drain(proc.machine, 1)
    proc.machine.finish()
    drain(proc.machine, 1)
    feed(proc.machine, 1, header(PacketType.FINI))
    for out in outs:
        feed(proc.machine, 1, header(PacketType.SYNCACK, srqid=out.header.srqid))
    assert all(out.done for out in outs) and proc.machine.finished
    assert not proc.machine.wants_write(1) and proc.machine.idle


@pytest.mark.clause("3.6")
def test_a_peer_that_overruns_hiwater_and_never_reads():
    """PROTOACKs for its first packets are still here, so it has none: the pile is bounded."""
    machine = Transfer(JOB, 0)
    assert len(feed(machine, 1, data(b"x") * 4)) == 4
    with pytest.raises(PeerError) as caught:
        feed(machine, 1, data(b"y"))
    error = caught.value
    assert (
        error.clause == "3.6"
        and error.peer == "host 1 of client 1 (10.0.0.2 port 5001)"
    )
    assert (
        "sent a packet while 4 were unacknowledged; it must wait at hiwater, 4"
        in str(error)
    )
    assert error.octets == data(b"y")[:128]


def test_a_peer_whose_protoacks_are_on_their_way_may_go_on():
    machine = Transfer(JOB, 0)
    feed(machine, 1, data(b"x") * 4)
    # The second one not completely
    machine.sent(1, len(b"".join(machine.data_to_send(1))) - 1)
    feed(machine, 1, data(b"y") * 2)
    with pytest.raises(PeerError, match="while 4 were unacknowledged"):
        feed(machine, 1, data(b"z"))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("after", [0, 128, 130, 144])
@pytest.mark.parametrize("lent", [False, True])
def test_a_message_that_nobody_wants(chunk, after, lent):
    """Accepted without a place at any time: its octets are dropped, all else is as usual."""
    proc = Proc(JOB, 0, eager=False)
    first = header(PacketType.DATASYNC, pk_len=16, msglen=40, srqid=3) + bytes(16)
    rest = header(PacketType.DATA, pk_len=16, msglen=40, srqid=3, drqid=1) + bytes(16)
    rest += header(PacketType.DATA, pk_len=8, msglen=40, srqid=3, drqid=1) + bytes(8)
    begin = max(after, 128)
    proc.handle(feed(proc.machine, 1, first[:begin], lambda: chunk))
    incoming = proc.unexpected.pop()
    if lent and begin < 144:
        room = proc.machine.get_buffer(1)
        proc.machine.accept(incoming, None)
        room[:1] = first[begin : begin + 1]
        proc.machine.received(1, 1)
        begin += 1
    else:
        proc.machine.accept(incoming, None)
    assert not incoming.done and incoming.view is incoming.stash is None
    stream = first[begin:] + rest + data(b"next")
    assert proc.machine.wants_write(1)
    proc.handle(feed(proc.machine, 1, stream, lambda: chunk))
    assert incoming.done and incoming.available
    proc.accept()
    assert proc.received[0][1] == b"next"
    assert "SYNCACK" in kinds(drain(proc.machine, 1))


def test_it_is_known_where_a_stream_ends_inside_a_packet():
    machine = Proc(JOB, 0).machine
    whole = data(b"octets")
    assert not machine.inside(1)
    for cut in (1, 127, 130):
        feed(machine, 1, whole[:cut])
        assert machine.inside(1)
        feed(machine, 1, whole[cut:])
        assert not machine.inside(1)
