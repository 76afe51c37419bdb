from __future__ import annotations

import struct

import pytest
from pcapmaker import PcapMaker
from pcapngmaker import block, frame, interface, option, section

from impi.lab.dissect.streams.pcap import Segment, read_pcap
from impi.lab.dissect.streams.pcapng import split_pcapng


def one_frame(link: int = 1, payload: bytes = b"abc") -> bytes:
    maker = PcapMaker(link=link)
    maker.tcp(("10.0.0.1", 1000), ("10.0.0.2", 2000), 5, 6, 0x18, payload)
    return maker.frames[0][1]


def segments(octets: bytes) -> list[Segment]:
    parts, error = split_pcapng(octets)
    assert error is None
    return [s for part in parts for s in read_pcap(part) if isinstance(s, Segment)]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("options", "stamp"),
    [
        ([], 1_500_000),
        ([(9, b"\x06")], 1_500_000),
        ([(9, b"\x09")], 1_500_000_000),
        ([(9, b"\x81")], 3),
        ([(2, b"lo"), (9, b"\x00"), (14, None)], 2),
    ],
)
def test_times(order, options, stamp):
    shift = 1.0 if (14, None) in options else 0.0
    encoded = b"".join(
        option(order, c, v if v is not None else struct.pack(order + "q", 1))
        for c, v in options
    )
    octets = (
        section(order)
        + interface(order, options=encoded)
        + frame(order, 0, stamp, one_frame())
    )
    (found,) = segments(octets)
    assert found.payload == b"abc"
    assert found.time == (3.0 if shift else 1.5)


def test_interfaces_and_sections_are_told_apart():
    parts = [
        *(section("<"), interface("<"), interface("<", link=101)),
        *(
            frame("<", 1, 1, one_frame(101, b"raw")),
            frame("<", 0, 2, one_frame(1, b"ether")),
        ),
        *(
            section(">"),
            interface(">", link=276),
            frame(">", 0, 3, one_frame(276, b"cooked")),
        ),
        block(">", 0x0BAD, b"unknown blocks are passed over"),
    ]
    assert sorted(s.payload for s in segments(b"".join(parts))) == [
        b"cooked",
        b"ether",
        b"raw",
    ]


GOOD = (
    section("<")
    + interface("<")
    + frame("<", 0, 1, one_frame())
    + frame("<", 0, 2, one_frame())
)


@pytest.mark.parametrize("cut", [1, 5, 30, 70])
def test_what_stands_before_the_damage_is_kept(cut):
    parts, error = split_pcapng(GOOD[:-cut])
    assert "middle of a block" in str(error)
    assert len(list(read_pcap(parts[0]))) == 1


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        (section("<") + frame("<", 0, 1, one_frame()), "names no interface"),
        (section("<") + block("<", 6, bytes(4)), "contradicts itself"),
        (GOOD[:8] + bytes(4) + GOOD[12:], "no byte order"),
        (GOOD + struct.pack("<III", 6, 4, 4), "middle of a block"),
    ],
)
def test_damage_is_an_error_never_an_exception(damaged, says):
    _, error = split_pcapng(damaged)
    assert says in str(error)
