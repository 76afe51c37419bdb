from __future__ import annotations

import random
import struct as bits
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values import derive
from impi.protocol.semantics.values.datatype import NAMED, TypeMap

INT, DOUBLE, SHORT, BYTE = (NAMED[n] for n in ("INT", "DOUBLE", "SHORT", "BYTE"))


@dataclass
class Naive:
    """A type map as the standard defines it: a list of (basic type, displacement), and bounds."""

    entries: list[tuple[TypeMap, int]]
    lb: int
    ub: int

    @property
    def extent(self) -> int:
        return self.ub - self.lb

    def at(self, displacement: int) -> Naive:
        moved = [(basic, place + displacement) for basic, place in self.entries]
        return Naive(moved, self.lb + displacement, self.ub + displacement)

    @classmethod
    def join(cls, parts: list[Naive]) -> Naive:
        entries = [entry for part in parts for entry in part.entries]
        return cls(
            entries,
            min((p.lb for p in parts), default=0),
            max((p.ub for p in parts), default=0),
        )

    def pack(self, memory: bytes, origin: int, count: int) -> bytes:
        out = bytearray()
        for i in range(count):
            for basic, place in self.entries:
                begin = origin + i * self.extent + place
                out += bytes(
                    basic.pack(
                        memoryview(memory[begin : begin + basic.size]),
                        0,
                        1,
                        external=True,
                    )
                )
        return bytes(out)


def basic(typemap: TypeMap) -> Naive:
    return Naive([(typemap, 0)], 0, typemap.extent)


def blocks(lengths: list[int], places: list[int], olds: list[Naive]) -> Naive:
    parts = [
        old.at(place + j * old.extent)
        for length, place, old in zip(lengths, places, olds, strict=True)
        for j in range(length)
    ]
    return Naive.join(parts)


def grow(random: random.Random, depth: int) -> tuple[TypeMap, Naive]:
    """A datatype made by random constructors, by ours and by the definition."""
    if depth == 0:
        chosen = random.choice([INT, DOUBLE, SHORT, BYTE])
        return chosen, basic(chosen)
    old, naive = grow(random, depth - 1)
    how = random.choice(
        [
            "contiguous",
            "vector",
            "hvector",
            "indexed",
            "hindexed",
            "block",
            "struct",
            "resized",
            "sub",
        ]
    )
    n, length, step = random.randint(1, 3), random.randint(1, 3), random.randint(-4, 4)
    places = [random.randint(-4, 4) for _ in range(n)]
    lengths = [random.randint(0, 2) for _ in range(n)]
    ext = naive.extent
    if how == "contiguous":
        return derive.contiguous(n, old), blocks([n], [0], [naive])
    if how == "vector":
        rows = [i * step * ext for i in range(n)]
        return derive.vector(n, length, step, old), blocks(
            [length] * n, rows, [naive] * n
        )
    if how == "hvector":
        rows = [i * step for i in range(n)]
        return derive.hvector(n, length, step, old), blocks(
            [length] * n, rows, [naive] * n
        )
    if how == "indexed":
        return derive.indexed(lengths, places, old), blocks(
            lengths, [p * ext for p in places], [naive] * n
        )
    if how == "hindexed":
        return derive.hindexed(lengths, places, old), blocks(
            lengths, places, [naive] * n
        )
    if how == "block":
        rows = [p * ext for p in places]
        return derive.indexed_block(length, places, old), blocks(
            [length] * n, rows, [naive] * n
        )
    if how == "resized":
        lb, extent = random.randint(-4, 4), random.randint(1, 40)
        return derive.resized(lb, extent, old), Naive(naive.entries, lb, lb + extent)
    if how == "sub":
        fortran = random.random() < 0.5
        dims = list(zip((3, 2, 2), (2, 1, 2), (1, 1, 0), strict=True))
        sizes, subsizes, starts = (list(column) for column in zip(*dims, strict=True))
        made = derive.subarray(sizes, subsizes, starts, old, fortran=fortran)
        whole = naive
        stride = ext
        for size, sub, start in dims if fortran else reversed(dims):
            whole = Naive.join([whole.at((start + i) * stride) for i in range(sub)])
            stride *= size
        return made, Naive(whole.entries, 0, stride)
    others = [grow(random, depth - 1) for _ in range(n)]
    made = derive.struct(lengths, places, [o for o, _ in others])
    joined = blocks(lengths, places, [m for _, m in others])
    # Padding and sticky bounds have tests of their own; here they are taken over.
    return made, Naive(joined.entries, made.lb, made.ub)


