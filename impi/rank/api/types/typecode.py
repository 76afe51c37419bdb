"""Type codes of numpy and PEP 3118 and their predefined datatypes."""

from __future__ import annotations

from typing import Final

from impi.protocol.semantics.values.basic import BASICS, NATIVE, Kind

_ROWS: Final = (
    ("C_BOOL", "? b1"),
    ("SIGNED_CHAR", "b"),
    ("SHORT", "h"),
    ("INT", "i"),
    ("LONG", "l"),
    ("LONG_LONG", "q"),
    ("UNSIGNED_CHAR", "B"),
    ("UNSIGNED_SHORT", "H"),
    ("UNSIGNED", "I"),
    ("UNSIGNED_LONG", "L N P"),
    ("UNSIGNED_LONG_LONG", "Q"),
    ("FLOAT16_T", "e f2"),
    ("FLOAT", "f f4"),
    ("DOUBLE", "d f8"),
    ("LONG_DOUBLE", "g f16"),
    ("COMPLEX4", "Ze E c4"),
    ("C_COMPLEX", "Zf F c8"),
    ("C_DOUBLE_COMPLEX", "Zd D c16"),
    ("C_LONG_DOUBLE_COMPLEX", "Zg G c32"),
    ("INT8_T", "i1"),
    ("INT16_T", "i2"),
    ("INT32_T", "i4"),
    ("INT64_T", "i8 M M8 m m8"),
    ("INTEGER16", "i16"),
    ("UINT8_T", "u1"),
    ("UINT16_T", "u2 u 1u"),
    ("UINT32_T", "u4"),
    ("UINT64_T", "u8"),
    ("COUNT", "n"),
    ("AINT", "p"),
    ("CHAR", "c a S S1 s 1s"),
    ("WCHAR", "U U1 w 1w"),
)

CODES: Final[dict[str, str]] = {
    code: name for name, codes in _ROWS for code in codes.split()
}
"""Code to name of the datatype."""

_SIGNED: Final = {1: "b", 2: "h", 4: "i", 8: "l"}
_REAL: Final = {2: "e", 4: "f", 8: "d", 16: "g"}
_COMPLEX: Final = {4: "E", 8: "F", 16: "D", 32: "G"}
_C_CHARS: Final = {
    "PACKED": "B",
    "BYTE": "B",
    "AINT": "p",
    "OFFSET": "p",
    "COUNT": "p",
    "CHAR": "c",
    "CHARACTER": "c",
    "WCHAR": "U",
    **{CODES[code]: code for code in "?bhilqBHILQ"},
    "CXX_BOOL": "?",
}


def char_of(name: str) -> str | None:
    """Return the character code of a predefined datatype, or None."""

    basic = BASICS.get(name)
    if basic is None or name == "BFLOAT16_T":
        return None

    if name in _C_CHARS:
        return _C_CHARS[name]

    size = basic.sizes[NATIVE]
    if basic.kind is Kind.LOGICAL:
        return "?" if size == 1 else _SIGNED.get(size)

    if basic.kind is Kind.COMPLEX or name in ("COMPLEX4", "COMPLEX32"):
        return _COMPLEX[size]

    if basic.kind is Kind.FLOATING or name == "REAL16":
        return _REAL[size]

    code = _SIGNED.get(size)

    return code.upper() if code is not None and name.startswith("UINT") else code


_STRS: Final = {"?": "b1", "c": "S1", "U": "U1", "p": "i8"}


def str_of(name: str) -> str | None:
    """Return the type string of a predefined datatype, such as ``f8``, or None."""

    if name in ("INTEGER16", "LOGICAL16"):
        return "i16"

    char = char_of(name)
    if char is None:
        return None

    if char in _STRS:
        return _STRS[char]

    kind = (
        "i"
        if char in "bhilq"
        else "u"
        if char in "BHILQ"
        else "f"
        if char in "efdg"
        else "c"
    )

    return f"{kind}{BASICS[name].sizes[NATIVE]}"


def code_of(name: str) -> str | None:
    """Return the code for pickles: a type string for types of fixed size, else a character."""
    sized = (
        name.rstrip("0123456789") in ("LOGICAL", "INTEGER", "REAL", "COMPLEX")
        and name[-1].isdigit()
    )
    if (
        sized
        or name == "C_BOOL"
        or name.startswith(("INT8", "INT16", "INT32", "INT64", "UINT"))
    ):
        return str_of(name)

    return char_of(name)
