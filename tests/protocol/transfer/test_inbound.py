"""Forbidden packets of a peer, one each; errors name the host, the clause, the octets."""

from typing import Any

import pytest
from transfer_world import Proc, drain, feed, make_job

from impi.base.errors import HungUp, JobError, LocalProtocolError, PeerError
from impi.protocol.transfer import Transfer
from impi.protocol.wire.packets import Header, PacketType, pack_header

JOB = make_job([[1], [1, 1]], maxdatalen=16, ackmark=2, hiwater=8)
ME, PEER, OTHER = JOB.procs
HOST = PEER.host


def header(kind: int, **fields: Any) -> bytes:
    base = Header(kind, 0, PEER.ipv6, PEER.pid, ME.ipv6, ME.pid)
    return pack_header(base._replace(**fields))


DATA, DATASYNC, PROTOACK, SYNCACK, CANCEL, CANCELYES, CANCELNO, FINI = (
    int(kind) for kind in PacketType
)
FIRST = header(DATASYNC, pk_len=16, msglen=40, srqid=5) + bytes(16)
"""The first packet of a long message; accepted, it gets drqid 1."""

BAD = {
    "unknown type": (header(8), "3.5", "unknown type 8"),
    "absurd type": (header(2**32 - 1), "3.5", "unknown type 4294967295"),
    "unknown source pid": (
        header(DATA, src_pid=1),
        "3.2",
        "a process that is not in this job",
    ),
    "unknown source address": (
        header(SYNCACK, src_ipv6=bytes(16)),
        "3.2",
        "a process that is not in this job",
    ),
    "source of another host": (
        header(DATA, src_ipv6=OTHER.ipv6, src_pid=OTHER.pid),
        "3.2",
        "rank 2, which is not",
    ),
    "source is the receiver": (
        header(DATA, src_ipv6=ME.ipv6, src_pid=ME.pid),
        "3.2",
        "rank 0, which is not",
    ),
    "unknown destination": (
        header(DATA, dest_pid=-1),
        "3.2",
        "for a process that is not in this job",
    ),
    "destination elsewhere": (
        header(DATA, dest_ipv6=OTHER.ipv6, dest_pid=OTHER.pid),
        "3.2",
        "for rank 2",
    ),
    "PROTOACK from nobody": (
        header(PROTOACK, src_pid=1),
        "3.2",
        "a process that is not in this job",
    ),
    "packet too long": (
        header(DATA, pk_len=17, msglen=17),
        "3.5",
        "17 octets in a packet, 16 were agreed",
    ),
    "absurd pk_len": (
        header(DATA, pk_len=2**32 - 1, msglen=4),
        "3.5",
        "4294967295 octets in a packet",
    ),
    "short, less data": (
        header(DATA, pk_len=3, msglen=4),
        "3.7.1",
        "3 octets of a short message of 4",
    ),
    "short, more data": (
        header(DATASYNC, pk_len=4, msglen=3),
        "3.7.1",
        "4 octets of a short message of 3",
    ),
    "zero, with data": (
        header(DATA, pk_len=4, msglen=0),
        "3.7.1",
        "4 octets of a short message of 0",
    ),
    "negative length": (
        header(DATASYNC, pk_len=16, msglen=2**64 - 1),
        "3.5",
        "a message of 18446744073709551615",
    ),
    "huge length": (
        header(DATASYNC, pk_len=16, msglen=2**63),
        "3.5",
        "a message of 9223372036854775808",
    ),
    "negative tag": (header(DATA, tag=-1), "3.4", "tag -1"),
    "tag above the bound": (header(DATA, tag=32768), "3.4", "tag 32768"),
    "negative local rank": (header(DATA, lsrank=-2), "3.4", "local rank -2"),
    "continuation of nothing": (
        header(DATA, pk_len=16, msglen=40, drqid=9),
        "3.7.2",
        "(drqid) 9",
    ),
    "acknowledges nothing": (header(SYNCACK, srqid=3), "3.7.2", "(srqid) 3"),
    "PROTOACK too many": (
        header(PROTOACK),
        "3.6",
        "acknowledges 2 packets, but only 0",
    ),
    "takes back nothing": (header(CANCELYES, srqid=1), "3.7.4", "(srqid) 1"),
    "refuses nothing": (header(CANCELNO, srqid=1), "3.7.4", "(srqid) 1"),
    "FINI twice": (header(FINI) + header(FINI), "3.8", "type 7 after its finalization"),
    "DATA after FINI": (
        header(FINI) + header(DATA),
        "3.8",
        "type 0 after its finalization",
    ),
    "DATASYNC after FINI": (
        header(FINI) + header(DATASYNC),
        "3.8",
        "type 1 after its finalization",
    ),
    "CANCEL after FINI": (
        header(FINI) + header(CANCEL),
        "3.8",
        "type 4 after its finalization",
    ),
}


