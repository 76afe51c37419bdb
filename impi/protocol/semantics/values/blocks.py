"""The contiguous blocks of a datatype's element in memory, as few as possible, in message order.

Where nothing is converted, a message can be written from these blocks and read into them. Only long
blocks pay: each costs an entry of a system call's vector, whereas packing costs a copy of its
octets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from impi.base.records import record, replaced
from impi.protocol.settings import ZERO_COPY

if TYPE_CHECKING:
    from impi.protocol.semantics.values.datatype import Run


SHORTEST: Final = ZERO_COPY.default
"""Average octets of a block from which nothing is packed; measured by ``impi bench derived``."""

Blocks: TypeAlias = tuple[slice, ...]
"""Blocks of one element, in octets from its first one in memory (MPI_Type_get_true_extent)."""


@record
class _Part:
    """Equal blocks in a grid: like a run, but of octets."""

    place: int
    packed: int
    length: int
    dimensions: tuple[tuple[int, int, int], ...]
    """Count, stride in memory and stride in the message of each dimension; strides in octets."""

    @property
    def number(self) -> int:
        return prod(n for n, _, _ in self.dimensions)


def blocks_of(runs: Sequence[Run], shortest: int) -> Blocks | None:
    """Return the native blocks of an element of these runs; None if under ``shortest`` octets.

    ``shortest`` bounds the average length, as far as it is known without a look at each block.
    """

    # Parts before blocks: their number and sizes decide already, and a type with millions of short
    # blocks is not written out for nothing.
    parts = _joined([_part(run) for run in runs])
    number = sum(part.number for part in parts)

    size = sum(part.number * part.length for part in parts)
    if size < number * shortest or number == 0:
        return None

    blocks = _in_order(parts)
    # From the first octet in memory, as TypeMap.pieces slices from there.
    first = min(place for place, _ in blocks)

    return tuple(
        slice(place - first, place - first + length) for place, length in blocks
    )


def in_order(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return all native blocks of an element: displacement and octets, in message order."""
    return _in_order(_joined([_part(run) for run in runs]))


def _in_order(parts: Sequence[_Part]) -> list[tuple[int, int]]:
    blocks: list[tuple[int, int]] = []
    # In the order of the message. Two blocks that are neighbours there and in memory are one entry
    # of the system call's vector.
    for _, place, length in sorted(place for part in parts for place in _places(part)):
        if blocks and blocks[-1][0] + blocks[-1][1] == place:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + length)
        else:
            blocks.append((place, length))

    return blocks


def _places(part: _Part) -> Iterator[tuple[int, int, int]]:
    """Yield place in the message, place in memory and octets of each block of a part."""
    for index in product(*(range(n) for n, _, _ in part.dimensions)):
        packed = part.packed + sum(
            i * step for i, (_, _, step) in zip(index, part.dimensions, strict=True)
        )
        place = part.place + sum(
            i * step for i, (_, step, _) in zip(index, part.dimensions, strict=True)
        )
        yield packed, place, part.length


def _part(run: Run) -> _Part:
    dimensions = zip(
        run.shape,
        run.strides,
        (packed[0] for packed in run.packed_strides),
        strict=True,
    )
    return _Part(
        run.displacement,
        run.packed[0],
        run.basic.sizes[0],
        # A dimension of one is not a repetition, and would only hide that two parts are alike.
        tuple(d for d in dimensions if d[0] != 1),
    )


def _joined(parts: list[_Part]) -> list[_Part]:
    """Join parts adjacent in memory and in the message, and likewise neighbours inside a part."""
    parts = [part for part in parts if part.number and part.length]
    while True:
        found: list[_Part] = []
        for part in sorted(map(_flattened, parts), key=lambda part: part.packed):
            last = found[-1] if found else None
            # Alike in all but the first place, and the second begins where the first ends, both in
            # memory and in the message: then each pair of their blocks is one longer block.
            if (
                last is not None
                and last.dimensions == part.dimensions
                and last.place + last.length == part.place
                and last.packed + last.length == part.packed
            ):
                found[-1] = replaced(last, length=last.length + part.length)
            else:
                found.append(part)

        # Joining can make dimensions flat, and flat ones can be joined:
        # again, until nothing changes.
        if found == parts:
            return found

        parts = found


def _flattened(part: _Part) -> _Part:
    for i, (n, step, packed) in enumerate(part.dimensions):
        # Each block begins where the one before ends, here and in the
        # message: the row is one block.
        if step == packed == part.length:
            rest = part.dimensions[:i] + part.dimensions[i + 1 :]
            return _flattened(_Part(part.place, part.packed, n * part.length, rest))

    return part
