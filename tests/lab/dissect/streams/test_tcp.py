from __future__ import annotations

import random

import pytest
from pcapmaker import ACK, SYN, PcapMaker

from impi.lab.dissect import Segment, read_pcap, reassemble

A, B = ("10.0.0.1", 1000), ("10.0.0.2", 2000)


def connections(maker):
    return reassemble(s for s in read_pcap(maker.bytes()) if isinstance(s, Segment))


def test_a_whole_connection():
    maker = PcapMaker()
    maker.connection(A, B, b"question" * 1000, b"answer" * 500)
    (connection,) = connections(maker)
    assert connection.forth.data == b"question" * 1000
    assert connection.back.data == b"answer" * 500
    assert connection.problems == []
    assert connection.forth.fin_time is not None
    assert connection.forth.time_at(0) < connection.forth.time_at(7999)


@pytest.mark.parametrize("isn", [2**32 - 1, 2**32 - 700, 2**32 - 3000])
def test_sequence_numbers_wrap(isn):
    maker = PcapMaker()
    maker.connection(A, B, bytes(range(256)) * 20, b"", isn=(isn, isn - 5))
    (connection,) = connections(maker)
    assert connection.forth.data == bytes(range(256)) * 20
    assert connection.problems == []


@pytest.mark.parametrize("seed", range(8))
def test_disorder_duplicates_and_overlaps(seed):
    rng = random.Random(seed)
    data = rng.randbytes(20000)
    pieces = [
        (i, data[i : i + rng.choice([100, 700, 1448])])
        for i in range(0, len(data), 100)
    ]
    rng.shuffle(pieces)
    maker = PcapMaker()
    maker.tcp(A, B, 500, 0, SYN)
    maker.tcp(B, A, 10, 501, SYN | ACK)
    for start, piece in pieces:
        maker.tcp(A, B, 501 + start, 11, ACK, piece)
    (connection,) = connections(maker)
    assert connection.forth.data == data
    assert connection.problems == []


def test_a_hole_is_reported_and_ends_the_stream():
    maker = PcapMaker()
    maker.connection(A, B, b"x" * 5000, b"", mss=1000)
    del maker.frames[5]  # the third piece
    (connection,) = connections(maker)
    assert connection.forth.data == b"x" * 2000
    assert connection.problems == ["opener: octets 2000 to 3000 are not in the capture"]


def test_a_segment_cut_by_the_capture_is_a_hole():
    maker = PcapMaker()
    maker.tcp(A, B, 1, 0, SYN)
    maker.tcp(A, B, 2, 1, ACK, b"0123456789", cut=4)
    maker.tcp(A, B, 12, 1, ACK, b"abc")
    (connection,) = connections(maker)
    assert connection.forth.data == b"012345"
    assert "not in the capture" in connection.problems[0]


def test_a_missing_end_is_seen_by_the_acknowledgement():
    maker = PcapMaker()
    maker.tcp(A, B, 1, 0, SYN)
    maker.tcp(B, A, 9, 2, SYN | ACK)
    maker.tcp(B, A, 10, 52, ACK)
    (connection,) = connections(maker)
    assert connection.problems == [
        "opener: octets from 0 on were acknowledged but are not in the capture"
    ]


def test_a_missing_beginning_is_reported():
    maker = PcapMaker()
    maker.tcp(A, B, 900, 10, ACK, b"tail")
    (connection,) = connections(maker)
    assert connection.forth.data == b"tail"
    assert connection.problems[0] == "opener: the beginning is not in the capture"


def test_a_reset_is_kept():
    maker = PcapMaker()
    maker.connection(A, B, b"x", b"", close=False)
    maker.tcp(B, A, 100, 0, 4)
    (connection,) = connections(maker)
    assert connection.back.reset_time is not None
    assert connection.forth.reset_time is None


def test_ports_used_twice_are_two_connections():
    maker = PcapMaker()
    maker.connection(A, B, b"first", b"")
    maker.connection(A, B, b"second", b"", isn=(70000, 80000))
    assert [c.forth.data for c in connections(maker)] == [b"first", b"second"]
