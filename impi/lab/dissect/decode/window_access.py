"""Accesses of windows, an extension of impi under its own version; IMPI 0.0 has none.

An origin describes each access in a message of :data:`ACCESS_TAG`: kind, marks, operation, a
zero, the length of the datatype's name (4 octets), octet and count in the target's window (8 each),
the name, and short data. Longer data is the next message, of :data:`DATA_TAG`. A target answers by
:data:`ANSWER_TAG`. Written apart from impi's own codec, so that judges share nothing with it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

ACCESS_TAG: Final = 1
DATA_TAG: Final = 2
ANSWER_TAG: Final = 3

_KINDS: Final = (
    "Put",
    "Get",
    "Accumulate",
    "Get_accumulate",
    "Compare_and_swap",
    "nothing",
    "Post",
    "a fault",
)
# The marks of an access, by bit; some open or close an epoch.
_MARKS: Final = (
    "lock shared",
    "lock exclusive",
    "unlock",
    "acknowledge",
    "fence",
    "complete",
    "data apart",
)
_OPS: Final = (
    *(
        "MAX",
        "MIN",
        "SUM",
        "PROD",
        "LAND",
        "BAND",
        "LOR",
        "BOR",
        "LXOR",
        "BXOR",
        "MAXLOC",
        "MINLOC",
    ),
    *("REPLACE", "NO_OP"),
)
_FIXED: Final = struct.Struct(">BBBxIqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAccess:
    """One access as its origin describes it."""

    kind: str
    marks: tuple[str, ...] = ()
    op: str = "NO_OP"
    datatype: str = "BYTE"
    at: int = 0  # offset in the target's window, in octets
    count: int = 0
    data: bytes = b""  # short data, in the same message

    @property
    def head(self) -> bytes:
        bits = sum(1 << _MARKS.index(mark) for mark in self.marks)
        name = self.datatype.encode()
        return (
            _FIXED.pack(
                _KINDS.index(self.kind),
                bits,
                _OPS.index(self.op),
                len(name),
                self.at,
                self.count,
            )
            + name
        )

    def __str__(self) -> str:
        what = self.kind if self.op == "NO_OP" else f"{self.kind} ({self.op})"
        marks = f" [{', '.join(self.marks)}]" if self.marks else ""
        data = (
            f" with {self.data[:12].hex()}{'...' if len(self.data) > 12 else ''}"
            if self.data
            else ""
        )

        return f"{what} of {self.count} {self.datatype} at octet {self.at}{marks}{data}"


def read_access(octets: bytes) -> WindowAccess | None:
    """Return the access that a message describes; None: it describes none."""

    if len(octets) < _FIXED.size:
        return None

    kind, bits, op, length, at, count = _FIXED.unpack_from(octets)

    end = _FIXED.size + length
    if (
        kind >= len(_KINDS)
        or bits >> len(_MARKS)
        or op >= len(_OPS)
        or end > len(octets)
    ):
        return None

    try:
        datatype = octets[_FIXED.size : end].decode()
    except UnicodeDecodeError:
        return None

    return WindowAccess(
        kind=_KINDS[kind],
        marks=tuple(mark for bit, mark in enumerate(_MARKS) if bits >> bit & 1),
        op=_OPS[op],
        datatype=datatype,
        at=at,
        count=count,
        data=octets[end:],
    )
