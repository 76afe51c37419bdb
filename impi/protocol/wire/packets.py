"""Packets between hosts: a big-endian header of 128 octets, then user data (IMPI 3.5)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from impi.base.errors import LocalProtocolError, Truncated

HEADER_SIZE: Final = 128
"""Octets of a packet header (IMPI 3.5)."""

_LAYOUT: Final = struct.Struct(">II16sq16sqQQQiiQQqQQ")
_ADDRESS_SIZE: Final = 16
SHORT_HEADER: Final = struct.Struct(">II48sQ8xQiiQ8xq16x")
"""The fields of a short message's header (IMPI 3.7.1); other octets are skipped, and packed as 0.

In order: pk_type, pk_len, source and destination as one 48-octet field, srqid, msglen, lsrank, tag,
cid, count.
"""
# Where the one field stands that differs between two short messages of a kind.
SRQID_OFFSET: Final = 56
_NO_ADDRESS: Final = bytes(_ADDRESS_SIZE)


class PacketType(IntEnum):
    """The types of packets (IMPI 3.5, table 3.1)."""

    DATA = 0
    DATASYNC = 1
    PROTOACK = 2
    SYNCACK = 3
    CANCEL = 4
    CANCELYES = 5
    CANCELNO = 6
    FINI = 7


class Header(NamedTuple):
    """One packet header, field by field in the order of the wire (IMPI 3.5).

    ``pk_type`` decides which other fields mean anything (table 3.1); unused ones are sent as 0 and
    ignored on receipt.
    """

    pk_type: int
    """A :class:`PacketType`; a plain int, because a peer may send anything."""
    pk_len: int = 0
    """Octets of user data after this header; only of DATA and DATASYNC."""
    src_ipv6: bytes = _NO_ADDRESS
    """With ``src_pid``, the process that sends the packet."""
    src_pid: int = 0
    dest_ipv6: bytes = _NO_ADDRESS
    """With ``dest_pid``, the process that it is for."""
    dest_pid: int = 0
    srqid: int = 0
    """Request at the sender of the message, unique among its active ones."""
    drqid: int = 0
    """Request at the receiver of the message."""
    msglen: int = 0
    """Octets of the whole message."""
    lsrank: int = 0
    """Rank of the sender in the communicator."""
    tag: int = 0
    cid: int = 0
    """Context id (IMPI 4.3)."""
    seqnum: int = 0
    """Number of the message; for quality of service only, as the next two are."""
    count: int = 0  # type: ignore[assignment]  # hides tuple.count(), of no use in a header
    """Elements in the message."""
    dtype: int = 0
    """Handle of the datatype at the sender."""
    reserved: int = 0


def pack_header(header: Header) -> bytes:
    """The 128 octets of ``header``.

    Raises:
        LocalProtocolError: a field does not fit its type (IMPI 1.2.1, 3.5).
    """
    # struct pads or cuts a short or long "16s" in silence.
    if len(header[2]) != _ADDRESS_SIZE or len(header[4]) != _ADDRESS_SIZE:
        raise LocalProtocolError(
            f"a host identifier of a packet is not 16 octets: {header}", clause="1.2.3"
        )

    try:
        return _LAYOUT.pack(*header)
    except struct.error as error:
        raise LocalProtocolError(
            f"a field of a packet header does not fit ({error}): {header}", clause="3.5"
        ) from error


def unpack_header(buffer: bytes | bytearray | memoryview, offset: int = 0) -> Header:
    """Return the header in the 128 octets of ``buffer`` from ``offset`` on; any value is accepted.

    Raises:
        Truncated: fewer than 128 octets are there.
    """
    try:
        return Header._make(_LAYOUT.unpack_from(buffer, offset))
    except struct.error as error:
        raise Truncated(
            f"a packet header has {HEADER_SIZE} octets, but only {max(0, len(buffer) - offset)} are here",
            clause="3.5",
        ) from error
