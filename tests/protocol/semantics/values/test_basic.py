from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from impi.protocol.semantics.values.basic import (
    BASICS,
    EXTERNAL,
    EXTERNAL_LONG8,
    NATIVE,
    PAIRS,
    form_of,
)

# MPI 4.1, table 14.2, and table 14.1 for the optional Fortran types.
EXTERNAL32 = {
    1: "PACKED BYTE CHAR SIGNED_CHAR UNSIGNED_CHAR C_BOOL CXX_BOOL INT8_T UINT8_T CHARACTER LOGICAL1 INTEGER1",
    2: "WCHAR SHORT UNSIGNED_SHORT INT16_T UINT16_T LOGICAL2 INTEGER2 REAL2 FLOAT16_T BFLOAT16_T",
    4: "INT UNSIGNED LONG UNSIGNED_LONG FLOAT INT32_T UINT32_T LOGICAL INTEGER REAL LOGICAL4 INTEGER4 REAL4 COMPLEX4",
    8: "LONG_LONG UNSIGNED_LONG_LONG DOUBLE INT64_T UINT64_T AINT OFFSET COUNT C_COMPLEX CXX_FLOAT_COMPLEX "
    "DOUBLE_PRECISION COMPLEX LOGICAL8 INTEGER8 REAL8 COMPLEX8",
    16: "LONG_DOUBLE C_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX DOUBLE_COMPLEX LOGICAL16 INTEGER16 REAL16 COMPLEX16",
    32: "C_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX COMPLEX32",
}
SIZES = {name: size for size, names in EXTERNAL32.items() for name in names.split()}

C_TYPES: dict[str, type[ctypes._SimpleCData[Any]]] = {
    "SHORT": ctypes.c_short,
    "INT": ctypes.c_int,
    "LONG": ctypes.c_long,
    "LONG_LONG": ctypes.c_longlong,
    "UNSIGNED_LONG": ctypes.c_ulong,
    "FLOAT": ctypes.c_float,
    "DOUBLE": ctypes.c_double,
    "LONG_DOUBLE": ctypes.c_longdouble,
    "C_BOOL": ctypes.c_bool,
    "WCHAR": ctypes.c_wchar,
    "AINT": ctypes.c_void_p,
}


def test_the_table_of_the_standard_is_complete() -> None:
    assert set(SIZES) == set(BASICS)


@pytest.mark.parametrize("name", sorted(BASICS))
def test_external32_sizes(name: str) -> None:
    basic = BASICS[name]
    assert basic.sizes[EXTERNAL] == SIZES[name]
    expected = (
        struct.calcsize("l") if name in ("LONG", "UNSIGNED_LONG") else SIZES[name]
    )
    assert basic.sizes[EXTERNAL_LONG8] == expected
    assert basic.native.itemsize == basic.carrier.itemsize == basic.sizes[NATIVE]


@pytest.mark.parametrize("name", sorted(C_TYPES))
def test_native_ones_are_the_compilers(name: str) -> None:
    assert BASICS[name].sizes[NATIVE] == ctypes.sizeof(C_TYPES[name])
    assert BASICS[name].align == ctypes.alignment(C_TYPES[name])


def test_pairs_are_of_known_types() -> None:
    assert all(value in BASICS and index == "INT" for value, index in PAIRS.values())


def test_forms() -> None:
    assert (
        form_of(external=False, long_size=4)
        == form_of(external=False, long_size=8)
        == NATIVE
    )
    assert form_of(external=True, long_size=4) == EXTERNAL
    assert form_of(external=True, long_size=8) == EXTERNAL_LONG8
