"""The place of a stream in a file, against a model that walks octet by octet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values import derive
from impi.protocol.semantics.values.darray import Distribution, darray
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.rank.api.files.view import NOTHING, Pieces, View

SHORT, INT, BYTE = NAMED["SHORT"], NAMED["INT"], NAMED["BYTE"]


def octets_of(typemap: TypeMap) -> list[int]:
    """Displacements of all octets of one element, in message order: the model knows no blocks."""
    found: list[tuple[int, int]] = []
    for run in typemap.runs:
        for index in np.ndindex(*run.shape):
            place = run.displacement + sum(
                i * s for i, s in zip(index, run.strides, strict=True)
            )
            packed = run.packed[0] + sum(
                i * s[0] for i, s in zip(index, run.packed_strides, strict=True)
            )
            found += [(packed + i, place + i) for i in range(run.basic.sizes[0])]
    return [place for _, place in sorted(found)]


def stream(view: View) -> Iterator[int]:
    tile = view.displacement
    while True:
        yield from (tile + place for place in octets_of(view.filetype))
        tile += view.filetype.extent


def flat(pieces: Pieces) -> list[int]:
    return [
        o + i
        for o, n in zip(pieces.offsets, pieces.lengths, strict=True)
        for i in range(n)
    ]


@st.composite
def filetypes(draw: st.DrawFn) -> tuple[TypeMap, TypeMap]:
    """An etype, and a file type made of it with holes."""
    etype = draw(st.sampled_from([BYTE, SHORT, INT, derive.contiguous(3, SHORT)]))
    typemap = etype
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(
            st.sampled_from(["vector", "indexed", "subarray", "resized", "darray"])
        )
        n = draw(st.integers(1, 3))
        gap = draw(st.integers(0, 3))
        match kind:
            case "vector":
                typemap = derive.vector(n, 2, 2 + gap, typemap)
            case "indexed":
                lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
                places, end = [], gap
                for length in lengths:
                    places.append(end)
                    end += length + draw(st.integers(0, 2))
                typemap = derive.indexed(lengths, places, typemap)
            case "subarray":
                typemap = derive.subarray(
                    [n + gap, 4], [n, 2], [gap, 1], typemap, fortran=draw(st.booleans())
                )
            case "resized":
                typemap = derive.resized(0, typemap.ub + gap, typemap)
            case "darray":
                rank = draw(st.integers(0, 1))
                typemap = darray(
                    2,
                    rank,
                    [5],
                    [Distribution.CYCLIC],
                    [1],
                    [2],
                    typemap,
                    fortran=False,
                )
    return etype, typemap


def made(displacement: int, types: tuple[TypeMap, TypeMap]) -> View | None:
    try:
        return View(displacement, *types)
    except MPIException:
        places = octets_of(types[1])
        assert places != sorted(places) or not places
        return None


@given(filetypes(), st.integers(0, 9), st.integers(0, 60), st.integers(0, 60))
def test_pieces(
    types: tuple[TypeMap, TypeMap], displacement: int, begin: int, nbytes: int
) -> None:
    view = made(displacement, types)
    if view is None:
        return
    pieces = view.pieces(begin, nbytes)
    assert flat(pieces) == list(islice(stream(view), begin, begin + nbytes))
    assert all(pieces.lengths)
    ends = [o + n for o, n in zip(pieces.offsets, pieces.lengths, strict=True)]
    # Touching ones are one
    assert all(
        end != after for end, after in zip(ends, pieces.offsets[1:], strict=False)
    )
    if nbytes:
        assert pieces.span == (min(flat(pieces)), max(flat(pieces)) + 1)


@given(filetypes(), st.integers(0, 9), st.integers(0, 60))
def test_places(types: tuple[TypeMap, TypeMap], displacement: int, octet: int) -> None:
    view = made(displacement, types)
    if view is not None:
        assert view.place(octet) == next(islice(stream(view), octet, None))


@given(filetypes(), st.integers(0, 9), st.integers(0, 80))
def test_octets_below(
    types: tuple[TypeMap, TypeMap], displacement: int, end: int
) -> None:
    view = made(displacement, types)
    if view is not None:
        # No octet of the file is in a stream of this length that lies before `end`.
        assert view.octets_below(end) == sum(
            place < end for place in islice(stream(view), 400)
        )


def test_nothing() -> None:
    view = View(3, INT, derive.vector(2, 1, 2, INT))
    assert view.pieces(7, 0) == NOTHING
    assert NOTHING.span == (0, 0)


@pytest.mark.parametrize(
    ("filetype", "average"),
    [(INT, 0), (derive.contiguous(5, INT), 0), (derive.vector(3, 2, 4, INT), 8)],
)
def test_the_average_block(filetype: TypeMap, average: int) -> None:
    assert View(0, INT, filetype).average == average


def test_tiles_may_interleave() -> None:
    view = View(0, INT, derive.resized(0, 4, derive.vector(2, 1, 4, INT)))
    assert view.pieces(0, 16) == Pieces([0, 16, 4, 20], [4, 4, 4, 4])
    # Firsts, half of the fifth, half of a second
    assert view.octets_below(18) == 4 * 4 + 2 + 2


@pytest.mark.parametrize(
    ("displacement", "etype", "filetype", "sentence"),
    [
        (-1, INT, INT, "displacement -1 of a view is negative"),
        (0, INT, SHORT, "2 octets is not made of etypes of 4"),
        (
            0,
            INT,
            derive.indexed([1, 1], [3, 0], INT),
            "must not be negative nor decrease",
        ),
        (
            0,
            INT,
            derive.indexed([1, 1], [-1, 0], INT),
            "must not be negative nor decrease",
        ),
        (0, INT, derive.resized(0, 0, INT), "extent of 0"),
        (0, derive.contiguous(0, INT), INT, "with data"),
        (0, INT, derive.contiguous(0, INT), "with data"),
    ],
)
def test_refused(
    displacement: int, etype: TypeMap, filetype: TypeMap, sentence: str
) -> None:
    with pytest.raises(MPIException, match=sentence):
        View(displacement, etype, filetype)


def test_overlapping_blocks_can_only_be_read() -> None:
    view = View(0, INT, derive.indexed([2, 1], [0, 1], INT))
    assert flat(view.pieces(0, 12)) == [*range(8), *range(4, 8)]
    with pytest.raises(MPIException, match="must not overlap"):
        view.check_writable()
    View(0, INT, derive.vector(2, 1, 2, INT)).check_writable()
