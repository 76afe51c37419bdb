"""The datatype of one process's share of a distributed array (MPI 4.1, 5.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.datatype import TypeMap
from impi.protocol.semantics.values.derive import hindexed, resized


class Distribution(Enum):
    """Distributions of one dimension over processes."""

    NONE = "not at all"
    BLOCK = "one block each"
    CYCLIC = "blocks in turn"


def darray(
    size: int,
    rank: int,
    gsizes: Sequence[int],
    distributions: Sequence[Distribution],
    blocks: Sequence[int | None],
    psizes: Sequence[int],
    old: TypeMap,
    *,
    fortran: bool,
) -> TypeMap:
    """Return the elements that process ``rank`` of a grid ``psizes`` has of an array ``gsizes``.

    ``blocks`` are block sizes, None for the default. The extent is the whole array's. The grid is
    in C order.

    Raises:
        MPIException: ``ERR_ARG``, the arguments do not fit together.
    """

    ndims = len(gsizes)
    if not len(distributions) == len(blocks) == len(psizes) == ndims or ndims == 0:
        raise error(
            "ERR_ARG", "a distributed array needs sequences of one length, at least 1"
        )

    total = 1
    for n in psizes:
        total *= n

    if total != size or not 0 <= rank < size:
        raise error(
            "ERR_ARG",
            f"rank {rank} of {size} processes does not fit a grid of {list(psizes)}",
        )

    coordinates = []

    rest = rank
    # MPI 4.1, 5.1.4: the grid is in C order also where the array is in Fortran's.
    for n in reversed(psizes):
        coordinates.append(rest % n)
        rest //= n

    coordinates.reverse()

    # From the dimension that is contiguous in memory outwards, as in a subarray.
    share, stride = old, old.extent
    for d in range(ndims) if fortran else reversed(range(ndims)):
        pieces = _pieces(
            gsizes[d], distributions[d], blocks[d], psizes[d], coordinates[d]
        )
        lengths, starts = (
            [n for _, n in pieces],
            [start * stride for start, _ in pieces],
        )
        # Resized first: the step of a dimension is all of the inner ones, not
        # the share of this process.
        share = hindexed(lengths, starts, resized(0, stride, share))
        stride *= gsizes[d]

    return resized(0, stride, share)


def _pieces(
    gsize: int, how: Distribution, block: int | None, nprocs: int, index: int
) -> list[tuple[int, int]]:
    """Return (start, length) of the pieces of process ``index`` of ``nprocs`` in one dimension."""

    if gsize < 1:
        raise error(
            "ERR_ARG", f"a distributed array cannot have a dimension of {gsize}"
        )

    if how is Distribution.NONE:
        if nprocs != 1:
            raise error(
                "ERR_ARG",
                f"a dimension that is not distributed needs a grid of 1 there, not {nprocs}",
            )

        return [(0, gsize)]

    if block is None:
        # MPI_DISTRIBUTE_DFLT_DARG: blocks that just cover the dimension, or
        # single elements in turn.
        block = -(-gsize // nprocs) if how is Distribution.BLOCK else 1

    if block < 1 or (how is Distribution.BLOCK and block * nprocs < gsize):
        raise error(
            "ERR_ARG",
            f"blocks of {block} on {nprocs} processes do not cover a dimension of {gsize}",
        )

    step = block * nprocs

    return [
        (start, min(block, gsize - start))
        for start in range(index * block, gsize, step)
    ]
