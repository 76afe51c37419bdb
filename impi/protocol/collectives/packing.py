"""Packings: the pieces of several processes joined in one message, and split again.

All three obey one law: the join of two lists is the join of the first followed by the join of the
second. So a process that only forwards pieces appends octets (IMPI 4.12, short form).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from impi.base.errors import PeerError
from impi.base.records import record

Octets: TypeAlias = bytes | bytearray | memoryview
"""The packed data of one process or more; never changed once given."""

# Big-endian like every integer of IMPI (1.2.1), though other implementations never see it.
_LENGTH = struct.Struct(">Q")


class Packing(Protocol):
    """Joins pieces into one message and splits it again."""

    def join(self, pieces: Sequence[Octets], ranks: Sequence[int]) -> Octets:
        """Return a message of the pieces of ``ranks``, in order; a single piece may be returned.

        Raises PeerError if a piece does not have the size that it should have.
        """

    def split(self, octets: Octets, ranks: Sequence[int]) -> list[Octets]:
        """Return the pieces of ``ranks``, in order, uncopied. Raises PeerError for a misfit."""

    def size_of(self, ranks: Sequence[int]) -> int | None:
        """Return the octets of the message of ``ranks``; None if only its sender knows."""


@record
class Fixed:
    """Every process contributes ``size`` octets: the packed phases of IMPI (4.1, 4.12)."""

    size: int

    def join(self, pieces: Sequence[Octets], ranks: Sequence[int]) -> Octets:
        return _join_sized(pieces, [self.size] * len(ranks), ranks)

    def split(self, octets: Octets, ranks: Sequence[int]) -> list[Octets]:
        return _split_sized(octets, [self.size] * len(ranks))

    def size_of(self, ranks: Sequence[int]) -> int:
        return self.size * len(ranks)


@record
class Sized:
    """Process r contributes ``sizes[r]`` octets, known to all: the v-operations."""

    sizes: Sequence[int]

    def join(self, pieces: Sequence[Octets], ranks: Sequence[int]) -> Octets:
        return _join_sized(pieces, [self.sizes[r] for r in ranks], ranks)

    def split(self, octets: Octets, ranks: Sequence[int]) -> list[Octets]:
        return _split_sized(octets, [self.sizes[r] for r in ranks])

    def size_of(self, ranks: Sequence[int]) -> int:
        return sum(self.sizes[r] for r in ranks)


@record
class Prefixed:
    """Sizes of others are unknown, as of pickles: each piece follows an 8-octet big-endian length.

    IMPI has no such data, so both ends are ours.
    """

    def join(self, pieces: Sequence[Octets], ranks: Sequence[int]) -> Octets:
        return b"".join(
            part for piece in pieces for part in (_LENGTH.pack(_nbytes(piece)), piece)
        )

    def split(self, octets: Octets, ranks: Sequence[int]) -> list[Octets]:
        view = _flat(octets)
        pieces: list[Octets] = []

        position = 0
        for _ in ranks:
            start = position + _LENGTH.size

            position = (
                start + _LENGTH.unpack_from(view, position)[0]
                if start <= len(view)
                else len(view) + 1
            )
            # The lengths are another process's. Each is compared with what is
            # there before it is used.
            if position > len(view):
                raise PeerError(
                    f"a collective message of {len(view)} octets ends before its {len(ranks)} pieces do"
                )

            pieces.append(view[start:position])

        if position != len(view):
            raise PeerError(
                f"a collective message has {len(view) - position} octets behind its {len(ranks)} pieces"
            )

        return pieces

    def size_of(self, ranks: Sequence[int]) -> None:
        return


def concatenate(blocks: Sequence[Octets]) -> Octets:
    """Joined blocks as one; a single one is not copied."""
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _join_sized(
    pieces: Sequence[Octets], sizes: Sequence[int], ranks: Sequence[int]
) -> Octets:
    for piece, size, rank in zip(pieces, sizes, ranks, strict=True):
        if _nbytes(piece) != size:
            raise PeerError(
                f"the piece of rank {rank} has {_nbytes(piece)} octets where {size} were announced:"
                " counts and types must agree on all ranks",
                clause="4.1",
            )

    return concatenate(pieces)


def _split_sized(octets: Octets, sizes: Sequence[int]) -> list[Octets]:
    if _nbytes(octets) != sum(sizes):
        raise PeerError(
            f"a collective message has {_nbytes(octets)} octets where its {len(sizes)} pieces need {sum(sizes)}:"
            " counts and types must agree on all ranks",
            clause="4.1",
        )

    view = _flat(octets)
    pieces: list[Octets] = []

    position = 0
    for size in sizes:
        pieces.append(view[position : position + size])
        position += size

    return pieces


def _flat(octets: Octets) -> memoryview:
    view = memoryview(octets)
    # An empty view cannot be cast when a dimension is 0, and need not be.
    return view.cast("B") if view.nbytes else memoryview(b"")


def _nbytes(octets: Octets) -> int:
    return octets.nbytes if isinstance(octets, memoryview) else len(octets)
