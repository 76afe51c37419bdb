"""The basic datatypes: what they are in memory, and what they are in external32 (MPI 4.1, 14.5.2).

A *form* is one of three ways to write a value: native; external32 with MPI_LONG in 4 octets, as the standard says;
external32 with MPI_LONG in 8, which clients may agree on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np

__all__ = ["BASICS", "EXTERNAL", "EXTERNAL_LONG8", "NATIVE", "PAIRS", "Basic", "DType", "Kind", "Wire", "form_of"]

DType: TypeAlias = "np.dtype[Any]"

NATIVE: Final = 0
EXTERNAL: Final = 1
EXTERNAL_LONG8: Final = 2


def form_of(*, external: bool, long_size: int) -> int:
    """The form that octets have; ``long_size`` is 4 or 8 and says nothing about native ones."""
    if not external:
        return NATIVE
    return EXTERNAL_LONG8 if long_size == 8 else EXTERNAL


class Kind(Enum):
    """The groups of types by which MPI says what a reduction is valid for (MPI 4.1, 6.9.2)."""

    C_INTEGER = "C integer"
    FORTRAN_INTEGER = "Fortran integer"
    FLOATING = "floating point"
    LOGICAL = "logical"
    COMPLEX = "complex"
    BYTE = "byte"
    MULTI_LANGUAGE = "multi-language"
    CHARACTER = "character"
    OPAQUE = "other"


class Wire(Enum):
    """How the octets in memory become external32."""

    SAME = "as they are"
    SWAP = "in big-endian order"
    NARROW = "in fewer octets, which may overflow"
    FIELDS = "part by part: longer than any number of numpy"
    QUAD = "as IEEE binary128"


@dataclass(frozen=True, slots=True, eq=False)
class Basic:
    """One basic datatype."""

    name: str
    """As in MPI, without the prefix."""
    kind: Kind
    native: DType
    """For arithmetic; a void type where numpy has none."""
    carrier: DType
    """For moving it, of the same size: what :mod:`impi.semantics.external32` takes apart."""
    wires: tuple[DType, DType, DType]
    """By form."""
    how: tuple[Wire, Wire, Wire]
    """By form."""
    align: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Octets by form."""
        return (self.wires[0].itemsize, self.wires[1].itemsize, self.wires[2].itemsize)


def _plain(name: str, kind: Kind, code: str) -> Basic:
    native = np.dtype(code)
    how = Wire.SAME if native.itemsize == 1 else Wire.SWAP
    big = native.newbyteorder(">")
    return Basic(name, kind, native, native, (native, big, big), (Wire.SAME, how, how), native.alignment)


def _narrow(name: str, kind: Kind, code: str, external: str, external_long8: str) -> Basic:
    native = np.dtype(code)
    wires = (native, np.dtype(external), np.dtype(external_long8))
    how = tuple(Wire.SWAP if wire.itemsize == native.itemsize else Wire.NARROW for wire in wires[1:])
    return Basic(name, kind, native, native, wires, (Wire.SAME, how[0], how[1]), native.alignment)


def _fields(name: str, kind: Kind, names: list[str], code: str, align: int) -> Basic:
    """A type of several words; ``names`` is their order in external32, most significant first."""
    wire = np.dtype([(part, ">" + code) for part in names])
    groups = [names] if len(names) < 4 or code == "f2" else [names[:2], names[2:]]
    little = np.dtype([(part, "<" + code) for group in groups for part in reversed(group)])
    if code == "f2":  # a complex number: its parts keep their places
        little = np.dtype([(part, "<" + code) for part in names])
    carrier = little if np.little_endian else wire
    native = np.dtype((np.void, wire.itemsize))
    return Basic(name, kind, native, carrier, (carrier, wire, wire), (Wire.SAME, Wire.FIELDS, Wire.FIELDS), align)


def _quad(name: str, kind: Kind, code: str, parts: int) -> Basic:
    native = np.dtype(code)
    part = np.dtype([("hi", ">u8"), ("lo", ">u8")])
    carrier = np.dtype((np.void, native.itemsize))
    wire = part if parts == 1 else np.dtype([("re", part), ("im", part)])
    return Basic(
        name, kind, native, carrier, (carrier, wire, wire), (Wire.SAME, Wire.QUAD, Wire.QUAD), native.alignment
    )


_C, _F, _R, _L = Kind.C_INTEGER, Kind.FORTRAN_INTEGER, Kind.FLOATING, Kind.LOGICAL
_X, _B, _M, _T, _O = Kind.COMPLEX, Kind.BYTE, Kind.MULTI_LANGUAGE, Kind.CHARACTER, Kind.OPAQUE

