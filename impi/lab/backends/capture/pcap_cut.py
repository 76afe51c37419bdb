"""Cut the part between two canaries out of a capture file that still grows."""

from __future__ import annotations

import struct
from typing import Final

from impi.base.errors import LabError

HEADER_OCTETS: Final = 24
# Seconds, fraction, octets kept, octets on the wire
_RECORD: Final = struct.Struct("<IIII")
_RECORD_BIG: Final = struct.Struct(">IIII")
_LITTLE: Final = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")  # microseconds, nanoseconds
_BIG: Final = (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")


def _record(header: bytes) -> struct.Struct:
    if header[:4] in _LITTLE:
        return _RECORD

    if header[:4] in _BIG:
        return _RECORD_BIG

    raise LabError(
        f"a capture does not begin as a pcap file does but with {header[:4].hex()}"
    )


def begun_at(pcap: bytes) -> float:
    """Return when the first packet was captured, in seconds since the epoch by its node's clock.

    Raises:
        LabError: this is not a pcap.
    """
    seconds, fraction, *_ = _record(pcap).unpack_from(pcap, HEADER_OCTETS)
    return float(
        seconds + fraction * (1e-6 if pcap[:4] in (_LITTLE[0], _BIG[0]) else 1e-9)
    )


def between(
    header: bytes, records: bytes, first: bytes, last: bytes
) -> tuple[bytes, int] | None:
    """Return a pcap from the packet with ``first`` to the packet with ``last``, both included.

    Args:
        header: the file's first :data:`HEADER_OCTETS`.
        records: octets of the file from the start of a record on; the last may be partial.
        first: octets that occur in one packet only.
        last: likewise; searched after ``first``.

    Returns:
        The pcap and the number of ``records`` before its end; None until ``last`` is complete.

    Raises:
        LabError: this is not a pcap, or ``first`` does not come before ``last``.
    """

    record = _record(header)
    begin = -1

    at = 0
    while at + record.size <= len(records):
        end = at + record.size + record.unpack_from(records, at)[2]
        if end > len(records):
            break

        # Only short packets are searched: a canary is short, and most octets are in long packets.
        if end - at < 600:
            packet = records[at:end]
            if begin < 0 and first in packet:
                begin = at

            if last in packet:
                if begin < 0:
                    raise LabError("a capture lacks the canary of the cell's beginning")

                return header + records[begin:end], end

        at = end

    return None
