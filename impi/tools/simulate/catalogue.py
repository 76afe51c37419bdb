"""The collectives that can be simulated: for each, the generator that every process runs.

As in a real job, :class:`impi.rank.api.collective.algorithms.Within` chooses the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from impi.base.errors import UsageError
from impi.protocol.collectives import Algorithm, Elements, Reduction, is_short
from impi.protocol.job import LONG8_VERSION, REPRODUCIBLE, Job
from impi.rank.api.collective.algorithms import Within
from impi.tools.simulate.agreed_algorithms import SPECIFIED, Choices
from impi.tools.simulate.drive import Driver, Outcome
from impi.tools.simulate.model.shape import Limits, Shape
from impi.tools.simulate.model.values import Blank, Extent, Same, Zeros, nbytes

MOST_MESSAGES: Final = 4_000_000
"""Most packets of a simulated collective: they take some minutes."""
_MOST_SHARES: Final = 400_000_000
_MOST_OCTETS: Final = 1 << 30  # most octets of values that exist in memory


@dataclass(frozen=True)
class Case:
    """One operation on one job.

    ``size`` is in octets, as MPI benchmarks count it: the buffer of bcast, reduce, allreduce and
    scan; each process's piece in gather, scatter, allgather and alltoall; each process's part of
    the result in reduce_scatter.
    """

    operation: str
    size: int
    root: int = 0
    # Whether the clients' libraries do the local phases; else our own trees send messages
    native: bool = True
    chosen: Choices = SPECIFIED

    def algorithm(self, clients: int) -> str:
        """Return the chosen algorithm in the form of :func:`.parse_choices`; empty: none."""
        return self.chosen.algorithm(self.operation, clients, self.size)


class _Setting:
    """State shared by the generators of all processes."""

    def __init__(
        self, shape: Shape, limits: Limits, case: Case, driver: Driver
    ) -> None:
        self.case = case
        self.n, self.size = shape.size, case.size
        # Algorithms never look at contents, so a value is a number of octets here.
        self.piece: Any = Extent(case.size)
        self.pieces = Same(self.piece, self.n)
        self._layout, self._driver = shape.layout(), driver
        # The layout knows each process's client.
        self._job = Job(
            version=LONG8_VERSION,
            nclients=len(shape.clients),
            hosts=(),
            procs=(),
            maxdatalen=limits.datalen,
            tag_ub=0,
            xsize=limits.xsize,
            maxlinear=limits.maxlinear,
            ackmark=limits.ackmark,
            hiwater=limits.hiwater,
            collectives=case.chosen.collectives,
            decisions=case.chosen.decisions,
        )
        self._real = (
            case.chosen.rule(case.operation, len(shape.clients), case.size) is not None
        )

    def of(self, rank: int) -> Within:
        return Within(self._layout, rank, self._job, native=self.case.native)

    @cached_property
    def whole(self) -> Any:
        """Return a value of the case's size; real octets if the chosen algorithm may cut it."""
        return memoryview(bytes(self.size)) if self._real else Extent(self.size)

    @cached_property
    def packing(self) -> Blank:
        return Zeros(self.size) if self._real else Blank(self.size)

    @cached_property
    def reduction(self) -> Reduction[Any]:
        library = ("SUM", "f8") if self.case.native else None
        elements: Elements[Any] = Elements(
            1, nbytes, _part, lambda parts: Extent(sum(map(nbytes, parts)))
        )
        return Reduction(self._combine, library=library, elements=elements)

    @cached_property
    def in_order(self) -> Reduction[Any]:
        return Reduction(self._combine, commutative=False)

    def _combine(self, one: Any, other: Any) -> Any:
        assert nbytes(one) == nbytes(other)
        self._driver.charge(nbytes(one))
        return other

    def parts(self, whole: object) -> Same:
        assert nbytes(whole) == self.size * self.n
        return self.pieces

    def mine(self, rank: int) -> Any:
        """Return the packed piece of one process."""
        return self.packing.join([None], [rank])


def _part(value: object, start: int, end: int) -> Extent:
    assert 0 <= start <= end <= nbytes(value)
    return Extent(end - start)


_Make = Callable[[_Setting, int], Algorithm[object]]