_PLAIN: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("PACKED", _O, "u1"),
    ("BYTE", _B, "u1"),
    ("AINT", _M, "i8"),
    ("OFFSET", _M, "i8"),
    ("COUNT", _M, "i8"),
    ("CHAR", _T, "u1"),
    ("SIGNED_CHAR", _C, "i1"),
    ("SHORT", _C, "i2"),
    ("INT", _C, "i4"),
    ("LONG_LONG", _C, "i8"),
    ("UNSIGNED_CHAR", _C, "u1"),
    ("UNSIGNED_SHORT", _C, "u2"),
    ("UNSIGNED", _C, "u4"),
    ("UNSIGNED_LONG_LONG", _C, "u8"),
    ("FLOAT", _R, "f4"),
    ("DOUBLE", _R, "f8"),
    ("C_BOOL", _L, "?"),
    ("INT8_T", _C, "i1"),
    ("INT16_T", _C, "i2"),
    ("INT32_T", _C, "i4"),
    ("INT64_T", _C, "i8"),
    ("UINT8_T", _C, "u1"),
    ("UINT16_T", _C, "u2"),
    ("UINT32_T", _C, "u4"),
    ("UINT64_T", _C, "u8"),
    ("FLOAT16_T", _R, "f2"),
    ("C_COMPLEX", _X, "c8"),
    ("C_DOUBLE_COMPLEX", _X, "c16"),
    ("CXX_BOOL", _L, "?"),
    ("CXX_FLOAT_COMPLEX", _X, "c8"),
    ("CXX_DOUBLE_COMPLEX", _X, "c16"),
    ("CHARACTER", _T, "u1"),
    ("LOGICAL", _L, "i4"),
    ("INTEGER", _F, "i4"),
    ("REAL", _R, "f4"),
    ("DOUBLE_PRECISION", _R, "f8"),
    ("COMPLEX", _X, "c8"),
    ("DOUBLE_COMPLEX", _X, "c16"),
    ("LOGICAL1", _L, "i1"),
    ("LOGICAL2", _L, "i2"),
    ("LOGICAL4", _L, "i4"),
    ("LOGICAL8", _L, "i8"),
    ("INTEGER1", _F, "i1"),
    ("INTEGER2", _F, "i2"),
    ("INTEGER4", _F, "i4"),
    ("INTEGER8", _F, "i8"),
    ("REAL2", _R, "f2"),
    ("REAL4", _R, "f4"),
    ("REAL8", _R, "f8"),
    ("COMPLEX8", _X, "c8"),
    ("COMPLEX16", _X, "c16"),
)

_LONG = np.dtype("l").str[1:]  # i8 or i4: the C compiler's long
_ULONG = np.dtype("L").str[1:]

BASICS: Final[dict[str, Basic]] = {
    basic.name: basic
    for basic in (
        *(_plain(*row) for row in _PLAIN),
        _narrow("LONG", _C, _LONG, ">i4", ">" + _LONG),
        _narrow("UNSIGNED_LONG", _C, _ULONG, ">u4", ">" + _ULONG),
        _narrow("WCHAR", _T, "u4", ">u2", ">u2"),
        _quad("LONG_DOUBLE", _R, "g", 1),
        _quad("C_LONG_DOUBLE_COMPLEX", _X, "G", 2),
        _quad("CXX_LONG_DOUBLE_COMPLEX", _X, "G", 2),
        # numpy has no arithmetic for the following: they can be moved, not reduced.
        _fields("BFLOAT16_T", _O, ["bits"], "u2", 2),
        _fields("COMPLEX4", _O, ["re", "im"], "f2", 2),
        _fields("LOGICAL16", _O, ["hi", "lo"], "u8", 16),
        _fields("INTEGER16", _O, ["hi", "lo"], "u8", 16),
        _fields("REAL16", _O, ["hi", "lo"], "u8", 16),
        _fields("COMPLEX32", _O, ["re_hi", "re_lo", "im_hi", "im_lo"], "u8", 16),
    )
}
"""By name."""

PAIRS: Final[dict[str, tuple[str, str]]] = {
    "FLOAT_INT": ("FLOAT", "INT"),
    "DOUBLE_INT": ("DOUBLE", "INT"),
    "LONG_INT": ("LONG", "INT"),
    "INT_INT": ("INT", "INT"),
    "SHORT_INT": ("SHORT", "INT"),
    "LONG_DOUBLE_INT": ("LONG_DOUBLE", "INT"),
}
"""The value-and-index types of MAXLOC and MINLOC: C structures of two basic types."""
