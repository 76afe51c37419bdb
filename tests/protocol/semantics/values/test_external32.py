from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.basic import (
    BASICS,
    EXTERNAL,
    EXTERNAL_LONG8,
    NATIVE,
    Wire,
)
from impi.protocol.semantics.values.binary128 import from_binary128, to_binary128
from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.semantics.values.derive import resized, vector

X87 = np.finfo(np.longdouble).nmant == 63
needs_x87 = pytest.mark.skipif(
    not X87, reason="this machine's long double is not the 80-bit one of x87"
)

VECTOR = Path(__file__).parents[3] / "vectors" / "p_types_ext32" / "host0_to_host1.bin"


def external(name: str, array: Any, long_size: int = 4) -> bytes:
    octets = np.ascontiguousarray(array).view(np.uint8).data
    return bytes(
        NAMED[name].pack(octets, 0, len(array), external=True, long_size=long_size)
    )


def back(name: str, octets: bytes, count: int, long_size: int = 4) -> Any:
    values = np.zeros(count, BASICS[name].native)
    NAMED[name].unpack(
        octets, values.view(np.uint8).data, 0, count, external=True, long_size=long_size
    )
    return values


INTEGERS = [
    n for n, b in BASICS.items() if b.native.kind in "iu" and Wire.NARROW not in b.how
]
FLOATS = [
    n for n, b in BASICS.items() if b.native.kind == "f" and b.native.itemsize <= 8
]
CODES = {1: "b", 2: "h", 4: "i", 8: "q"}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_big_endian(name: str) -> None:
    native = BASICS[name].native
    limits = np.iinfo(native)
    values = [limits.min, limits.max, 0, 1, 0x12 % limits.max]
    code = (
        CODES[native.itemsize].upper() if native.kind == "u" else CODES[native.itemsize]
    )
    octets = external(name, np.array(values, native))
    assert octets == struct.pack(f">{len(values)}{code}", *values)
    assert back(name, octets, len(values)).tolist() == values


@pytest.mark.parametrize("name", FLOATS)
def test_floating_point_is_ieee_big_endian(name: str) -> None:
    native = BASICS[name].native
    values = [1.5, -0.0, float("inf"), -float("inf"), 6.1e-05]
    octets = external(name, np.array(values, native))
    code = {2: "e", 4: "f", 8: "d"}[native.itemsize]
    assert octets == struct.pack(f">{len(values)}{code}", *values)
    assert (
        back(name, octets, len(values)).tobytes() == np.array(values, native).tobytes()
    )


def test_the_bits_of_a_nan_survive() -> None:
    bits = np.array([0x7FF0DEADBEEF0001, 0xFFF8000000000123], np.uint64)
    octets = external("DOUBLE", bits.view("f8"))
    assert octets == bits.astype(">u8").tobytes()
    assert back("DOUBLE", octets, 2).view(np.uint64).tolist() == bits.tolist()


@pytest.mark.parametrize(
    "name",
    [n for n, b in BASICS.items() if b.native.kind == "c" and b.native.itemsize <= 16],
)
def test_complex_numbers_keep_real_before_imaginary(name: str) -> None:
    native = BASICS[name].native
    values = np.array([1.5 - 2.25j, 3j], native)
    code = "f" if native.itemsize == 8 else "d"
    octets = external(name, values)
    assert octets == struct.pack(f">4{code}", 1.5, -2.25, 0.0, 3.0)
    assert back(name, octets, 2).tolist() == values.tolist()


@pytest.mark.parametrize("name", ["C_BOOL", "CXX_BOOL"])
def test_booleans_are_one_octet(name: str) -> None:
    assert external(name, np.array([True, False, True])) == b"\1\0\1"


def test_what_other_implementations_send() -> None:
    """Recorded: INT, DOUBLE, 8-octet integer, SHORT, each a DATA packet with pk_len at 4."""
    data = VECTOR.read_bytes()
    payloads = []
    while int.from_bytes(data[:4]) == 0 and (length := int.from_bytes(data[4:8])):
        payloads.append(data[128 : 128 + length])
        data = data[128 + length :]
    assert [len(p) for p in payloads] == [8, 8, 8, 2]
    assert back("INT", payloads[0], 2).tolist() == [0x01020304, -2]
    assert back("DOUBLE", payloads[1], 1).tolist() == [1.5]
    assert back("LONG", payloads[2], 1, long_size=8).tolist() == [0x0102030405060708]
    assert back("SHORT", payloads[3], 1).tolist() == [0x1122]
    assert external("INT", np.array([0x01020304, -2], "i4")) == payloads[0]
    assert external("LONG", np.array([0x0102030405060708]), long_size=8) == payloads[2]


