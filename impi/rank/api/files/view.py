"""View: the places of a stream's octets in a file (MPI 4.1, 14.3), without any input or output.

A proc reads and writes a *stream*: the octets of its file type, repeated, holes left out. The
view maps parts of the stream to *pieces* of the file. Its types have the sizes and displacements of
the file, not of memory (:mod:`impi.rank.api.files.datareps`).
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from impi.base.records import record
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values import blocks
from impi.protocol.semantics.values.datatype import TypeMap

Integers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@record
class Pieces:
    """Parts of a file in the order of the stream; neighbours that touch are one."""

    offsets: list[int]
    lengths: list[int]

    @property
    def span(self) -> tuple[int, int]:
        """The first octet of all, and the end; (0, 0) of nothing."""
        if not self.offsets:
            return (0, 0)

        return (min(self.offsets), max(map(int.__add__, self.offsets, self.lengths)))


NOTHING: Final = Pieces([], [])


class View:
    """The part of a file that a proc sees.

    Args:
        displacement: the octet of the file where the first file type begins.
        etype: the unit of all offsets, as it is in the file.
        filetype: made of etypes and holes, as it is in the file; repeated without end.

    Raises:
        MPIException: ``ERR_ARG``: negative displacement; the file type is not made of whole etypes,
            or its displacements are negative or decrease; ``ERR_TYPE``: an etype of no octets.
    """

    __slots__ = (
        "_before", "_lengths", "_overlaps", "_places", "_whole", "average", "displacement", "etype", "filetype",
    )  # fmt: skip

    def __init__(self, displacement: int, etype: TypeMap, filetype: TypeMap) -> None:
        if displacement < 0:
            raise error(
                "ERR_ARG", f"the displacement {displacement} of a view is negative"
            )

        if etype.size <= 0 or filetype.size <= 0:
            raise error("ERR_TYPE", "a view needs an etype and a file type with data")

        if filetype.size % etype.size:
            raise error(
                "ERR_ARG",
                f"a file type of {filetype.size} octets is not made of etypes of {etype.size}",
            )

        self.displacement = displacement
        self.etype = etype
        self.filetype = filetype
        places, lengths = (
            np.asarray(each, np.int64)
            for each in zip(*blocks.in_order(filetype.runs), strict=True)
        )
        self._places: Integers = places
        self._lengths: Integers = lengths
        # Octets of the stream before each block of a file type.
        self._before: Integers = np.concatenate([[0], np.cumsum(lengths)])
        # Whether there are no holes
        self._whole = len(places) == 1 and filetype.size == filetype.extent
        # Octets of a block; 0 without holes
        self.average = 0 if self._whole else filetype.size // len(places)
        self._check_order()

    def _check_order(self) -> None:
        ends = self._places + self._lengths
        if self._places[0] < 0 or (self._places[1:] < self._places[:-1]).any():
            raise error(
                "ERR_ARG",
                "the displacements of a file type must not be negative nor decrease",
            )

        if self.filetype.extent <= 0:
            raise error(
                "ERR_ARG",
                f"a file type with an extent of {self.filetype.extent} cannot be repeated",
            )

        self._overlaps = bool((ends[:-1] > self._places[1:]).any())

    def check_writable(self) -> None:
        """Raise ``ERR_ARG`` if blocks of the file type overlap, which files for writing forbid."""
        if self._overlaps:
            raise error(
                "ERR_ARG",
                "the blocks of a file type must not overlap where the file can be written",
            )

    def pieces(self, begin: int, nbytes: int) -> Pieces:
        """Return the pieces of the file that ``nbytes`` octets of the stream take, from
        ``begin``."""

        if nbytes == 0:
            return NOTHING

        # Without holes, the stream is the file from the displacement on.
        if self._whole:
            return Pieces([self.displacement + int(self._places[0]) + begin], [nbytes])

        (tile, first), (last_tile, last) = (
            self._find(begin),
            self._find(begin + nbytes - 1),
        )
        # First all blocks of all file types that the part touches, then those before and behind it
        # are cut off.
        number = len(self._places)
        tiles = (
            np.arange(tile, last_tile + 1, dtype=np.int64) * self.filetype.extent
            + self.displacement
        )
        chosen = slice(first, (last_tile - tile) * number + last + 1)
        offsets = np.add.outer(tiles, self._places).reshape(-1)[chosen]
        lengths = np.tile(self._lengths, len(tiles))[chosen]
        # The first and the last block may be wanted in part.
        early = begin - tile * self.filetype.size - int(self._before[first])
        offsets[0] += early
        lengths[0] -= early
        lengths[-1] -= int(lengths.sum()) - nbytes
        # Each piece is a system call, so neighbours that touch become one.
        starts = np.concatenate(
            [[0], np.flatnonzero(offsets[1:] != (offsets + lengths)[:-1]) + 1]
        )

        return Pieces(
            offsets[starts].tolist(), np.add.reduceat(lengths, starts).tolist()
        )

    def _find(self, octet: int) -> tuple[int, int]:
        # "right": the octet at which a block begins is that block's.
        tile, rest = divmod(octet, self.filetype.size)
        return tile, int(np.searchsorted(self._before, rest, side="right")) - 1

    def place(self, octet: int) -> int:
        """Return the octet of the file that is an octet of the stream."""
        tile, block = self._find(octet)
        inside = octet - tile * self.filetype.size - int(self._before[block])

        return (
            self.displacement
            + tile * self.filetype.extent
            + int(self._places[block])
            + inside
        )

    def octets_below(self, end: int) -> int:
        """Return the number of octets of the stream that lie before octet ``end`` of the file."""

        # Tiles that end before it count whole; only those that it may cut are looked at.
        end -= self.displacement
        extent, size = self.filetype.extent, self.filetype.size
        # Data of a file type ends at its last octet (true_ub), which need not be its extent.
        whole = max(0, (end - self.filetype.true_ub) // extent + 1)
        tiles = (
            np.arange(
                whole,
                max(whole, (end - self.filetype.true_lb) // extent + 1),
                dtype=np.int64,
            )
            * extent
        )
        inside = np.clip(end - np.add.outer(tiles, self._places), 0, self._lengths)

        return whole * size + int(inside.sum())
