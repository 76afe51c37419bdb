"""Messages that are written from where they lie: octet for octet what packing makes of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.blocks import SHORTEST, blocks_of
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.protocol.semantics.values.derive import (
    contiguous,
    hindexed,
    hvector,
    resized,
    struct,
    subarray,
    vector,
)

BYTE, SHORT, INT, DOUBLE, PAIR = (
    NAMED[name] for name in ("BYTE", "SHORT", "INT", "DOUBLE", "DOUBLE_INT")
)
FORMS = (
    {"external": False},
    {"external": True, "long_size": 4},
    {"external": True, "long_size": 8},
)


def grown(inner: st.SearchStrategy[TypeMap]) -> st.SearchStrategy[TypeMap]:
    """Derived types of derived types; blocks may overlap, which only a send allows."""
    small = st.integers(0, 3)
    places = st.integers(-40, 40)
    return st.one_of(
        st.builds(contiguous, small, inner),
        st.builds(vector, small, small, st.integers(-4, 5), inner),
        st.builds(hvector, small, small, st.integers(-50, 50), inner),
        st.builds(resized, st.integers(-9, 9), st.integers(-30, 60), inner),
        st.lists(st.tuples(small, places), min_size=1, max_size=4).flatmap(
            lambda pairs: inner.map(
                lambda old: hindexed([n for n, _ in pairs], [p for _, p in pairs], old)
            )
        ),
        st.lists(st.tuples(small, places, inner), min_size=1, max_size=3).map(
            lambda parts: struct(
                [n for n, _, _ in parts],
                [p for _, p, _ in parts],
                [t for _, _, t in parts],
            )
        ),
        st.tuples(st.integers(1, 3), st.integers(1, 3), inner, st.booleans()).map(
            lambda v: subarray(
                [v[0] + 1, v[1] + 2], [v[0], v[1]], [1, 1], v[2], fortran=v[3]
            )
        ),
    )


TYPES = st.recursive(
    st.sampled_from([BYTE, SHORT, INT, DOUBLE, PAIR]), grown, max_leaves=6
)


def memory_for(typemap: TypeMap, count: int) -> tuple[bytearray, int]:
    low, high = typemap.span(0, count)
    return bytearray((7 * i + 3) % 251 for i in range(high - low)), -low


@given(
    TYPES, st.integers(0, 4), st.sampled_from(FORMS), st.sampled_from([0, 1, 2, 8, 20])
)
@settings(max_examples=200, deadline=None)
def test_pieces_are_what_packing_makes(
    typemap: TypeMap, count: int, form: dict[str, int], shortest: int
) -> None:
    memory, offset = memory_for(typemap, count)
    pieces = typemap.pieces(memoryview(memory), offset, count, shortest, **form)  # type: ignore[arg-type]
    packed = bytes(typemap.pack(memoryview(memory), offset, count, **form))  # type: ignore[arg-type]
    if pieces is not None:
        assert b"".join(pieces) == packed
        assert all(piece.nbytes for piece in pieces)
    elif shortest == 0 and form == FORMS[0]:
        assert typemap.size == 0


@given(TYPES, st.integers(0, 4), st.randoms())
@settings(max_examples=150, deadline=None)
def test_what_is_read_into_pieces_is_what_unpacking_makes(
    typemap: TypeMap, count: int, random: object
) -> None:
    memory, offset = memory_for(typemap, count)
    pieces = typemap.pieces(memoryview(memory), offset, count, 0, external=False)
    assume(pieces is not None)
    touched = bytearray(len(memory))
    for mark in (
        typemap.pieces(memoryview(touched), offset, count, 0, external=False) or ()
    ):
        # A receive into places that overlap is not allowed (MPI 4.1, 3.2.2)
        assume(not any(mark))
        mark[:] = b"\1" * len(mark)
    message = random.randbytes(count * typemap.size)  # type: ignore[attr-defined]
    twin = bytearray(memory)
    typemap.unpack(message, memoryview(twin), offset, count, external=False)
    at = 0
    for piece in pieces or ():
        piece[:] = message[at : at + len(piece)]
        at += len(piece)
    assert memory == twin


@pytest.mark.parametrize(
    ("make", "lengths"),
    [
        (lambda: vector(4, 3, 5, DOUBLE), [24] * 4),
        (
            lambda: vector(4, 1, 2, struct([1, 1, 1], [0, 4, 8], [INT, INT, DOUBLE])),
            [16] * 4,
        ),
        (lambda: vector(3, 5, 5, INT), [60]),
        (lambda: vector(2, 2, 3, contiguous(4, SHORT)), [16, 16]),
        (lambda: struct([1, 1], [0, 8], [INT, DOUBLE]), [4, 8]),
        (lambda: contiguous(2, struct([1, 1], [0, 8], [INT, DOUBLE])), [4, 12, 8]),
        (lambda: hindexed([2, 2], [4, 0], SHORT), [4, 4]),
        (lambda: hindexed([2, 2], [0, 4], SHORT), [8]),
        (lambda: subarray([4, 6], [2, 6], [1, 0], INT, fortran=False), [48]),
        (lambda: subarray([4, 6], [2, 3], [1, 2], INT, fortran=False), [12, 12]),
        (lambda: subarray([4, 6], [2, 3], [1, 2], INT, fortran=True), [8, 8, 8]),
        (lambda: hvector(3, 1, -8, DOUBLE), [8, 8, 8]),
    ],
)
def test_as_few_blocks_as_there_are(
    make: Callable[[], TypeMap], lengths: list[int]
) -> None:
    blocks = blocks_of(make().runs, 0)
    assert blocks is not None
    assert [block.stop - block.start for block in blocks] == lengths


def test_short_blocks_are_not_even_counted() -> None:
    """A type with a million blocks keeps no list of them."""
    many = vector(1 << 20, 1, 2, DOUBLE)
    assert (
        many.pieces(memoryview(bytearray(many.extent)), 0, 1, 9, external=False) is None
    )


def test_conversion_needs_packing() -> None:
    row = vector(2, SHORTEST, 2 * SHORTEST, INT)
    memory = memoryview(bytearray(row.extent))
    assert row.pieces(memory, 0, 1, SHORTEST, external=True) is None
    assert len(row.pieces(memory, 0, 1, SHORTEST, external=False) or ()) == 2
    octets = vector(2, SHORTEST, 2 * SHORTEST, BYTE)
    assert len(octets.pieces(memory, 0, 1, SHORTEST, external=True) or ()) == 2


def test_outside_of_the_buffer() -> None:
    row = vector(2, 8, 16, BYTE)
    with pytest.raises(
        MPIException, match="elements take octets 0 to 24 of a buffer of 23"
    ):
        row.pieces(memoryview(bytearray(23)), 0, 1, 1, external=False)
