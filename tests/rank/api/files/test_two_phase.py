"""Two phases: who owns what, and the octets that meet there, against a model."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from impi.rank.api.files.two_phase import cut, picked, put, united
from impi.rank.api.files.view import Pieces


@st.composite
def pieces_of(draw: st.DrawFn) -> Pieces:
    gaps = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 15)), max_size=8))
    offsets, lengths, end = [], [], draw(st.integers(0, 10))
    for gap, length in gaps:
        offsets.append(end + gap)
        lengths.append(length)
        end += gap + length
    order = draw(st.permutations(range(len(offsets))))
    return Pieces([offsets[i] for i in order], [lengths[i] for i in order])


@given(pieces_of(), st.integers(1, 30), st.integers(1, 4))
def test_cut(pieces: Pieces, step: int, number: int) -> None:
    low, high = pieces.span
    step = max(step, -(-(high - low) // number), 1)
    shares = cut(pieces, low, step, number)
    assert len(shares) == number
    octets = [
        o + i
        for o, n in zip(pieces.offsets, pieces.lengths, strict=True)
        for i in range(n)
    ]
    found: dict[int, int] = {}
    for domain, part in enumerate(shares):
        for offset, length, place in zip(
            part.offsets, part.lengths, part.places, strict=True
        ):
            assert length > 0
            for i in range(length):
                assert low + domain * step <= offset + i < low + (domain + 1) * step
                assert place + i not in found
                found[int(place) + i] = int(offset) + i
    assert [found[i] for i in range(len(octets))] == octets


@given(
    st.lists(
        pieces_of().filter(lambda pieces: bool(pieces.offsets)), min_size=1, max_size=4
    )
)
def test_united(rows: list[Pieces]) -> None:
    union = united(
        [
            (np.array(row.offsets, np.int64), np.array(row.lengths, np.int64))
            for row in rows
        ]
    )
    memory = [
        o + i
        for o, n in zip(union.runs.offsets, union.runs.lengths, strict=True)
        for i in range(n)
    ]
    assert union.nbytes == len(memory)
    octets = {
        o + i
        for row in rows
        for o, n in zip(row.offsets, row.lengths, strict=True)
        for i in range(n)
    }
    assert memory == sorted(octets)
    ends = [o + n for o, n in zip(union.runs.offsets, union.runs.lengths, strict=True)]
    assert all(
        end < after for end, after in zip(ends, union.runs.offsets[1:], strict=False)
    )
    for row, places in zip(rows, union.places, strict=True):
        assert [memory[place] for place in places] == row.offsets


@given(st.data(), st.booleans())
def test_moves(data: st.DataObject, alike: bool) -> None:
    """Places of one length go another way than others."""
    count = data.draw(st.integers(1, 20))
    lengths = np.full(count, data.draw(st.sampled_from([1, 3, 8, 300])), np.int64)
    if not alike:
        lengths = np.array(
            data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
            np.int64,
        )
    slots = data.draw(st.permutations(range(count)))
    places = np.array([slot * 400 for slot in slots], np.int64)
    octets = np.frombuffer(
        np.random.default_rng(count).bytes(int(lengths.sum())), np.uint8
    )
    memory = np.zeros(400 * count, np.uint8)
    put(memory, places, lengths, octets)
    model = np.zeros(400 * count, np.uint8)
    begin = 0
    for place, length in zip(places.tolist(), lengths.tolist(), strict=True):
        model[place : place + length] = octets[begin : begin + length]
        begin += length
    assert (memory == model).all()
    assert (picked(memory, places, lengths) == octets).all()


def test_many_short_ones_go_in_several_turns() -> None:
    count = 300_000
    places = np.arange(count, dtype=np.int64) * 16
    lengths = np.full(count, 8, np.int64)
    octets = np.arange(count, dtype=np.int64).view(np.uint8)
    memory = np.zeros(16 * count, np.uint8)
    put(memory, places, lengths, octets)
    assert (memory.view(np.int64)[::2] == np.arange(count)).all()
    assert (picked(memory, places, lengths) == octets).all()
