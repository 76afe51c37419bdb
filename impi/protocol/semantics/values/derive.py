"""Constructors of derived datatypes (MPI 4.1, 5.1.2 to 5.1.4 and 5.1.7).

Each makes a new type map from type maps. A negative count raises :class:`MPIException` of class
``ERR_COUNT``; other negative values and sequences of different lengths raise ``ERR_ARG``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from impi.base.records import record
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.basic import NATIVE
from impi.protocol.semantics.values.datatype import Forms, Run, TypeMap

_NOTHING: Final[Forms] = (0, 0, 0)


def duplicate(old: TypeMap) -> TypeMap:
    """Return a copy of the type map, which is no longer predefined."""
    return TypeMap(old.runs, lb=old.lb, ub=old.ub, sizes=old.sizes, marked=old.marked)


def contiguous(count: int, old: TypeMap) -> TypeMap:
    """``count`` elements one after the other."""
    return hvector(count, 1, old.extent, old)


def vector(count: int, blocklength: int, stride: int, old: TypeMap) -> TypeMap:
    """``count`` blocks, ``stride`` elements apart."""
    return hvector(count, blocklength, stride * old.extent, old)


def hvector(count: int, blocklength: int, stride: int, old: TypeMap) -> TypeMap:
    """``count`` blocks, ``stride`` octets apart."""

    _not_negative("count", (count,))

    _not_negative("blocklength", (blocklength,))
    if count * blocklength == 0:
        return _empty()

    block = _replicate(old.runs, old.sizes, blocklength, old.extent)
    block_sizes = _scaled(old.sizes, blocklength)
    runs = _replicate(block, block_sizes, count, stride)
    # Strides and extents may be negative: so the bounds are found among all four corners.
    corners = [
        i * stride + j * old.extent
        for i in (0, count - 1)
        for j in (0, blocklength - 1)
    ]
    lb, ub = min(corners) + old.lb, max(corners) + old.ub

    return TypeMap(
        runs, lb=lb, ub=ub, sizes=_scaled(block_sizes, count), marked=old.marked
    )


def indexed(
    blocklengths: Sequence[int], displacements: Sequence[int], old: TypeMap
) -> TypeMap:
    """Blocks of ``old`` at displacements counted in its extent."""
    return hindexed(blocklengths, [d * old.extent for d in displacements], old)


def hindexed(
    blocklengths: Sequence[int], displacements: Sequence[int], old: TypeMap
) -> TypeMap:
    """Blocks of ``old`` at displacements in octets."""
    return _join(blocklengths, displacements, [old] * len(blocklengths), padded=False)


def indexed_block(
    blocklength: int, displacements: Sequence[int], old: TypeMap
) -> TypeMap:
    """Blocks of one length at displacements counted in the extent of ``old``."""
    return indexed([blocklength] * len(displacements), displacements, old)


def hindexed_block(
    blocklength: int, displacements: Sequence[int], old: TypeMap
) -> TypeMap:
    """Blocks of one length at displacements in octets."""
    return hindexed([blocklength] * len(displacements), displacements, old)


def struct(
    blocklengths: Sequence[int], displacements: Sequence[int], olds: Sequence[TypeMap]
) -> TypeMap:
    """Return blocks of several types; the extent is padded to the strictest alignment, as in C."""
    return _join(blocklengths, displacements, olds, padded=True)


def resized(lb: int, extent: int, old: TypeMap) -> TypeMap:
    """Return the type with other bounds, which later constructors keep."""
    return TypeMap(old.runs, lb=lb, ub=lb + extent, sizes=old.sizes, marked=True)


def subarray(
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    old: TypeMap,
    *,
    fortran: bool,
) -> TypeMap:
    """A block of an n-dimensional array; the extent is that of the whole array."""

    if not len(sizes) == len(subsizes) == len(starts) or not sizes:
        raise error(
            "ERR_ARG",
            f"a subarray needs as many sizes ({len(sizes)}) as subsizes and starts, at least 1",
        )

    for size, subsize, start in zip(sizes, subsizes, starts, strict=True):
        if not (1 <= subsize <= size and 0 <= start <= size - subsize):
            raise error(
                "ERR_ARG",
                f"a subarray of {subsize} from {start} on does not lie in a dimension of {size}",
            )

    dimensions = list(zip(sizes, subsizes, starts, strict=True))

    runs, packed, stride, displacement = old.runs, old.sizes, old.extent, 0
    # From the dimension that is contiguous in memory outwards.
    for size, subsize, start in dimensions if fortran else reversed(dimensions):
        runs = _replicate(runs, packed, subsize, stride)
        packed = _scaled(packed, subsize)
        # The stride of a dimension is the extent of all that lies inside it.
        displacement += start * stride
        stride *= size

    return TypeMap(
        _moved(runs, displacement, _NOTHING), lb=0, ub=stride, sizes=packed, marked=True
    )


def _join(
    blocklengths: Sequence[int],
    displacements: Sequence[int],
    olds: Sequence[TypeMap],
    *,
    padded: bool,
) -> TypeMap:
    if not len(blocklengths) == len(displacements) == len(olds):
        lengths = f"{len(blocklengths)} block lengths, {len(displacements)} displacements, {len(olds)} datatypes"
        raise error("ERR_ARG", f"the sequences must have one length, not {lengths}")

    _not_negative("blocklength", blocklengths)
    runs: list[Run] = []
    sizes = _NOTHING
    bounds: list[tuple[int, int, bool]] = []

    made: dict[tuple[int, int], _Block] = {}  # thousands of blocks have few lengths
    for blocklength, displacement, old in zip(
        blocklengths, displacements, olds, strict=True
    ):
        if blocklength == 0:
            continue

        block = made.get((id(old), blocklength))
        if block is None:
            block = made[id(old), blocklength] = _block(old, blocklength)

        # In memory at the displacement, in the message behind what came before.
        runs.extend(_moved(block.runs, displacement, sizes))
        sizes = _sum(sizes, block.sizes)
        bounds.append((displacement + block.low, displacement + block.high, old.marked))

    if not bounds:
        return _empty()

    # Bounds that were set win over those that were found (MPI 4.1, 5.1.7).
    marked = any(mark for _, _, mark in bounds)
    chosen = [(low, high) for low, high, mark in bounds if mark or not marked]
    lb, ub = min(low for low, _ in chosen), max(high for _, high in chosen)

    new = TypeMap(tuple(_merged(runs)), lb=lb, ub=ub, sizes=sizes, marked=marked)
    if padded and not marked:
        align = max((run.basic.align for run in runs), default=1)
        # MPI 4.1, 5.1.7: an array of the struct is aligned like the struct.
        # Bounds that were set stay.
        new.extent += -new.extent % align

    return new


@record
class _Block:
    """Elements in a row, with the bounds of all."""

    runs: tuple[Run, ...]
    sizes: Forms
    low: int
    high: int


def _block(old: TypeMap, length: int) -> _Block:
    runs = _replicate(old.runs, old.sizes, length, old.extent)
    shift = (length - 1) * old.extent
    return _Block(
        runs, _scaled(old.sizes, length), min(0, shift) + old.lb, max(0, shift) + old.ub
    )


def _empty() -> TypeMap:
    return TypeMap((), lb=0, ub=0, sizes=_NOTHING)


def _not_negative(what: str, values: Iterable[int]) -> None:
    for value in values:
        if value < 0:
            # MPICH and Open MPI use the same classes.
            raise error(
                "ERR_COUNT" if what == "count" else "ERR_ARG",
                f"negative {what} {value} in a datatype constructor",
            )


def _scaled(sizes: Forms, count: int) -> Forms:
    return (sizes[0] * count, sizes[1] * count, sizes[2] * count)


def _sum(a: Forms, b: Forms) -> Forms:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _moved(runs: Iterable[Run], displacement: int, packed: Forms) -> tuple[Run, ...]:
    return tuple(
        [
            Run(
                r.basic,
                r.displacement + displacement,
                r.shape,
                r.strides,
                _sum(r.packed, packed),
                r.packed_strides,
            )
            for r in runs
        ]
    )


def _replicate(
    runs: tuple[Run, ...], sizes: Forms, count: int, stride: int
) -> tuple[Run, ...]:
    """Return each run with one more, outer, dimension."""

    if count == 1:
        return runs

    # A new dimension that continues the outermost one, in memory and in the message, makes that one
    # longer. So nested contiguous types stay one run, which is one copy.
    grown = []
    for run in runs:
        if (
            run.shape
            and stride == run.shape[0] * run.strides[0]
            and sizes == _scaled(run.packed_strides[0], run.shape[0])
        ):
            shape: tuple[int, ...] = (count * run.shape[0], *run.shape[1:])
            grown.append(
                Run(
                    run.basic,
                    run.displacement,
                    shape,
                    run.strides,
                    run.packed,
                    run.packed_strides,
                )
            )
        else:
            shape, strides = (count, *run.shape), (stride, *run.strides)
            grown.append(
                Run(
                    run.basic,
                    run.displacement,
                    shape,
                    strides,
                    run.packed,
                    (sizes, *run.packed_strides),
                )
            )

    return tuple(grown)


def _merged(runs: list[Run]) -> list[Run]:
    """Neighbours that continue each other, in memory and packed, made one."""

    out: list[Run] = []

    # Runs are in the order of the message, without gaps there: only their places in
    # memory need to be compared.
    end: int | None = None  # of the last one in memory, if it is a line
    for run in runs:
        if not _is_line(run):
            out.append(run)
            end = None
            continue

        # Lines only: what has gaps of its own has no end to go on from.
        size, length = run.basic.sizes[NATIVE], _line_length(run)
        if run.displacement == end and run.basic is out[-1].basic:
            last = out.pop()
            length += _line_length(last)
            out.append(
                Run(
                    run.basic,
                    last.displacement,
                    (length,),
                    (size,),
                    last.packed,
                    (run.basic.sizes,),
                )
            )
        else:
            out.append(run)

        end = out[-1].displacement + length * size

    return out


def _is_line(run: Run) -> bool:
    if not run.shape:
        return True

    return (
        len(run.shape) == 1
        and run.strides[0] == run.basic.sizes[NATIVE]
        and run.packed_strides[0] == run.basic.sizes
    )


def _line_length(run: Run) -> int:
    return run.shape[0] if run.shape else 1