@pytest.mark.clause("3.2")
@pytest.mark.clause("3.4")
@pytest.mark.clause("3.5")
@pytest.mark.clause("3.7.1")
@pytest.mark.clause("3.8")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("chunk", [1, 10_000])
def test_peer_error(name, chunk):
    octets, clause, words = BAD[name]
    machine = Transfer(JOB, 0)
    with pytest.raises(PeerError) as caught:
        feed(machine, HOST, octets, lambda: chunk)
    error = caught.value
    assert error.clause == clause and words in str(error)
    assert error.peer == "host 1 of client 1 (10.0.0.2 port 5001)"
    assert error.octets == octets[-128:]


BAD_CONTINUATIONS = {
    "too much": (header(DATA, pk_len=16, msglen=40, srqid=5, drqid=1) + bytes(16)) * 2,
    "another length": header(DATA, pk_len=8, msglen=41, srqid=5, drqid=1),
    "another request": header(DATA, pk_len=8, msglen=40, srqid=6, drqid=1),
    "another id": header(DATA, pk_len=8, msglen=40, srqid=5, drqid=2),
    "after its end": header(DATA, pk_len=16, msglen=40, srqid=5, drqid=1)
    + bytes(16)
    + header(DATA, pk_len=8, msglen=40, srqid=5, drqid=1)
    + bytes(8)
    + header(DATA, pk_len=0, msglen=40, srqid=5, drqid=1),
}


@pytest.mark.clause("3.7.2")
@pytest.mark.parametrize("name", BAD_CONTINUATIONS)
def test_bad_continuation(name):
    proc = Proc(JOB, 0)
    proc.handle(feed(proc.machine, HOST, FIRST))
    with pytest.raises(PeerError) as caught:
        feed(proc.machine, HOST, BAD_CONTINUATIONS[name])
    assert caught.value.clause == "3.7.2" and "host 1 of client 1" in str(caught.value)


def test_continuation_before_the_match():
    proc = Proc(JOB, 0, eager=False)
    proc.handle(feed(proc.machine, HOST, FIRST))
    with pytest.raises(PeerError, match=r"3\.7\.2"):
        feed(proc.machine, HOST, header(DATA, pk_len=16, msglen=40, srqid=5, drqid=1))


def test_continuation_from_another_process():
    proc = Proc(JOB, 0)
    proc.handle(feed(proc.machine, HOST, FIRST))
    with pytest.raises(PeerError, match=r"drqid"):
        feed(
            proc.machine,
            OTHER.host,
            header(
                DATA,
                pk_len=16,
                msglen=40,
                srqid=5,
                drqid=1,
                src_ipv6=OTHER.ipv6,
                src_pid=OTHER.pid,
            ),
        )


def test_second_syncack():
    proc = Proc(JOB, 0)
    out = proc.send(1, b"abc", synchronous=True)
    drain(proc.machine, HOST)
    feed(proc.machine, HOST, header(SYNCACK, srqid=out.header.srqid))
    assert out.done
    with pytest.raises(PeerError, match=r"unknown request"):
        feed(proc.machine, HOST, header(SYNCACK, srqid=out.header.srqid))


def test_syncack_for_a_message_that_asked_for_none():
    proc = Proc(JOB, 0)
    out = proc.send(1, b"abc")
    drain(proc.machine, HOST)
    with pytest.raises(PeerError, match=r"unknown request"):
        feed(proc.machine, HOST, header(SYNCACK, srqid=out.header.srqid))


def test_syncack_by_another_process():
    proc = Proc(JOB, 0)
    out = proc.send(1, b"abc", synchronous=True)
    drain(proc.machine, HOST)
    with pytest.raises(PeerError, match=r"unknown request"):
        feed(
            proc.machine,
            OTHER.host,
            header(
                SYNCACK, srqid=out.header.srqid, src_ipv6=OTHER.ipv6, src_pid=OTHER.pid
            ),
        )


def test_taken_back_after_it_was_matched():
    proc = Proc(JOB, 0)
    out = proc.send(1, b"abc", synchronous=True)
    drain(proc.machine, HOST)
    proc.machine.cancel(out)
    with pytest.raises(PeerError, match=r"had been matched.*3\.7\.4"):
        feed(
            proc.machine,
            HOST,
            header(SYNCACK, srqid=out.header.srqid)
            + header(CANCELYES, srqid=out.header.srqid),
        )