@pytest.mark.parametrize("seed", range(150))
def test_any_nesting_agrees_with_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    typemap, naive = grow(chance, 1 + seed % 4)
    assert typemap.size == sum(b.size for b, _ in naive.entries)
    assert typemap.basics == len(naive.entries)
    if naive.entries:
        assert typemap.true_lb == min(place for _, place in naive.entries)
        assert typemap.true_ub == max(place + b.size for b, place in naive.entries)
    assert (typemap.lb, typemap.ub) == (naive.lb, naive.ub)
    count = chance.randint(0, 3)
    first, last = typemap.span(0, count)
    memory = chance.randbytes(last - first)
    wire = typemap.pack(memoryview(memory), -first, count, external=True)
    assert bytes(wire) == naive.pack(memory, -first, count)
    if not _overlapping(naive, count):
        copy = bytearray(len(memory))
        assert typemap.unpack(wire, memoryview(copy), -first, count, external=True) == (
            count if typemap.size else 0
        )
        assert bytes(
            typemap.pack(memoryview(copy), -first, count, external=True)
        ) == bytes(wire)
        native = typemap.pack(memoryview(memory), -first, count, external=False)
        other = bytearray(len(memory))
        typemap.unpack(native, memoryview(other), -first, count, external=False)
        assert other == copy


def _overlapping(naive: Naive, count: int) -> bool:
    used: set[int] = set()
    total = 0
    for i in range(count):
        for b, place in naive.entries:
            begin = i * naive.extent + place
            used.update(range(begin, begin + b.size))
            total += b.size
    return len(used) != total


def test_a_structure_is_padded_as_a_compiler_would() -> None:
    assert derive.struct([1, 1], [0, 8], [DOUBLE, BYTE]).extent == 16
    assert derive.struct([1, 1], [0, 4], [INT, BYTE]).extent == 8
    assert derive.hindexed([1, 1], [0, 9], BYTE).extent == 10


def test_bounds_that_were_set_win() -> None:
    marked = derive.resized(-2, 20, INT)
    made = derive.struct([1, 1], [0, 64], [marked, DOUBLE])
    assert (made.lb, made.ub) == (-2, 18)
    assert made.true_ub == 72
    assert derive.contiguous(2, marked).ub == 38


def test_nothing_in_it() -> None:
    for made in (
        derive.contiguous(0, INT),
        derive.vector(3, 0, 1, INT),
        derive.hindexed([], [], INT),
        derive.struct([0], [5], [INT]),
    ):
        assert (made.size, made.extent, made.basics) == (0, 0, 0)


def test_a_big_regular_type_stays_small() -> None:
    made = derive.contiguous(5, derive.vector(1000, 2, 3, derive.contiguous(4, DOUBLE)))
    assert len(made.runs) == 1
    assert made.basics == 40000


def test_neighbours_are_merged() -> None:
    assert len(derive.indexed([2, 1, 3], [0, 2, 3], INT).runs) == 1
    assert len(derive.indexed([2, 1], [0, 3], INT).runs) == 2


def test_contiguous_data_of_many_pieces_needs_no_copy() -> None:
    made = derive.struct([2, 2], [0, 8], [INT, INT])
    memory = bytearray(16)
    assert made.landing(memoryview(memory), 0, 1, external=True) is not None
    packed = made.pack(memoryview(memory), 0, 1, external=False)
    memory[0] = 9
    assert packed[0] == 9


def test_subarray_of_a_matrix() -> None:
    matrix = np.arange(20, dtype="i4").reshape(4, 5)
    block = derive.subarray([4, 5], [2, 3], [1, 2], INT, fortran=False)
    wire = block.pack(matrix.view(np.uint8).reshape(-1).data, 0, 1, external=True)
    assert bytes(wire) == bits.pack(">6i", *matrix[1:3, 2:5].ravel())
    assert block.extent == 80


@pytest.mark.parametrize(
    "call",
    [
        lambda: derive.vector(1, -1, 1, INT),
        lambda: derive.hindexed([1], [0, 1], INT),
        lambda: derive.hindexed([-1], [0], INT),
        lambda: derive.struct([1], [0], [INT, INT]),
        lambda: derive.subarray([2], [3], [0], INT, fortran=False),
        lambda: derive.subarray([2], [1], [2], INT, fortran=False),
        lambda: derive.subarray([], [], [], INT, fortran=False),
    ],
)
def test_bad_arguments(call: object) -> None:
    with pytest.raises(MPIException) as caught:
        call()  # type: ignore[operator]
    assert caught.value == ERROR_CLASSES["ERR_ARG"][0]


@pytest.mark.parametrize(
    "call", [lambda: derive.contiguous(-1, INT), lambda: derive.vector(-1, 1, 1, INT)]
)
def test_a_negative_count(call: object) -> None:
    with pytest.raises(MPIException, match="negative count -1") as caught:
        call()  # type: ignore[operator]
    assert caught.value == ERROR_CLASSES["ERR_COUNT"][0]


def test_blocks_of_one_length_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    block = derive._block

    def counting(old: TypeMap, length: int) -> Any:
        made.append(length)
        return block(old, length)

    monkeypatch.setattr(derive, "_block", counting)
    lengths = [i % 3 + 1 for i in range(1000)]
    typemap = derive.indexed(lengths, range(0, 4000, 4), NAMED["INT"])
    assert sorted(made) == [1, 2, 3]
    assert (typemap.size, len(typemap.runs)) == (4 * sum(lengths), 1000)
