"""Cutting a cell out of a capture that goes on."""

from __future__ import annotations

import struct

import pytest

from impi.base.errors import LabError
from impi.lab.backends.capture.pcap_cut import HEADER_OCTETS, begun_at, between

LITTLE = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65550, 1)
BIG = struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65550, 1)
FIRST, LAST = b"canary begin", b"canary end"


def record(payload: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "IIII", 1, 2, len(payload), len(payload)) + payload


def test_from_the_first_canary_to_the_last() -> None:
    inside = record(b"..canary begin..") + record(b"x" * 5000) + record(b"..canary end")
    records = record(b"before") + inside + record(b"after")
    cut = between(LITTLE, records, FIRST, LAST)
    assert cut is not None
    pcap, used = cut
    assert pcap == LITTLE + inside
    assert records[used:] == record(b"after")
    assert len(LITTLE) == HEADER_OCTETS


def test_both_byte_orders() -> None:
    records = record(FIRST, ">") + record(LAST, ">")
    assert between(BIG, records, FIRST, LAST) == (BIG + records, len(records))


def test_half_a_record_is_awaited_octet_by_octet() -> None:
    records = record(FIRST) + record(b"x" * 100) + record(LAST)
    assert [between(LITTLE, records[:n], FIRST, LAST) for n in range(len(records))] == [
        None
    ] * len(records)
    assert between(LITTLE, records, FIRST, LAST) is not None


def test_a_last_canary_without_a_first_is_an_error() -> None:
    with pytest.raises(LabError, match="lacks the canary"):
        between(LITTLE, record(b"x") + record(LAST), FIRST, LAST)


def test_no_pcap_is_an_error() -> None:
    with pytest.raises(LabError, match="00000000"):
        between(bytes(24), b"", FIRST, LAST)


def test_when_a_capture_began() -> None:
    assert begun_at(LITTLE + record(FIRST)) == 1 + 2e-6
    assert begun_at(BIG + record(FIRST, ">")) == 1 + 2e-9