@pytest.mark.skipif(
    np.dtype("l").itemsize != 8,
    reason="this machine's long has 4 octets: it cannot overflow",
)
class TestLong:
    def test_four_octets_as_the_standard_has_it(self) -> None:
        values = np.array([-(2**31), 2**31 - 1, -1])
        assert external("LONG", values) == struct.pack(">3i", *values)
        assert back("LONG", external("LONG", values), 3).tolist() == values.tolist()
        unsigned = np.array([0, 2**32 - 1], np.uint64)
        assert external("UNSIGNED_LONG", unsigned) == b"\0\0\0\0\xff\xff\xff\xff"

    def test_eight_octets_where_it_was_agreed(self) -> None:
        values = np.array([2**40 + 7, -1])
        assert external("LONG", values, 8) == struct.pack(">2q", *values)
        assert (
            back("LONG", external("LONG", values, 8), 2, 8).tolist() == values.tolist()
        )

    @pytest.mark.parametrize(
        ("name", "value", "cure"),
        [
            ("LONG", 2**31, " INT64_T"),
            ("LONG", -(2**31) - 1, " INT64_T"),
            ("UNSIGNED_LONG", 2**32, "UINT64_T"),
        ],
    )
    def test_overflow_is_an_error_by_name(
        self, name: str, value: int, cure: str
    ) -> None:
        with pytest.raises(
            MPIException, match=rf"{value} does not fit .* MPI_{name}: .*{cure}"
        ) as caught:
            external(name, np.array([1, value, 2], BASICS[name].native))
        assert caught.value == ERROR_CLASSES["ERR_VALUE_TOO_LARGE"][0]

    def test_strided_longs_are_checked_too(self) -> None:
        values = np.array([1, 2**40, 2, 2**40, 3])
        every_other = vector(3, 1, 2, NAMED["LONG"])
        assert bytes(
            every_other.pack(values.view(np.uint8).data, 0, 1, external=True)
        ) == struct.pack(">3i", 1, 2, 3)


def test_wide_characters_have_two_octets() -> None:
    assert external("WCHAR", np.array([0x41, 0x20AC], "u4")) == b"\0A\x20\xac"
    assert back("WCHAR", b"\0A\x20\xac", 2).tolist() == [0x41, 0x20AC]
    with pytest.raises(MPIException, match="128512 does not fit into the 2 octets"):
        external("WCHAR", np.array([0x1F600], "u4"))


def test_types_longer_than_numpys_are_reversed_part_by_part() -> None:
    octets = bytes(range(1, 33))
    for name, expected in {
        "BFLOAT16_T": octets[1::-1],
        "COMPLEX4": octets[1::-1] + octets[3:1:-1],
        "REAL16": octets[15::-1],
        "INTEGER16": octets[15::-1],
        "LOGICAL16": octets[15::-1],
        "COMPLEX32": octets[15::-1] + octets[31:15:-1],
    }.items():
        size = BASICS[name].sizes[NATIVE]
        wire = bytes(NAMED[name].pack(memoryview(octets), 0, 1, external=True))
        assert wire == expected, name
        memory = bytearray(size)
        NAMED[name].unpack(wire, memoryview(memory), 0, 1, external=True)
        assert memory == octets[:size], name


def value_of(hi: int, lo: int) -> Fraction | str:
    """An IEEE binary128 number, from the definition."""
    sign, exponent, fraction = (
        hi >> 63,
        (hi >> 48) & 0x7FFF,
        ((hi & (2**48 - 1)) << 64) | lo,
    )
    if exponent == 0x7FFF:
        return "nan" if fraction else ("-inf" if sign else "inf")
    size = Fraction(fraction, 2**112) + (1 if exponent else 0)
    value = size * Fraction(2) ** (max(exponent, 1) - 16383)
    return -value if sign else value


def x87(mantissa: int, head: int) -> Any:
    return np.frombuffer(
        mantissa.to_bytes(8, "little") + head.to_bytes(2, "little") + bytes(6),
        np.longdouble,
    )


def x87_bits(values: Any) -> tuple[int, int]:
    octets = values.tobytes()
    return int.from_bytes(octets[:8], "little"), int.from_bytes(octets[8:10], "little")


def quad(values: Any) -> tuple[int, int]:
    hi, lo = to_binary128(values)
    return int(hi[0]), int(lo[0])


