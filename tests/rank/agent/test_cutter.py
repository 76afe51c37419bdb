"""The stream of one connection in, whole packets out, however it is split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from router_world import packet
from transfer_world import make_job

from impi.base.errors import LocalProtocolError
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType
from impi.rank.agent.cutter import Cutter

JOB = make_job([[1], [1]], hiwater=4, ackmark=2)
DATA, PROTOACK = int(PacketType.DATA), int(PacketType.PROTOACK)


def made(checked: list[int] | None = None) -> Cutter:
    def check(header: Header, octets: bytes) -> int:
        assert len(octets) == HEADER_SIZE
        if checked is not None:
            checked.append(header.pk_type)
        return header.pk_len if header.pk_type == DATA else 0

    return Cutter(check)


def feed(cutter: Cutter, octets: bytes) -> list[bytes]:
    found = []
    while octets:
        room = cutter.buffer()
        n = min(len(room), len(octets))
        room[:n] = octets[:n]
        found += [bytes(whole) for _, whole in cutter.received(n)]
        octets = octets[n:]
    return found


@given(
    st.lists(st.integers(0, 300), max_size=8), st.lists(st.integers(1, 200), min_size=1)
)
def test_packets_are_whole_however_the_stream_is_split(
    sizes: list[int], cuts: list[int]
) -> None:
    packets = [
        packet(JOB, DATA if n % 3 else PROTOACK, 0, 1, bytes(n) if n % 3 else b"")
        for n in sizes
    ]
    cutter, stream, found = made(), b"".join(packets), []
    for n in [*cuts, len(stream)]:
        found += feed(cutter, stream[:n])
        stream = stream[n:]
    assert found == packets
    assert (cutter.unfinished, cutter.inside) == (b"", False)


def test_a_long_packet_is_read_in_place() -> None:
    long = packet(JOB, DATA, 0, 1, bytes(range(256)) * 1000)
    cutter = made()
    assert feed(cutter, long[: HEADER_SIZE + 5]) == []
    assert (cutter.unfinished, cutter.inside) == (long[: HEADER_SIZE + 5], True)
    # No more than its own octets
    assert len(cutter.buffer()) == len(long) - HEADER_SIZE - 5
    assert feed(cutter, long[HEADER_SIZE + 5 :]) == [long]


def test_a_header_is_checked_before_what_follows_is_read() -> None:
    checked: list[int] = []
    feed(
        made(checked),
        packet(JOB, PROTOACK, 0, 1) + packet(JOB, DATA, 0, 1, b"abc")[:HEADER_SIZE],
    )
    assert checked == [PROTOACK, DATA]


def test_no_more_than_was_lent() -> None:
    cutter = made()
    for nbytes in (1, 0):
        with pytest.raises(LocalProtocolError, match="no buffer of that size was lent"):
            cutter.received(nbytes)
    room = len(cutter.buffer())
    with pytest.raises(LocalProtocolError):
        cutter.received(room + 1)
