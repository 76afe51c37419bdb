"""The basic datatypes in memory and in external32 (MPI 4.1, 14.5.2).

A *form* is one of three ways to write a value: native; external32 with MPI_LONG in 4 octets, as the
standard says; external32 with MPI_LONG in 8 octets, which clients may agree on.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from impi.protocol.semantics.lazynumpy import np

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
    """Conversions from octets in memory to external32."""

    SAME = "as they are"
    SWAP = "in big-endian order"
    NARROW = "in fewer octets, which may overflow"
    FIELDS = "part by part: longer than any number of numpy"
    QUAD = "as IEEE binary128"


class Basic:
    """One basic datatype.

    Args:
        name: the name in MPI, without the prefix.
        kind: the class of types by which MPI says where a reduction is valid.
        size: octets in memory.
        align: octets.
        codes: numpy's type codes of :attr:`native`, :attr:`carrier`, and the wires of both external
            forms; types are made from them on first use.
        sizes: octets in both external forms.
        how: conversions in both external forms.
        turn: octets per number, if external32 only reverses each number; else 0.
    """

    __slots__ = (
        "_codes",
        "align",
        "carrier",
        "how",
        "kind",
        "name",
        "native",
        "sizes",
        "turn",
        "wires",
    )

    native: DType
    """numpy's type for arithmetic; a void type where numpy has none."""
    carrier: DType
    """numpy's type of the same size that :mod:`impi.protocol.semantics.values.external32` takes
    apart to move the value."""
    wires: tuple[DType, DType, DType]
    """numpy's type of the packed value, for each form."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        size: int,
        align: int,
        codes: tuple[Any, Any, Any, Any],
        sizes: tuple[int, int],
        how: tuple[Wire, Wire],
        turn: int = 0,
    ) -> None:
        self.name = name
        self.kind = kind
        self.align = align
        self.sizes = (size, *sizes)
        """Octets of a value, for each form."""
        self.how = (Wire.SAME, *how)
        """The conversion from memory, for each form."""
        self.turn = turn
        """Octets per number, where external32 is each number with its octets reversed; else 0."""
        self._codes = codes

    def __repr__(self) -> str:
        return f"Basic({self.name})"

    @property
    def code(self) -> str:
        """numpy's type code, as MPI reductions use it: such as ``i4``; ``V16`` for a void type."""
        return str(self._codes[0])

    if not TYPE_CHECKING:  # or all attributes would seem to be there

        def __getattr__(self, name: str) -> Any:
            # Slots that are not filled come here.
            if name not in {"native", "carrier", "wires"}:
                raise AttributeError(f"Basic has no {name!r}")

            self.native, self.carrier, *wires = map(np.dtype, self._codes)
            self.wires = (self.carrier, *wires)

            return getattr(self, name)


_LITTLE: Final = sys.byteorder == "little"
_PARTS: Final = {"c8": "f4", "c16": "f8", "G": "g"}  # A complex number is two real ones
C_CODES: Final = {
    "?": "?",
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
}
"""The codes of :mod:`struct` and :mod:`array`, by numpy's."""


def _measure(code: str) -> tuple[int, int]:
    """Return size and alignment, in octets, that the C compiler gives the type of a numpy code."""

    if code in _PARTS:
        size, align = _measure(_PARTS[code])
        return 2 * size, align

    if code == "g":
        return ctypes.sizeof(ctypes.c_longdouble), ctypes.alignment(ctypes.c_longdouble)

    size = struct.calcsize(C_CODES[code])

    # `struct` pads like the compiler: behind one octet, the padding tells the alignment.
    return size, struct.calcsize("b" + C_CODES[code]) - size


def _plain(name: str, kind: Kind, code: str) -> Basic:
    size, align = _measure(code)
    # One octet has no order.
    how, big = (Wire.SAME, code) if size == 1 else (Wire.SWAP, ">" + code)
    turn = _measure(_PARTS.get(code, code))[0] if _LITTLE and size > 1 else 0

    return Basic(
        name, kind, size, align, (code, code, big, big), (size, size), (how, how), turn
    )


