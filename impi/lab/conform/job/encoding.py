"""Octets of IMPI 0.0, written from its clauses: commands of start-up (2.3.2), packets (3.5).

Nothing is checked here: a test may want octets that the clauses forbid.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TYPES: Final = {
    name: number
    for number, name in enumerate(
        (
            "DATA",
            "DATASYNC",
            "PROTOACK",
            "SYNCACK",
            "CANCEL",
            "CANCELYES",
            "CANCELNO",
            "FINI",
        )
    )
}
"""Packet types by name (IMPI 3.5)."""
HEADER_SIZE: Final = 128
"""Octets of a packet's header."""
_HEADER: Final = struct.Struct(">II16sq16sqQQQiiQQqQQ")

Address = tuple[bytes, int]
"""P_IPV6 (16 octets) and P_PID of a proc (IMPI 3.2)."""


def ipv6(address: str) -> bytes:
    """Return 16 octets; IPv4 in the compatible form: 12 zero octets, then the address (1.2.3)."""
    packed = ipaddress.ip_address(address).packed
    return packed if len(packed) == 16 else bytes(12) + packed


def command(word: str | int, payload: bytes = b"") -> bytes:
    """Return ``cmd:Int4 len:Int4 payload`` (2.3.2); ``word`` is four letters or a number."""
    number = int.from_bytes(word.encode(), "big") if isinstance(word, str) else word
    return struct.pack(">Ii", number, len(payload)) + payload


def broadcast(label: int, mask: int, data: bytes) -> bytes:
    """Return the server's COLL: label, client_mask, data of all clients in order (2.3.5)."""
    return command("COLL", struct.pack(">II", label, mask) + data)


def uint4(*values: int) -> bytes:
    """Return 4 octets a value, big-endian; negative ones in two's complement (1.2.1)."""
    return b"".join((value % (1 << 32)).to_bytes(4, "big") for value in values)


def uint8(*values: int) -> bytes:
    """Return 8 octets a value, big-endian; negative ones in two's complement (1.2.1)."""
    return b"".join((value % (1 << 64)).to_bytes(8, "big") for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of a header (3.5); ``kind`` is a name of :data:`TYPES` or a number as text."""

    kind: str
    src: Address = (bytes(16), 0)
    dest: Address = (bytes(16), 0)
    srqid: int = 0
    drqid: int = 0
    msglen: int = 0
    lsrank: int = 0
    tag: int = 0
    cid: int = 0
    seqnum: int = 0
    count: int = 0
    dtype: int = 0
    reserved: int = 0
    length: int | None = None  # ``pk_len``; None: the number of octets of user data


def packet(fields: Fields, data: bytes = b"") -> bytes:
    """Return header and user data."""

    f = fields
    kind = TYPES[f.kind] if f.kind in TYPES else int(f.kind)
    length = len(data) if f.length is None else f.length
    ends = (*f.src, *f.dest)
    ids = (f.srqid, f.drqid, f.msglen)

    return (
        _HEADER.pack(
            kind,
            length,
            *ends,
            *ids,
            f.lsrank,
            f.tag,
            f.cid,
            f.seqnum,
            f.count,
            f.dtype,
            f.reserved,
        )
        + data
    )


def joined(parts: Iterable[bytes]) -> bytes:
    """Return the octets of all parts, one after another."""
    return b"".join(parts)
