"""Reversed octets without numpy equal numpy's, for every type, form and length."""

from __future__ import annotations

import sys
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics import lazynumpy
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values import datatype, words
from impi.protocol.semantics.values.basic import BASICS, NATIVE, Wire
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.protocol.semantics.values.derive import contiguous, struct, vector

ROOM = 40


def packed(
    typemap: TypeMap, octets: bytes, count: int, long_size: int, *, without_numpy: bool
) -> bytes | str:
    """The octets on the wire, or the reason that there are none."""
    with mock.patch.object(datatype, "worth", lambda nbytes: without_numpy):
        try:
            return bytes(
                typemap.pack(
                    memoryview(octets), 0, count, external=True, long_size=long_size
                )
            )
        except MPIException as failure:
            return str(failure)


def unpacked(
    typemap: TypeMap,
    octets: bytes,
    count: int,
    long_size: int,
    *,
    without_numpy: bool,
    in_place: bool,
) -> tuple[int, bytes]:
    """How many elements a message makes, and what the memory is then."""
    memory = memoryview(bytearray(b"\xee" * max(typemap.span(0, count)[1], 1)))
    data = memoryview(octets)
    place = typemap.landing(memory, 0, count, external=True, long_size=long_size)
    if in_place and place is not None:
        place = place[: len(octets)]
        place[:] = data
        data = place
    with mock.patch.object(datatype, "worth", lambda nbytes: without_numpy):
        whole = typemap.unpack(
            data, memory, 0, count, external=True, long_size=long_size
        )
    return whole, bytes(memory)


@st.composite
def typemaps(draw: st.DrawFn) -> TypeMap:
    """A predefined type, or one derived from some of them."""
    base = NAMED[draw(st.sampled_from(sorted(NAMED)))]
    match draw(st.sampled_from(["named", "named", "contiguous", "vector", "struct"])):
        case "contiguous":
            return contiguous(draw(st.integers(1, 3)), base)
        case "vector":
            return vector(draw(st.integers(1, 3)), 1, draw(st.integers(1, 2)), base)
        case "struct":
            other = NAMED[draw(st.sampled_from(sorted(NAMED)))]
            return struct([1, 1], [0, base.extent], [base, other])
    return base


@given(typemaps(), st.integers(0, 4), st.sampled_from([4, 8]), st.data())
def test_packing_as_numpy_does(
    typemap: TypeMap, count: int, long_size: int, data: st.DataObject
) -> None:
    octets = data.draw(
        st.binary(
            min_size=typemap.span(0, count)[1], max_size=typemap.span(0, count)[1]
        )
    )
    octets = bytes(n & 1 for n in octets) if _has_bools(typemap) else octets
    arrays = packed(typemap, octets, count, long_size, without_numpy=True)
    assert arrays == packed(typemap, octets, count, long_size, without_numpy=False)


@given(typemaps(), st.integers(1, 4), st.sampled_from([4, 8]), st.booleans(), st.data())
def test_unpacking_as_numpy_does(
    typemap: TypeMap, count: int, long_size: int, in_place: bool, data: st.DataObject
) -> None:
    most = typemap.packed_size(count, external=True, long_size=long_size)
    octets = data.draw(
        st.binary(max_size=most) | st.binary(min_size=most, max_size=most)
    )
    octets = bytes(n & 1 for n in octets) if _has_bools(typemap) else octets
    arrays = unpacked(
        typemap, octets, count, long_size, without_numpy=True, in_place=in_place
    )
    assert arrays == unpacked(
        typemap, octets, count, long_size, without_numpy=False, in_place=in_place
    )


def _has_bools(typemap: TypeMap) -> bool:
    # Octets other than 0 and 1 are not values of a bool.
    return any(run.basic.name in ("C_BOOL", "CXX_BOOL") for run in typemap.runs)


@pytest.mark.parametrize("name", sorted(BASICS))
def test_what_needs_no_more_than_turning(name: str) -> None:
    """If ``turn`` reverses octets, numpy's types do so, too."""
    basic = BASICS[name]
    turned = {
        f for f in (1, 2) if basic.how[f] is Wire.SWAP and not basic.wires[f].isnative
    }
    assert bool(basic.turn) == bool(turned)
    if basic.turn:
        parts = 2 if basic.native.kind == "c" else 1
        assert basic.turn * parts == basic.sizes[NATIVE]
        for form in turned:
            assert basic.wires[form] == basic.native.newbyteorder()


@pytest.mark.parametrize("name", sorted(BASICS))
def test_sizes_are_those_of_numpy(name: str) -> None:
    basic = BASICS[name]
    assert tuple(wire.itemsize for wire in basic.wires) == basic.sizes
    if basic.native.kind != "V":
        assert basic.native.alignment == basic.align


@given(st.binary(max_size=ROOM), st.sampled_from([2, 4, 8]))
def test_turning_twice_changes_nothing(octets: bytes, width: int) -> None:
    octets = octets[: len(octets) // width * width]
    once = words.turned(octets, width)
    assert bytes(once) == b"".join(
        octets[i : i + width][::-1] for i in range(0, len(octets), width)
    )
    assert bytes(words.turned(once, width)) == octets


@given(
    st.integers(0, 30), st.sampled_from([2, 4, 8]), st.sampled_from([8, 16, 1 << 15])
)
def test_turning_in_place_piece_by_piece(count: int, width: int, chunk: int) -> None:
    octets = bytes(i % 251 for i in range(count * width))
    memory = memoryview(bytearray(octets))
    with mock.patch.object(words, "_CHUNK", chunk):
        words.turn(memory, memory, width)
        copy = memoryview(bytearray(count * width))
        words.turn(octets, copy, width)
    assert memory == copy == words.turned(octets, width)


def test_long_messages_are_turned_by_numpy_only_if_it_is_there() -> None:
    assert lazynumpy.loaded()
    assert words.worth(8)
    assert not words.worth(1 << 30)
    with mock.patch.dict(sys.modules):
        del sys.modules["numpy"]
        assert words.worth(1 << 30)
