"""Reads classic pcap files down to TCP segments and UDP datagrams, over IPv4 and IPv6.

Unknown link or network protocols are skipped: an interface carries more than the job. A damaged
*file* is an error, because an unreadable capture proves nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from impi.base.errors import LabError

Endpoint = tuple[bytes, int]
"""A network address (4 or 16 octets) and a port."""

_MAGIC: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
_ETHERNET, _RAW, _LINUX_SLL, _LINUX_SLL2 = 1, 101, 113, 276
# other numbers of the link type "begins with the IP header" on some systems
_RAW_TOO: Final = (12, 14, 228, 229)
_IPV4, _IPV6, _VLAN, _QINQ = 0x0800, 0x86DD, 0x8100, 0x88A8
_TCP, _UDP = 6, 17
# IPv6 hop-by-hop, routing and destination options: each has its length
_EXTENSIONS: Final = (0, 43, 60)


@dataclass(frozen=True, slots=True)
class Segment:
    """One captured TCP segment."""

    time: float  # seconds since the epoch, by the capturing node's clock
    src: Endpoint
    dst: Endpoint
    seq: int
    ack: int | None
    syn: bool
    fin: bool
    rst: bool
    payload: bytes
    # octets of payload on the wire; more than ``len(payload)`` if the capture cut the segment
    length: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """One captured UDP datagram."""

    time: float
    src: Endpoint
    dst: Endpoint
    payload: bytes


def read_pcap(octets: bytes) -> Iterator[Segment | Datagram]:
    """Yield TCP segments and UDP datagrams of a classic pcap file, in file order.

    Raises:
        LabError: not such a file, an unknown link type, or an end in the middle of a record.
    """

    order, tick = _MAGIC.get(octets[:4], ("", 0.0))
    if not order or len(octets) < 24:
        raise LabError(
            "the capture is not a classic pcap file: its first octets are wrong",
            octets=octets[:4],
        )

    # The upper bits of the word hold the length of the frame check, and
    # not the link type.
    link = int(struct.unpack_from(order + "I", octets, 20)[0]) & 0x0FFFFFFF
    if link not in (_ETHERNET, _RAW, _LINUX_SLL, _LINUX_SLL2, *_RAW_TOO):
        raise LabError(
            f"the capture has link type {link}; known are Ethernet, Linux cooked and raw IP"
        )

    record, offset = struct.Struct(order + "IIII"), 24
    while offset < len(octets):
        if offset + 16 > len(octets):
            raise LabError(
                f"the capture ends in the middle of a record, at octet {offset} of {len(octets)}"
            )

        # A capture may keep less than was on the wire. The real length
        # comes from the IP header.
        seconds, fraction, kept, _ = record.unpack_from(octets, offset)

        offset += 16
        if offset + kept > len(octets):
            raise LabError(
                f"the capture ends in the middle of a packet, at octet {offset} of {len(octets)}"
            )

        item = _network(link, octets[offset : offset + kept], seconds + fraction * tick)

        offset += kept
        if item is not None:
            yield item


def _network(link: int, frame: bytes, time: float) -> Segment | Datagram | None:
    if link == _ETHERNET:
        kind, start = int.from_bytes(frame[12:14], "big"), 14
        # A VLAN tag takes four octets and gives the kind of the octets behind it.
        while kind in (_VLAN, _QINQ):
            kind, start = int.from_bytes(frame[start + 2 : start + 4], "big"), start + 4
    elif link == _LINUX_SLL:
        kind, start = int.from_bytes(frame[14:16], "big"), 16
    elif link == _LINUX_SLL2:
        kind, start = int.from_bytes(frame[0:2], "big"), 20
    else:
        # Raw IP has no field of a type: the version is in the first four bits.
        kind, start = (_IPV6 if frame[:1] and frame[0] >> 4 == 6 else _IPV4), 0

    if kind == _IPV4:
        return _ipv4(frame[start:], time)

    if kind == _IPV6:
        return _ipv6(frame[start:], time)

    return None


def _ipv4(packet: bytes, time: float) -> Segment | Datagram | None:
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None

    header, total = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
    # The mask leaves out the bit "do not fragment", which is set in
    # nearly every packet.
    if int.from_bytes(packet[6:8], "big") & 0x3FFF:
        # A fragment: TCP over one link does not fragment, and half a segment is not evidence
        return None

    total = total or len(packet)  # zero where the kernel segments later (offload)

    return _transport(
        packet[9],
        (packet[12:16], packet[16:20]),
        packet[header:total],
        total - header,
        time,
    )


def _ipv6(packet: bytes, time: float) -> Segment | Datagram | None:
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return None

    length = int.from_bytes(packet[4:6], "big") or len(packet) - 40

    following, start, end = packet[6], 40, 40 + length
    while following in _EXTENSIONS and start + 2 <= len(packet):
        following, start = packet[start], start + (packet[start + 1] + 1) * 8

    return _transport(
        following, (packet[8:24], packet[24:40]), packet[start:end], end - start, time
    )


def _transport(
    protocol: int, ends: tuple[bytes, bytes], body: bytes, length: int, time: float
) -> Segment | Datagram | None:
    if protocol == _TCP and len(body) >= 20:
        sport, dport, seq, ack, header, flags = struct.unpack_from(">HHIIBB", body)
        header = (header >> 4) * 4
        return Segment(
            time=time,
            src=(ends[0], sport),
            dst=(ends[1], dport),
            seq=seq,
            ack=ack if flags & 0x10 else None,
            syn=bool(flags & 0x02),
            fin=bool(flags & 0x01),
            rst=bool(flags & 0x04),
            payload=body[header:],
            length=length - header,
        )

    if protocol == _UDP and len(body) >= 8:
        sport, dport = struct.unpack_from(">HH", body)
        return Datagram(time, (ends[0], sport), (ends[1], dport), body[8:])

    return None
