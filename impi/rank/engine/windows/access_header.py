"""The header from an origin to a target: one access, and the synchronization that goes with it.

An extension of IMPI under our own version; IMPI 0.0 has no one-sided communication. A window has a
context of its own, on whose point-to-point id these messages travel:

* :data:`HEADER_TAG`: a header, the description of the target's datatype, and short data.
* :data:`DATA_TAG`: data that is too long for that, in the form of any message.
* :data:`REPLY_TAG`: the fetched elements, or nothing; it says that all earlier accesses are
  complete, too.

The target's datatype travels as text, because the two procs need not have the same program. Names
stand for predefined types, and the texts of derived ones are cached at both ends: programs access
windows with few types, but often.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import Final

from impi.base.records import record
from impi.protocol.semantics.values.basic import BASICS
from impi.protocol.semantics.values.datatype import (
    FORTRAN_PAIRS,
    NAMED,
    Forms,
    Run,
    TypeMap,
)
from impi.protocol.semantics.values.op import OPS

HEADER_TAG: Final = 1
DATA_TAG: Final = 2
REPLY_TAG: Final = 3

PUT, GET, ACCUMULATE, FETCH, SWAP, SYNC, POST, FAULT = range(8)
"""Kinds. FETCH: Get_accumulate and Fetch_and_op; SYNC: no access; FAULT: sent by a target."""

LOCK_SHARED: Final = 1
"""Lock the window for the origin before the access; the target holds the message until then."""
LOCK_EXCLUSIVE: Final = 2
UNLOCK: Final = 4
"""Give the lock back after the access."""
ACKNOWLEDGE: Final = 8
"""Reply after the access; accesses that fetch reply anyway."""
FENCED: Final = 16
"""It is the last access of the origin before its fence."""
COMPLETED: Final = 32
"""It is the last access before MPI_Win_complete."""
SEPARATE: Final = 64
"""The data follows as a message of :data:`DATA_TAG`."""

# Kind, flags, operation, a pad octet, length of the datatype's text, offset, count.
_FIXED: Final = struct.Struct(">BBBxIqq")
_OPS: Final = tuple(OPS)
_NUMBERS: Final = {name: number for number, name in enumerate(_OPS)}
_PREDEFINED: Final = {**NAMED, **FORTRAN_PAIRS}


@record
class Header:
    """One access: ``count`` elements at octet ``offset``; an address in a dynamic window."""

    kind: int
    flags: int
    op: str
    typemap: TypeMap
    offset: int
    count: int


def encode(
    kind: int, flags: int, op: str, typemap: TypeMap, offset: int, count: int
) -> bytes:
    """Return the octets of a header; data may follow."""
    name = typemap.name.encode() if typemap.name else _described(typemap)
    return _FIXED.pack(kind, flags, _NUMBERS[op], len(name), offset, count) + name


def decode(octets: bytes | bytearray | memoryview) -> tuple[Header, memoryview]:
    """Return a header and the data behind it; ValueError or KeyError: it is none."""

    view = memoryview(octets)
    kind, flags, op, length, offset, count = _FIXED.unpack_from(view)
    end = _FIXED.size + length
    typemap = _typemap(bytes(view[_FIXED.size : end]))

    return Header(kind, flags, _OPS[op], typemap, offset, count), view[end:]


def bare(kind: int, flags: int) -> bytes:
    """Return the octets of a header without elements."""
    return encode(kind, flags, "NO_OP", NAMED["BYTE"], 0, 0)


@lru_cache(256)
def _described(typemap: TypeMap) -> bytes:
    """Return a derived datatype as text."""
    rows = [
        [
            run.basic.name,
            run.displacement,
            run.shape,
            run.strides,
            run.packed,
            run.packed_strides,
        ]
        for run in typemap.runs
    ]
    return json.dumps(
        [rows, typemap.lb, typemap.lb + typemap.extent, typemap.sizes],
        separators=(",", ":"),
    ).encode()


@lru_cache(256)
def _typemap(octets: bytes) -> TypeMap:
    text = octets.decode()
    # A name: no predefined datatype begins as a list of JSON does.
    if not text.startswith("["):
        return _PREDEFINED[text]

    rows, lb, ub, sizes = json.loads(text)

    return TypeMap(tuple(_run(*row) for row in rows), lb=lb, ub=ub, sizes=tuple(sizes))


def _run(
    name: str,
    displacement: int,
    shape: list[int],
    strides: list[int],
    packed: list[int],
    packed_strides: list[list[int]],
) -> Run:
    forms = tuple(map(_forms, packed_strides))
    return Run(
        BASICS[name], displacement, tuple(shape), tuple(strides), _forms(packed), forms
    )


def _forms(row: list[int]) -> Forms:
    native, external, longer = row
    return native, external, longer