def _narrow(
    name: str, kind: Kind, code: str, external: str, external_long8: str
) -> Basic:
    size, align = _measure(code)
    sizes = _measure(external)[0], _measure(external_long8)[0]
    # Where long has as many octets as its external form, nothing is lost and nothing is checked.
    how = tuple(Wire.SWAP if wire == size else Wire.NARROW for wire in sizes)
    codes = (code, code, ">" + external, ">" + external_long8)

    return Basic(
        name,
        kind,
        size,
        align,
        codes,
        sizes,
        (how[0], how[1]),
        size if _LITTLE and Wire.SWAP in how else 0,
    )


def _fields(name: str, kind: Kind, names: list[str], code: str, align: int) -> Basic:
    """A type of several words; ``names`` is their order in external32, most significant first."""

    wire = [(part, ">" + code) for part in names]
    groups = [names] if len(names) < 4 or code == "f2" else [names[:2], names[2:]]

    # On a little-endian machine the least significant word comes first in memory,
    # in each number by itself.
    little = [(part, "<" + code) for group in groups for part in reversed(group)]
    if code == "f2":  # a complex number: its parts keep their places
        little = [(part, "<" + code) for part in names]

    size = len(names) * _measure(code)[0]
    codes = (f"V{size}", little if _LITTLE else wire, wire, wire)

    return Basic(
        name, kind, size, align, codes, (size, size), (Wire.FIELDS, Wire.FIELDS)
    )


def _quad(name: str, kind: Kind, code: str, parts: int) -> Basic:
    size, align = _measure(code)
    part: list[tuple[str, Any]] = [("hi", ">u8"), ("lo", ">u8")]
    wire = part if parts == 1 else [("re", part), ("im", part)]
    sizes = (16 * parts, 16 * parts)

    return Basic(
        name,
        kind,
        size,
        align,
        (code, f"V{size}", wire, wire),
        sizes,
        (Wire.QUAD, Wire.QUAD),
    )


_C, _F, _R, _L = Kind.C_INTEGER, Kind.FORTRAN_INTEGER, Kind.FLOATING, Kind.LOGICAL
_X, _B, _M, _T, _O = (
    Kind.COMPLEX,
    Kind.BYTE,
    Kind.MULTI_LANGUAGE,
    Kind.CHARACTER,
    Kind.OPAQUE,
)

_PLAIN: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("PACKED", _O, "u1"),
    ("BYTE", _B, "u1"),
    ("AINT", _M, "i8"),
    ("OFFSET", _M, "i8"),
    ("COUNT", _M, "i8"),
    ("CHAR", _C, "i1"),  # a number to MPICH and Open MPI, though no integer to MPI
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

_LONG = f"i{struct.calcsize('l')}"  # i8 or i4: the C compiler's long
_ULONG = f"u{struct.calcsize('L')}"

BASICS: Final[dict[str, Basic]] = {
    basic.name: basic
    for basic in (
        *(_plain(*row) for row in _PLAIN),
        _narrow("LONG", _C, _LONG, "i4", _LONG),
        _narrow("UNSIGNED_LONG", _C, _ULONG, "u4", _ULONG),
        # External32 has 2 octets for a wide character (MPI 4.1, 14.5.2), Linux has 4.
        _narrow("WCHAR", _T, "u4", "u2", "u2"),
        # External32 has binary128, which most machines have to convert to.
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
"""The basic datatypes by name."""

PAIRS: Final[dict[str, tuple[str, str]]] = {
    "FLOAT_INT": ("FLOAT", "INT"),
    "DOUBLE_INT": ("DOUBLE", "INT"),
    "LONG_INT": ("LONG", "INT"),
    "INT_INT": ("INT", "INT"),
    "SHORT_INT": ("SHORT", "INT"),
    "LONG_DOUBLE_INT": ("LONG_DOUBLE", "INT"),
}
"""The value-and-index types of MAXLOC and MINLOC: C structures of two basic types."""
