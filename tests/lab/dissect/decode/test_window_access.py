"""The judges' decoder of accesses of windows, beside the codec that it must not share."""

from __future__ import annotations

import pytest

from impi.lab.dissect.decode.window_access import WindowAccess, read_access
from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.semantics.values.op import OPS
from impi.rank.engine.windows import access_header

KINDS = (
    "Put",
    "Get",
    "Accumulate",
    "Get_accumulate",
    "Compare_and_swap",
    "nothing",
    "Post",
    "a fault",
)
FLAGS = {
    access_header.LOCK_SHARED: "lock shared",
    access_header.LOCK_EXCLUSIVE: "lock exclusive",
    access_header.UNLOCK: "unlock",
    access_header.ACKNOWLEDGE: "acknowledge",
    access_header.FENCED: "fence",
    access_header.COMPLETED: "complete",
    access_header.SEPARATE: "data apart",
}


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("op", OPS)
def test_what_impi_writes_is_read(kind: int, flag: int, op: str) -> None:
    written = access_header.encode(kind, flag, op, NAMED["DOUBLE"], 24, 3) + b"data"
    access = WindowAccess(
        kind=KINDS[kind],
        marks=(FLAGS[flag],),
        op=op,
        datatype="DOUBLE",
        at=24,
        count=3,
        data=b"data",
    )
    assert read_access(written) == access
    assert access.head + access.data == written


def test_an_access_in_words() -> None:
    put = WindowAccess(
        kind="Put",
        marks=("unlock", "acknowledge"),
        datatype="INT",
        at=8,
        count=5,
        data=bytes(20),
    )
    assert (
        str(put)
        == f"Put of 5 INT at octet 8 [unlock, acknowledge] with {bytes(12).hex()}..."
    )
    assert (
        str(WindowAccess(kind="Accumulate", op="SUM", count=1))
        == "Accumulate (SUM) of 1 BYTE at octet 0"
    )


GOOD = WindowAccess(kind="Put", datatype="INT", count=1).head


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        GOOD[:20],
        GOOD[:-1],
        b"\x08" + GOOD[1:],
        GOOD[:1] + b"\x80" + GOOD[2:],
        GOOD[:2] + b"\x0e" + GOOD[3:],
        GOOD[:-1] + b"\xff",
    ],
)
def test_what_is_none(octets: bytes) -> None:
    assert read_access(octets) is None
