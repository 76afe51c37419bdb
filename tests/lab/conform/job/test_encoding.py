"""The tester's own encoder, against octets written down by hand and against the judges' decoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.lab.conform.job import encoding
from impi.lab.conform.job.encoding import (
    Fields,
    broadcast,
    command,
    ipv6,
    packet,
    uint4,
)
from impi.lab.dissect import carried, unpack_packet


@pytest.mark.clause("2.3.2")
def test_commands() -> None:
    assert command("IMPI", uint4(2)).hex() == "494d50490000000400000002"
    assert command(0x12345678).hex() == "1234567800000000"
    assert (
        broadcast(0x1100, 3, uint4(1, 2)).hex()
        == "434f4c4c0000001000001100000000030000000100000002"
    )
    assert uint4(-1).hex() == "ffffffff"


@pytest.mark.clause("3.5")
def test_a_packet_is_what_the_decoder_reads() -> None:
    fields = Fields(
        kind="DATASYNC",
        src=(ipv6("10.0.0.1"), 7),
        dest=(ipv6("::1"), 8),
        srqid=2**64 - 1,
        tag=5,
        cid=2,
    )
    octets = packet(fields, b"abc")
    assert len(octets) == encoding.HEADER_SIZE + 3
    assert carried(octets) == 3
    found = unpack_packet(octets, 0, times=(0.0, 0.0), hosts=(0, 1))
    assert (found.kind, found.src, found.dest, found.srqid) == (
        "DATASYNC",
        fields.src,
        fields.dest,
        2**64 - 1,
    )
    assert (found.length, found.tag, found.cid, found.payload) == (3, 5, 2, b"abc")


def test_recorded_packets_are_encoded_to_their_octets() -> None:
    """Packets of an independent implementation, decoded and encoded again."""
    octets = (
        Path(__file__).parents[3] / "vectors" / "long" / "host0_to_host1.bin"
    ).read_bytes()
    at = count = 0
    while at < len(octets):
        found = unpack_packet(octets, at, times=(0.0, 0.0), hosts=(0, 1))
        names = (
            "kind",
            "src",
            "dest",
            "srqid",
            "drqid",
            "msglen",
            "lsrank",
            "tag",
            "cid",
            "seqnum",
            "count",
            "dtype",
        )
        fields = Fields(
            **{name: getattr(found, name) for name in names}, length=found.length
        )
        size = encoding.HEADER_SIZE + carried(octets, at)
        assert found.reserved == 0
        assert packet(fields, found.payload) == octets[at : at + size]
        at, count = at + size, count + 1
    assert count > 3
