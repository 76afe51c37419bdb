"""Reductions without numpy are those of numpy (:mod:`impi.protocol.semantics.values.op`), on any
octets."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values import op as predefined
from impi.protocol.semantics.values import wordops
from impi.protocol.semantics.values.datatype import NAMED

TYPES = [name for name, typemap in NAMED.items() if wordops.code_of(typemap)]


def defined(op: str, name: str) -> bool:
    try:
        predefined.check(op, NAMED[name])
    except MPIException:
        return False
    return True


CASES = [(op, name) for op in wordops.OPS for name in TYPES if defined(op, name)]


def test_integers_and_doubles_have_them() -> None:
    assert {
        "INT",
        "UNSIGNED_LONG_LONG",
        "LONG",
        "INTEGER1",
        "DOUBLE",
        "DOUBLE_PRECISION",
        "BYTE",
    } <= set(TYPES)
    # Their numbers are rounded to less than a double, are pairs, or mean something else.
    assert not {
        "FLOAT",
        "C_BOOL",
        "C_COMPLEX",
        "LONG_DOUBLE",
        "INT_INT",
        "INTEGER16",
    } & set(TYPES)
    assert len(CASES) > 200


@pytest.mark.parametrize(("op", "name"), CASES)
@settings(max_examples=20)
@given(st.binary(min_size=16, max_size=80), st.data())
def test_all_are_those_of_numpy(
    op: str, name: str, octets: bytes, data: st.DataObject
) -> None:
    typemap = NAMED[name]
    count = len(octets) // typemap.size
    a = octets[: count * typemap.size]
    b = data.draw(st.binary(min_size=len(a), max_size=len(a)))
    expected = np.frombuffer(bytearray(b), typemap.dtype)
    predefined.apply(op, np.frombuffer(a, typemap.dtype), expected, typemap)
    code = wordops.code_of(typemap)
    result = wordops.combine(op, code)(
        wordops.numbers(memoryview(a), code), wordops.numbers(bytearray(b), code)
    )
    # No standard says which octets stand for "not a number", and which zero is the larger
    if code == "d":
        assert all(
            x == y or (math.isnan(x) and math.isnan(y))
            for x, y in zip(result, expected.tolist(), strict=True)
        )
    else:
        assert bytes(result) == expected.tobytes()


def test_integers_wrap() -> None:
    run = wordops.combine("SUM", "i")
    assert run(values("i", 2**31 - 1, -(2**31), 5), values("i", 1, -1, 6)).tolist() == [
        -(2**31),
        2**31 - 1,
        11,
    ]
    assert wordops.combine("PROD", "B")(
        values("B", 255, 2), values("B", 255, 3)
    ).tolist() == [1, 6]


def test_the_result_may_be_in_the_place_of_the_first() -> None:
    run = wordops.combine("SUM", "i", onto=True)
    first, second = values("i", 2**31 - 1, 5), values("i", 1, 6)
    assert run(first, second) is first
    assert (first.tolist(), second.tolist()) == ([-(2**31), 11], [1, 6])


def test_what_is_not_a_number_wins() -> None:
    nan = float("nan")
    for op in ("MAX", "MIN"):
        run = wordops.combine(op, "d")
        assert all(map(math.isnan, run(values("d", nan, 1.0), values("d", 1.0, nan))))


def test_values_are_taken_apart_and_joined() -> None:
    value = values("h", 1, 2, 3, 4)
    assert wordops.join([value[:1], value[1:]]).tolist() == [1, 2, 3, 4]
    assert wordops.join([value[:0], value[4:]]).tolist() == []
    part = value[2:]
    part[0] = 9
    assert value.tolist() == [1, 2, 9, 4]


def values(code: str, *numbers: float) -> memoryview:
    return wordops.numbers(
        bytearray(struct.pack(f"{len(numbers)}{code}", *numbers)), code
    )
