"""The account of a channel: every rule accuses who breaks it, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from conversations import BY_HAND, by_hand, layout, packet

from impi.lab.dissect import Connection, Packet, Stream, decode_channel
from impi.lab.dissect.decode.host_channel import PACKET_TYPES
from impi.lab.dissect.decode.ledger import Ledger, in_order

LIMITS: dict[str, Any] = {"maxdatalen": 16, "ackmark": 2, "hiwater": 4, "tag_ub": 40000}


def faults(*packets: Packet, **limits: int) -> list[tuple[str, str]]:
    """Return the fault of the last of these packets; those before it must be without fault."""
    ledger = Ledger(layout(**(LIMITS | limits)))
    for one in packets[:-1]:
        assert ledger.faults(one) == []
        ledger.enter(one)
    return ledger.faults(packets[-1])


def data(n: int = 1, **fields) -> Packet:
    return packet("DATA", length=n, **fields)


SYNC = packet("DATASYNC", length=3, srqid=5)
LONG = packet("DATASYNC", length=16, msglen=40, srqid=5)
ANSWER = packet("SYNCACK", back=True, srqid=5, drqid=8)
CANCEL = packet("CANCEL", srqid=5)


@pytest.mark.parametrize(
    "packets",
    [
        [data()] * 4,
        [*[data()] * 4, packet("PROTOACK", back=True), data(), data()],
        [SYNC, ANSWER],
        [LONG, ANSWER, data(16, msglen=40, drqid=8), data(8, msglen=40, drqid=8)],
        [data(srqid=5), CANCEL, packet("CANCELNO", back=True, srqid=5)],
        [packet("FINI"), packet("PROTOACK", back=True)][:1],
        [data(), data(), packet("FINI", back=True), packet("PROTOACK", back=True)],
        [SYNC, packet("FINI", back=True), ANSWER],
        [packet("FINI", src=(bytes(16), -1), dest=(bytes(16), -1))],
        [data(0)],
        [data(16, tag=40000)],
    ],
)
def test_what_is_right_is_not_accused(packets):
    assert faults(*packets) == []


@pytest.mark.parametrize(
    ("packets", "clause", "says"),
    [
        (
            [*[data()] * 5],
            "3.6",
            "5 packets without acknowledgement, where hiwater is 4",
        ),
        (
            [data(), packet("PROTOACK", back=True)],
            "3.6",
            "a PROTOACK after 1 of 2 packets",
        ),
        (
            [data(), data(), *[packet("PROTOACK", back=True)] * 2],
            "3.6",
            "a PROTOACK after 0 of 2",
        ),
        ([ANSWER], "3.7.1", "no send with srqid=5"),
        ([SYNC, ANSWER, ANSWER], "3.7.1", "no send with srqid=5"),
        ([data(srqid=5), ANSWER], "3.7.1", "no send with srqid=5"),
        (
            [LONG, data(16, msglen=40, drqid=8)],
            "3.7.2",
            "16 octets for drqid=8, which waits for 0",
        ),
        ([LONG, ANSWER, data(16, msglen=40, drqid=9)], "3.7.2", "drqid=9"),
        (
            [LONG, ANSWER, *[data(15, msglen=40, drqid=8)] * 2],
            "3.7.2",
            "15 octets for drqid=8, which waits for 9",
        ),
        (
            [packet("CANCELYES", back=True, srqid=5)],
            "3.7.4",
            "without a CANCEL of srqid=5",
        ),
        (
            [SYNC, CANCEL, *[packet("CANCELNO", back=True, srqid=5)] * 2],
            "3.7.4",
            "CANCELNO without a CANCEL",
        ),
        (
            [SYNC, CANCEL, packet("CANCELYES", back=True, srqid=5), ANSWER],
            "3.7.1",
            "no send",
        ),
        ([packet("FINI"), data()], "3.8", "DATA after the FINI of host 1"),
        ([packet("FINI"), packet("FINI")], "3.8", "FINI after the FINI of host 1"),
        ([data(4, msglen=3)], "3.5", "a packet of 4 octets of a message of 3"),
        ([data(17)], "2.3.5", "a packet of 17 octets, where the job has 16"),
        ([data(tag=-1)], "2.3.5", "tag -1 is outside 0 to 40000"),
        ([data(tag=40001)], "2.3.5", "tag 40001"),
        ([data(src=(bytes(16), 1))], "3.2", "the proc ::/1 does not belong to the job"),
        ([data(from_host=0)], "3.2", "rank 1 belongs to host 1, not to host 0"),
    ],
)
def test_what_is_wrong_is_accused(packets, clause, says):
    (found,) = faults(*packets)
    assert found[1] == clause
    assert says in found[0]


def test_of_two_sends_with_one_request_id_the_newer_is_cancelled():
    ledger = Ledger(layout(**LIMITS))
    older = packet("DATASYNC", length=16, msglen=17, srqid=5)
    for one in (older, SYNC, CANCEL, packet("CANCELYES", back=True, srqid=5), ANSWER):
        assert ledger.faults(one) == []
        ledger.enter(one)
    # The SYNCACK was for the long one
    assert ledger.faults(data(1, msglen=17, drqid=8)) == []


@pytest.mark.parametrize(
    ("apart_s", "accused"), [(0.0, False), (40e-6, False), (60e-6, True)]
)
def test_what_the_clock_cannot_order_is_put_in_order(apart_s, accused):
    early = [
        packet("SYNCACK", back=True, srqid=5, begun=1.0),
        packet("DATASYNC", srqid=5, begun=1.0 + apart_s),
    ]
    ledger, found = Ledger(None), []
    for one in in_order(early, None):
        found += ledger.faults(one)
        ledger.enter(one)
    assert bool(found) == accused


def test_an_overrun_is_seen_though_the_acknowledgements_come_later():
    every = [data(begun=1.0 + n / 1000) for n in range(6)] + [
        packet("PROTOACK", back=True, begun=2.0 + n) for n in (0, 1)
    ]
    known = layout(**LIMITS)
    ledger, found = Ledger(known), []
    for one in in_order(every, known):
        found += ledger.faults(one)
        ledger.enter(one)
    assert [clause for _, clause in found] == ["3.6", "3.6"]


def test_without_the_labels_nothing_is_limited():
    ledger = Ledger(None)
    for one in [*[data(1000, tag=2**31 - 1)] * 50, packet("PROTOACK", back=True)]:
        assert ledger.faults(one) == []
        ledger.enter(one)


def test_the_account_of_a_pair():
    ledger = Ledger(layout(**LIMITS))
    for one in (
        LONG,
        ANSWER,
        data(16, msglen=40, drqid=8),
        data(8, msglen=40, drqid=8),
        SYNC,
    ):
        ledger.enter(one)
    for one in (packet("PROTOACK", back=True), packet("SYNCACK", back=True, srqid=77)):
        ledger.enter(one)
    mine, theirs = (ledger.pair(a.src, a.dest) for a in (LONG, ANSWER))
    assert (mine.messages, mine.octets, mine.packets, mine.protoacks) == (2, 43, 4, 1)
    assert (mine.outstanding, mine.max_outstanding) == (2, 4)
    assert (mine.syncs, mine.syncacks, mine.unacknowledged, mine.stray_syncacks) == (
        2,
        1,
        1,
        1,
    )
    assert (theirs.messages, theirs.packets, theirs.max_outstanding) == (0, 2, 2)


HAND = sorted(
    f.stem
    for f in BY_HAND.glob("*.txt")
    if "[peer]" in f.read_text() and "[ours]" in f.read_text()
)


@pytest.mark.parametrize("name", HAND)
def test_what_was_written_from_the_clauses_is_not_accused(name):
    limits, said = by_hand(name)
    peer, first = next(
        (p, octets) for p, octets in said if octets[3] != PACKET_TYPES.index("FINI")
    )
    src, dest = (
        (first[at : at + 16], int.from_bytes(first[at + 16 : at + 24], "big"))
        for at in (8, 32)
    )
    procs = (dest, src) if peer else (src, dest)
    ledger = Ledger(layout(procs[0], procs[1], **limits))
    for one in (p for peer, octets in said for p in decoded(peer, octets)):
        assert ledger.faults(one) == []
        ledger.enter(one)


def decoded(peer: bool, octets: bytes) -> list[Packet]:
    connection = Connection(
        (b"", 0), (b"", 0), 0.0, Stream(b"\0\0\0\1" + (octets if peer else b""))
    )
    connection.back.data = b"" if peer else octets
    channel = decode_channel(connection, 0)
    assert channel.problems == []
    assert sum(128 + len(p.payload) for p in channel.packets) == len(octets)
    return channel.packets
