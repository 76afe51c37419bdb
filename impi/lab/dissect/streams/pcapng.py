"""Turns pcapng files into classic pcap files, one per interface, for
:mod:`impi.lab.dissect.streams.pcap`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from impi.base.errors import LabError

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""The first octets of every pcapng file."""

_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_SECTION, _INTERFACE, _ENHANCED = 0x0A0D0D0A, 1, 6
_RESOLUTION, _TIME_OFFSET = 9, 14
_NANO: Final = 10**9
_CLASSIC_NANO: Final = b"\xa1\xb2\x3c\x4d"


@dataclass(slots=True)
class _Interface:
    link: int
    ticks: int = 10**6  # units of its time stamps in a second
    shift: int = 0  # seconds to add to its time stamps
    records: list[bytes] = field(default_factory=list)

    def add(self, stamp: int, frame: bytes, original: int) -> None:
        # Classic pcap has seconds and a fraction, so keep nanoseconds:
        # coarser ones would tie packets.
        nanoseconds = stamp * _NANO // self.ticks + self.shift * _NANO
        seconds, fraction = divmod(nanoseconds, _NANO)
        self.records.append(
            struct.pack(">IIII", seconds % 2**32, fraction, len(frame), original)
            + frame
        )

    def classic(self) -> bytes:
        head = _CLASSIC_NANO + struct.pack(">HHiIII", 2, 4, 0, 0, 262144, self.link)
        return head + b"".join(self.records)


def split_pcapng(octets: bytes) -> tuple[list[bytes], LabError | None]:
    """Return classic pcap files, one per interface with packets, and the file's fault or None.

    A truncated file gives the packets before its end; the error says so.
    """

    done: list[_Interface] = []
    here: list[_Interface] = []

    error = None
    try:
        for kind, order, body in _blocks(octets):
            if kind == _SECTION:
                here = []  # each section numbers its interfaces anew
            elif kind == _INTERFACE:
                here.append(_interface(order, body))
                done.append(here[-1])
            elif kind == _ENHANCED:
                number, high, low, kept, original = struct.unpack_from(
                    order + "IIIII", body
                )
                here[number].add(high << 32 | low, body[20 : 20 + kept], original)
    # The packets before the damage are given back. The error stands beside it.
    except (struct.error, IndexError):
        error = LabError(
            "the capture is damaged: a pcapng block contradicts itself or names no interface"
        )
    except LabError as found:
        error = found

    return [interface.classic() for interface in done if interface.records], error


def _blocks(octets: bytes) -> Iterator[tuple[int, str, bytes]]:
    at, order = 0, ">"
    while at < len(octets):
        if octets[at : at + 4] == MAGIC:
            order = _ORDERS.get(octets[at + 8 : at + 12], "")
            if not order:
                raise LabError(
                    f"the capture is damaged: the pcapng section at octet {at} has no byte order"
                )

        if at + 12 > len(octets):
            raise LabError(
                f"the capture ends in the middle of a block, at octet {at} of {len(octets)}"
            )

        # A block has its type, its length, the body, and the length again:
        # twelve octets at least.
        kind, length = struct.unpack_from(order + "II", octets, at)
        if length < 12 or at + length > len(octets):
            raise LabError(
                f"the capture ends in the middle of a block, at octet {at} of {len(octets)}"
            )

        yield kind, order, octets[at + 8 : at + length - 4]
        at += length


def _interface(order: str, body: bytes) -> _Interface:
    interface = _Interface(int(struct.unpack_from(order + "H", body)[0]))

    at = 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)

        value = body[at + 4 : at + 4 + length]
        if code == _RESOLUTION and value:
            interface.ticks = (
                2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            )
        elif code == _TIME_OFFSET and length == 8:
            interface.shift = struct.unpack(order + "q", value)[0]

        # Options are padded to four octets.
        at += 4 + (length + 3) // 4 * 4

    return interface
