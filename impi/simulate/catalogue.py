"""The collectives that can be simulated: for each, the generator that every process runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from impi import collectives
from impi.collectives import Algorithm, Layout, Reduction, is_short
from impi.errors import UsageError
from impi.simulate.drive import Driver, Outcome
from impi.simulate.shape import Limits, Shape
from impi.simulate.values import Blank, Extent, Same, nbytes

__all__ = ["MOST_MESSAGES", "OPERATIONS", "Case", "check_size", "simulate"]

MOST_MESSAGES: Final = 4_000_000
"""Messages of one collective that are simulated; some minutes."""
_MOST_SHARES: Final = 400_000_000


@dataclass(frozen=True)
class Case:
    """One operation on one job.

    ``size`` is what the benchmarks of MPI call the size of a message: octets of the buffer of bcast, reduce, allreduce
    and scan; of each process's piece for gather, scatter, allgather and alltoall; of each process's part for
    reduce_scatter.
    """

    operation: str
    size: int
    root: int = 0
    native: bool = True
    """Whether the clients' libraries have collectives; else local phases are messages of our own trees."""


class _Setting:
    """What the generators of all processes share."""

    def __init__(self, shape: Shape, limits: Limits, case: Case, driver: Driver) -> None:
        self.layout: Layout = shape.layout()
        self.limits = limits
        self.case = case
        self._driver = driver

    @property
    def n(self) -> int:
        return self.layout.size

    @property
    def size(self) -> int:
        return self.case.size

    @property
    def like(self) -> int | None:
        return self.size if self.case.native else None

    @property
    def short(self) -> bool:
        return is_short(self.size, self.limits.xsize)

    @cached_property
    def packing(self) -> Blank:
        return Blank(self.size)

    @cached_property
    def reduction(self) -> Reduction[Any]:
        library = ("SUM", "f8") if self.case.native else None
        return Reduction(self._combine, library=library)

    @cached_property
    def in_order(self) -> Reduction[Any]:
        return Reduction(self._combine, commutative=False)

    def _combine(self, one: Any, other: Any) -> Any:
        assert nbytes(one) == nbytes(other)
        self._driver.charge(nbytes(one))
        return other

    def parts(self, whole: Any) -> Same:
        assert nbytes(whole) == self.size * self.n
        return Same(Extent(self.size), self.n)


_Make = Callable[[_Setting, int], Algorithm[Any]]


def _barrier(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.barrier(s.layout, rank, maxlinear=s.limits.maxlinear, native=s.case.native)


def _bcast(s: _Setting, rank: int) -> Algorithm[Any]:
    value = Extent(s.size) if rank == s.case.root else None
    return collectives.bcast(s.layout, rank, s.case.root, value, maxlinear=s.limits.maxlinear, like=s.like)


def _reduce(s: _Setting, rank: int) -> Algorithm[Any]:
    value, root = Extent(s.size), s.case.root
    return collectives.reduce(
        s.layout, rank, root, value, s.reduction, maxlinear=s.limits.maxlinear, native=s.case.native
    )


def _reduce_ordered(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.reduce(
        s.layout, rank, s.case.root, Extent(s.size), s.in_order, maxlinear=s.limits.maxlinear, native=s.case.native
    )


def _allreduce(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.allreduce(
        s.layout, rank, Extent(s.size), s.reduction, maxlinear=s.limits.maxlinear, native=s.case.native
    )


def _reduce_scatter(s: _Setting, rank: int) -> Algorithm[Any]:
    whole = Extent(s.size * s.n)
    return collectives.reduce_scatter(
        s.layout, rank, whole, s.reduction, s.parts, maxlinear=s.limits.maxlinear, native=s.case.native
    )


def _scan(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.scan(s.layout, rank, Extent(s.size), s.reduction)


def _exscan(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.exscan(s.layout, rank, Extent(s.size), s.reduction)


def _gather(s: _Setting, rank: int) -> Algorithm[Any]:
    piece, packing = s.packing.join([None], [rank]), s.packing
    return collectives.gather(
        s.layout,
        rank,
        s.case.root,
        piece,
        packing,
        maxlinear=s.limits.maxlinear,
        short=s.short,
        native=s.case.native,
    )


def _gatherv(s: _Setting, rank: int) -> Algorithm[Any]:
    piece: Any = Extent(s.size)
    return collectives.gatherv(s.layout, rank, s.case.root, piece)


def _scatter(s: _Setting, rank: int) -> Algorithm[Any]:
    pieces = Same(Extent(s.size), s.n) if rank == s.case.root else None
    return collectives.scatter(s.layout, rank, s.case.root, pieces, like=s.like)


def _allgather(s: _Setting, rank: int) -> Algorithm[Any]:
    piece, packing = s.packing.join([None], [rank]), s.packing
    return collectives.allgather(
        s.layout, rank, piece, packing, maxlinear=s.limits.maxlinear, short=s.short, native=s.case.native
    )


def _alltoall(s: _Setting, rank: int) -> Algorithm[Any]:
    return collectives.alltoall(s.layout, rank, Same(Extent(s.size), s.n), alike=s.case.native)


OPERATIONS: Final[dict[str, _Make]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "gather": _gather,
    "gatherv": _gatherv,
    "scatter": _scatter,
    "allgather": _allgather,
    "alltoall": _alltoall,
    "reduce": _reduce,
    "reduce-ordered": _reduce_ordered,
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "scan": _scan,
    "exscan": _exscan,
}
"""By name; ``reduce-ordered`` is a reduce whose operation is not commutative."""


def check_size(shape: Shape, limits: Limits, case: Case) -> None:
    """Raise UsageError where a case is none, or too large to be simulated message by message."""
    n = shape.size
    if case.operation not in OPERATIONS:
        raise UsageError(f"there is no collective {case.operation!r}; there are {', '.join(OPERATIONS)}")
    if not 0 <= case.root < n:
        raise UsageError(f"root {case.root} is not in 0..{n - 1}")
    if case.operation == "alltoall" and n * (n - 1) > MOST_MESSAGES:
        raise UsageError(
            f"alltoall among {n} processes is {n * (n - 1)} messages, and {MOST_MESSAGES} can be simulated; "
            f"give fewer --procs, at most {int(MOST_MESSAGES**0.5)}"
        )
    # Every process lists those of its client there (see impi.collectives.gather).
    packed = case.operation in ("gather", "allgather") and is_short(case.size, limits.xsize)
    if packed and not case.native and sum(len(ranks) ** 2 for ranks in shape.ranks) > _MOST_SHARES:
        raise UsageError(
            f"{case.operation} of short pieces by messages is too much for clients of {len(shape.ranks[0])} processes; "
            "give --local library, more clients or fewer --procs"
        )


def simulate(shape: Shape, limits: Limits, case: Case, driver: Driver) -> Outcome:
    """Run ``case`` by ``driver``, which was made for the same shape and limits.

    Raises:
        UsageError: see :func:`check_size`.
        Deadlock: it does not end.
    """
    check_size(shape, limits, case)
    setting = _Setting(shape, limits, case, driver)
    make = OPERATIONS[case.operation]
    return driver.run(lambda rank: make(setting, rank), (case.root,))