def test_rest_of_a_long_message_asked_for_after_our_fini():
    proc = Proc(JOB, 0)
    out = proc.send(1, bytes(40))
    drain(proc.machine, HOST)
    proc.machine.finish()
    drain(proc.machine, HOST)
    with pytest.raises(LocalProtocolError, match=r"not completed.*3\.8"):
        feed(proc.machine, HOST, header(SYNCACK, srqid=out.header.srqid))


@pytest.mark.clause("3.8")
@pytest.mark.parametrize(
    ("octets", "words"),
    [(b"", "packet;"), (header(DATA)[:50], "middle"), (FIRST[:140], "middle")],
)
def test_end_without_fini_loses_the_job(octets, words):
    machine = Transfer(JOB, 0)
    feed(machine, HOST, octets)
    with pytest.raises(
        JobError,
        match=rf"host 1 of client 1 \(10\.0\.0\.2 port 5001\) was lost.*{words}.*3\.8",
    ):
        machine.eof(HOST)


def test_end_between_the_two_finis():
    machine = Transfer(JOB, 0)
    feed(machine, HOST, header(FINI))
    # As the loss of a peer it is told late: the end of a job is the usual reason.
    with pytest.raises(HungUp, match=r"without waiting.*3\.8"):
        machine.eof(HOST)


def test_what_table_3_1_does_not_list_is_ignored():
    junk = {
        "pk_len": 128,
        "msglen": 128,
        "cid": 0x49 << 56,
        "lsrank": -1,
        "tag": -1,
        "count": -1,
        "seqnum": 3,
    }
    proc = Proc(JOB, 0)
    out = proc.send(1, b"abc", synchronous=True)
    proc.send(1, b"def")
    drain(proc.machine, HOST)
    nobody = {
        "src_pid": -1,
        "dest_pid": -1,
        "src_ipv6": bytes(16),
        "dest_ipv6": bytes(16),
    }
    stream = (
        header(SYNCACK, srqid=out.header.srqid, **junk)
        + header(PROTOACK, **junk)
        + header(FINI, **junk, **nobody)
    )
    assert feed(proc.machine, HOST, stream) == []
    assert out.done
    proc.machine.finish()
    drain(proc.machine, HOST)
    proc.machine.eof(HOST)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (memoryview(bytearray(2)), "2 octets"),
        (memoryview(b"abc"), "readonly True"),
        (memoryview(bytearray(8)).cast("i"), "format i"),
    ],
)
def test_accept_refuses_a_bad_view(view, words):
    proc = Proc(JOB, 0, eager=False)
    proc.handle(feed(proc.machine, HOST, header(DATA, pk_len=3, msglen=3) + b"abc"))
    with pytest.raises(LocalProtocolError, match=words):
        proc.machine.accept(proc.unexpected[0], view)
    proc.accept()
    assert proc.received[0][1] == b"abc"
    with pytest.raises(LocalProtocolError, match="had been accepted"):
        proc.machine.accept(proc.received[0][0], memoryview(bytearray(3)))


def test_misuse():
    machine = Transfer(JOB, 0)
    with pytest.raises(LocalProtocolError, match="no rank 3"):
        Transfer(JOB, 3)
    with pytest.raises(LocalProtocolError, match="octets"):
        machine.send(1, cid=0, tag=0, lsrank=0, views=[memoryview(bytes(8)).cast("i")])
    with pytest.raises(LocalProtocolError, match=r"tag 32768.*3\.4"):
        machine.send(1, cid=0, tag=32768, lsrank=0, views=[])
    with pytest.raises(LocalProtocolError, match="cannot have been sent"):
        machine.sent(HOST, 1)
    with pytest.raises(LocalProtocolError, match="cannot have been read"):
        machine.received(HOST, 1)
    room = machine.get_buffer(HOST)
    with pytest.raises(LocalProtocolError, match="cannot have been read"):
        machine.received(HOST, len(room) + 1)


@pytest.mark.parametrize(
    ("ipv6", "text"),
    [
        (bytes(10) + b"\xff\xff\x7f\0\0\1", "127.0.0.1"),
        (bytes.fromhex("fe800000000000000000000000000001"), "fe80::1"),
    ],
)
def test_hosts_are_named_by_address(ipv6, text):
    machine = Transfer(make_job([[1], [1]], addresses=[bytes(16), ipv6]), 0)
    with pytest.raises(JobError, match=rf"\({text} port 5001\)"):
        machine.eof(1)