@needs_x87
class TestLongDouble:
    @pytest.mark.parametrize(
        ("text", "wire"),
        [
            ("1", "3fff 0000000000000000000000000000"),
            ("-1.5", "bfff 8000000000000000000000000000"),
            ("0", "0000 0000000000000000000000000000"),
            ("-0", "8000 0000000000000000000000000000"),
            ("inf", "7fff 0000000000000000000000000000"),
            ("nan", "7fff 8000000000000000000000000000"),
            ("0.1", "3ffb 999999999999999a000000000000"),
        ],
    )
    def test_known_values(self, text: str, wire: str) -> None:
        assert external(
            "LONG_DOUBLE", np.array([np.longdouble(text)])
        ) == bytes.fromhex(wire)

    @given(st.integers(0, 2**64 - 1), st.integers(0, 0xFFFF))
    def test_exact_there_and_back(self, mantissa: int, head: int) -> None:
        exponent = head & 0x7FFF
        mantissa = mantissa | 2**63 if exponent else mantissa & (2**63 - 1)
        hi, lo = quad(x87(mantissa, head))
        fraction = mantissa & (2**63 - 1)
        if exponent != 0x7FFF:
            size = Fraction(mantissa, 2**63) * Fraction(2) ** (max(exponent, 1) - 16383)
            assert value_of(hi, lo) == (-size if head >> 15 else size)
        elif fraction:
            assert value_of(hi, lo) == "nan"
        returned = from_binary128(np.array([hi], np.uint64), np.array([lo], np.uint64))
        quiet = 2**62 if exponent == 0x7FFF and fraction else 0
        assert x87_bits(returned) == (mantissa | quiet, head)

    @given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
    def test_numbers_of_more_digits_are_rounded_to_nearest_even(
        self, hi: int, lo: int
    ) -> None:
        returned = from_binary128(np.array([hi], np.uint64), np.array([lo], np.uint64))
        exact = value_of(hi, lo)
        rounded = value_of(*quad(returned))
        if isinstance(exact, str):
            assert rounded == exact
            return
        if isinstance(rounded, str):  # beyond the largest long double
            assert rounded.endswith("inf")
            assert abs(exact) >= (2 - Fraction(1, 2**64)) * Fraction(2) ** 16383
            return
        exponent = max((hi >> 48) & 0x7FFF, 1)
        unit = Fraction(2) ** (exponent - 16383 - 63)
        assert abs(exact - rounded) <= unit / 2
        if abs(exact - rounded) == unit / 2:
            assert x87_bits(returned)[0] % 2 == 0

    def test_a_carry_goes_into_the_exponent(self) -> None:
        ones = (1 << 63) - 1
        hi = (16383 << 48) | (ones >> 15)
        lo = ((ones & 0x7FFF) << 49) | (1 << 48)
        assert (
            from_binary128(np.array([hi], np.uint64), np.array([lo], np.uint64))[0] == 2
        )

    def test_complex(self) -> None:
        values = np.array([1 + 2j, -3.5j], np.clongdouble)
        octets = external("C_LONG_DOUBLE_COMPLEX", values)
        assert octets.hex() == "".join(
            external("LONG_DOUBLE", np.array([part], np.longdouble)).hex()
            for z in values
            for part in (z.real, z.imag)
        )
        assert back("C_LONG_DOUBLE_COMPLEX", octets, 2).tolist() == values.tolist()

    def test_no_octet_of_padding_leaks(self) -> None:
        dirty = np.frombuffer(b"\xaa" * 16, np.uint8).copy()
        dirty[:10] = np.frombuffer(np.longdouble(1).tobytes()[:10], np.uint8)
        wire = NAMED["LONG_DOUBLE"].pack(dirty.data, 0, 1, external=True)
        assert bytes(wire) == external("LONG_DOUBLE", np.array([np.longdouble(1)]))


@pytest.mark.parametrize("name", sorted(BASICS))
@pytest.mark.parametrize("form", [EXTERNAL, EXTERNAL_LONG8])
def test_every_type_survives_with_any_stride(name: str, form: int) -> None:
    """Values that fit everywhere, in every second place, there and back."""
    basic = BASICS[name]
    size = basic.sizes[NATIVE]
    memory = np.zeros((4, 2, size), np.uint8)
    memory[:, 0, 0] = [1, 0, 1, 1] if basic.native.kind != "f" else 0
    if basic.native.kind in "fc":
        memory[:, 0] = (
            np.array([1.5, -2, 0, 8], basic.native).view(np.uint8).reshape(4, size)
        )
    if X87 and Wire.QUAD in basic.how:
        memory.reshape(4, 2, -1, 16)[..., 10:] = 0  # padding, which is not data
    spaced = resized(0, 2 * size, NAMED[name])
    long_size = 8 if form == EXTERNAL_LONG8 else 4
    wire = spaced.pack(memory.data.cast("B"), 0, 4, external=True, long_size=long_size)
    assert wire.nbytes == 4 * basic.sizes[form]
    copy = np.zeros_like(memory)
    assert (
        spaced.unpack(
            wire, copy.data.cast("B"), 0, 4, external=True, long_size=long_size
        )
        == 4
    )
    np.testing.assert_array_equal(copy, memory)
