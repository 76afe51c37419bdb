"""Writes the blocks of pcapng files for tests."""

from __future__ import annotations

import struct

from pcapmaker import PcapMaker


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return (
        struct.pack(order + "II", kind, len(body) + 12)
        + body
        + struct.pack(order + "I", len(body) + 12)
    )


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int = 1, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def frame(order: str, number: int, stamp: int, octets: bytes) -> bytes:
    head = struct.pack(
        order + "IIIII",
        number,
        stamp >> 32,
        stamp & 0xFFFFFFFF,
        len(octets),
        len(octets),
    )
    return block(order, 6, head + octets)


def pcapng(maker: PcapMaker) -> bytes:
    """The frames of a pcap as a pcapng."""
    blocks = [section("<"), interface("<", maker.link)]
    blocks += [
        frame("<", 0, round(time * 1e6), octets) for time, octets, _ in maker.frames
    ]
    return b"".join(blocks)