OPERATIONS: Final[dict[str, _Make]] = {
    "barrier": lambda s, rank: s.of(rank).barrier(),
    "bcast": lambda s, rank: s.of(rank).bcast(
        s.case.root, s.whole if rank == s.case.root else None, s.size
    ),
    "gather": lambda s, rank: s.of(rank).gather(
        s.case.root, s.mine(rank), s.packing, s.size
    ),
    "gatherv": lambda s, rank: s.of(rank).gatherv(s.case.root, s.piece),
    "scatter": lambda s, rank: s.of(rank).scatter(
        s.case.root, s.pieces if rank == s.case.root else None, s.packing
    ),
    "allgather": lambda s, rank: s.of(rank).allgather(s.mine(rank), s.packing, s.size),
    "alltoall": lambda s, rank: s.of(rank).alltoall(s.pieces, s.packing),
    "reduce": lambda s, rank: s.of(rank).reduce(s.case.root, s.piece, s.reduction),
    "reduce-ordered": lambda s, rank: s.of(rank).reduce(
        s.case.root, s.piece, s.in_order
    ),
    "allreduce": lambda s, rank: s.of(rank).allreduce(s.piece, s.reduction),
    "reduce_scatter": lambda s, rank: s.of(rank).reduce_scatter(
        Extent(s.size * s.n), s.reduction, s.parts
    ),
    "scan": lambda s, rank: s.of(rank).scan(s.piece, s.reduction),
    "exscan": lambda s, rank: s.of(rank).exscan(s.piece, s.reduction),
}
"""Makers of generators by operation; ``reduce-ordered`` has an operation that does not commute."""


def check_size(shape: Shape, limits: Limits, case: Case) -> None:
    """Check a case; UsageError: it is invalid, or too large to simulate message by message."""

    n = shape.size
    if case.operation not in OPERATIONS:
        raise UsageError(
            f"there is no collective {case.operation!r}; there are {', '.join(OPERATIONS)}"
        )

    if not 0 <= case.root < n:
        raise UsageError(f"root {case.root} is not in 0..{n - 1}")

    if case.operation == "alltoall" and n * (n - 1) > MOST_MESSAGES:
        raise UsageError(
            f"alltoall among {n} processes is {n * (n - 1)} messages, and {MOST_MESSAGES} can be simulated; "
            f"give fewer --procs, at most {int(MOST_MESSAGES**0.5)}"
        )

    packets = _packets(shape, limits, case)
    if packets > MOST_MESSAGES:
        raise UsageError(
            f"{case.operation} of {case.size} octets among {n} processes is some {packets} packets, and "
            f"{MOST_MESSAGES} can be simulated; give a smaller --size, longer packets (--datalen) or fewer --procs"
        )

    # Every process lists the processes of its client there
    # (impi.protocol.collectives.chapter4.gather).
    packed = case.operation in ("gather", "allgather") and is_short(
        case.size, limits.xsize
    )
    if (
        packed
        and not case.native
        and sum(len(ranks) ** 2 for ranks in shape.ranks) > _MOST_SHARES
    ):
        raise UsageError(
            f"{case.operation} of short pieces by messages is too much for clients of {len(shape.ranks[0])} processes; "
            "give --local library, more clients or fewer --procs"
        )

    rule = case.chosen.rule(case.operation, len(shape.clients), case.size)

    octets = case.size * len(shape.clients) * (n if case.operation == "scatter" else 1)
    if (
        rule is not None
        and case.operation in ("bcast", "scatter")
        and octets > _MOST_OCTETS
    ):
        raise UsageError(
            f"a {rule.algorithm} {case.operation} of {case.size} octets among {n} processes moves {octets} real octets,"
            f" and {_MOST_OCTETS} can be; give --size up to {_MOST_OCTETS * case.size // octets}"
        )


def _packets(shape: Shape, limits: Limits, case: Case) -> int:
    """Return roughly how many packets a collective sends between clients, without PROTOACKs."""

    n, clients = shape.size, len(shape.clients)
    rule = case.chosen.rule(case.operation, clients, case.size)
    segment = rule.segment if rule is not None and case.operation == "bcast" else 0
    cut = min(limits.datalen, segment) if segment else limits.datalen
    each, everything = (
        max(1, -(-octets // cut)) for octets in (case.size, case.size * n)
    )

    by_masters = {"barrier": 2, "bcast": 1, "reduce": 1, "allreduce": 2}
    if case.operation in by_masters:
        reproducible = REPRODUCIBLE in case.chosen.collectives and case.operation in (
            "reduce",
            "allreduce",
        )
        return (by_masters[case.operation] * clients + reproducible * n) * each

    if case.operation == "alltoall":
        return n * (n - 1) * each

    return n * each + (
        clients * everything if case.operation in ("allgather", "reduce_scatter") else 0
    )


def simulate(shape: Shape, limits: Limits, case: Case, driver: Driver) -> Outcome:
    """Run a case and return its cost.

    Args:
        shape: the places of the processes.
        limits: the job's limits.
        case: the operation.
        driver: made for the same shape and limits.

    Raises:
        UsageError: as in :func:`check_size`.
        Deadlock: the collective does not end.
    """
    check_size(shape, limits, case)
    setting = _Setting(shape, limits, case, driver)

    return driver.run(partial(OPERATIONS[case.operation], setting), (case.root,))
