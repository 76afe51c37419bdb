"""The collective algorithms of a communicator: chapter 4 in one group, ours between two groups.

How it works: :class:`Within` chooses among chapter 4, the decisions of the job
(:mod:`impi.protocol.decisions`) and algorithms that the user asked for by ``--collectives``. Every
choice uses only facts that all procs know, or they would run different algorithms against each
other. IMPI has no collectives between groups, so :class:`Between` has one way each. Both classes
offer the same operations, so code for buffers and pickles exists once. ``root`` is the caller's
argument; results are those of :mod:`impi.protocol.collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from impi.base.records import record
from impi.protocol import collectives
from impi.protocol.collectives import (
    Algorithm,
    Fixed,
    Layout,
    Octets,
    Packing,
    Reduction,
    is_short,
)
from impi.protocol.collectives.beyond import inter
from impi.protocol.collectives.tags import (
    ALLTOALL_TAG,
    ALLTOALLV_TAG,
    BARRIER_TAG,
    GATHER_TAG,
    GATHERV_TAG,
    SCATTERV_TAG,
)
from impi.protocol.decisions import Decisions, Rule
from impi.protocol.job import REPRODUCIBLE, Job
from impi.protocol.semantics.constants import INT_MAX, PROC_NULL, ROOT
from impi.protocol.semantics.errors import error
from impi.rank.api.handles.integers import fitting

V = TypeVar("V")
"""Values of an operation: octets, arrays, or objects."""


@record
class Role:
    """The part of the caller in an operation with a root."""

    is_root: bool
    is_leaf: bool
    """Whether root and caller exchange data; True for the root of a single group."""


# Big-endian octets of equal length compare as the numbers they are.
LARGEST: Reduction[bytes] = Reduction(lambda a, b: max(bytes(a), bytes(b)))

_ALWAYS_LINEAR = 2**31
_NEVER_LINEAR = 0


Plans: TypeAlias = dict[tuple[object, ...], Any]
"""The prepared parts of reductions of a communicator (:mod:`.reduction_plan`), by their kind."""
_MOST_RULES: Final = 256


class Within:
    """Algorithms in one group."""

    rank: int
    """Rank of the caller in its own group."""
    size: int
    """Size of the own group."""
    peers: int
    """Processes on the other side: the group itself, or the remote group."""

    external: bool
    """Whether the octets of an operation are external32."""

    def __init__(
        self,
        layout: Layout,
        rank: int,
        job: Job,
        *,
        native: bool = False,
        external: bool = True,
    ) -> None:
        """``native``: the vendor has collectives for local phases, which need all members.
        ``external``: clients send each other external32; never used inside one client.
        """

        # Inside one client nothing is converted, whatever the clients have agreed on.
        self.external = external and layout.num_masters() > 1
        self.plans: Plans = {}
        self.layout = layout
        self._native = native
        self.rank = rank
        self.size = self.peers = layout.size
        self._maxlinear = job.maxlinear
        self._xsize = job.xsize
        self._others = job.collectives
        self._decisions = job.decisions
        # Looked up once for each operation and size: programs use few of them
        self._rules: dict[tuple[str, int], Rule | None] = {}

    def role(self, root: int) -> Role:
        """Return a role that is a leaf; Exception ERR_ROOT: no such root."""
        if not 0 <= root < self.size:
            # mpi4py has another error for what C has no room for.
            fitting(root)
            raise error("ERR_ROOT", f"root {root} is not in 0..{self.size - 1}")

        return Role(root == self.rank, True)

    def barrier(self) -> Algorithm[None]:
        """IMPI 4.10."""
        # Another form on the wire than chapter 4's needs the agreement of all clients on a table of
        # decisions (docs/decisions/tuned-algorithms.md).
        if self._rule("barrier", 0) is not None:
            return collectives.barrier_by_exchange(
                self.layout, self.rank, native=self._native
            )

        return collectives.barrier(
            self.layout, self.rank, maxlinear=self._maxlinear, native=self._native
        )

    def bcast(self, root: int, value: Any, nbytes: int | None = None) -> Algorithm[Any]:
        """IMPI 4.11. ``nbytes``: octets of the value, if all procs know them."""

        # In a local phase the library needs the length at every member. A message of chapter 4
        # brings its own.
        like = self._sized(nbytes)

        rule = self._rule("bcast", nbytes)
        if rule is None or nbytes is None:
            return collectives.bcast(
                self.layout,
                self.rank,
                root,
                value,
                maxlinear=self._maxlinear,
                like=like,
            )

        return collectives.bcast_over(
            collectives.SHAPES[rule.algorithm],
            self.layout,
            self.rank,
            root,
            value,
            nbytes,
            segment=rule.segment,
            like=like,
        )

    def gather(
        self, root: int, piece: Octets, packing: Packing, nbytes: int
    ) -> Algorithm[list[Octets] | None]:
        """IMPI 4.12. ``nbytes``: octets of each piece; 0: a proc knows only its own."""
        # 2.3.5: short is what has less than XSIZE octets, in one contribution and not in all.
        return collectives.gather(
            self.layout,
            self.rank,
            root,
            piece,
            packing,
            maxlinear=self._maxlinear,
            short=is_short(nbytes, self._xsize),
            native=self._sized(packing.size_of(range(self.size))) is not None,
        )

    def gatherv(self, root: int, piece: Octets) -> Algorithm[list[Octets] | None]:
        """IMPI 4.13."""
        return collectives.gatherv(self.layout, self.rank, root, piece)

    def scatter(
        self, root: int, pieces: Sequence[Octets] | None, packing: Fixed | None = None
    ) -> Algorithm[Octets | None]:
        """IMPI 4.14. ``packing``: None if only the root knows the sizes; this is not in IMPI."""

        if packing is not None and (rule := self._rule("scatter", packing.size)):
            return collectives.scatter_over(
                collectives.SHAPES[rule.algorithm],
                self.layout,
                self.rank,
                root,
                pieces,
                packing,
            )

        # Another reading of the lost text, if the user has asked for it at all clients
        # (docs/decisions/readings-of-chapter-4.md).
        if packing is not None and "scatter=masters" in self._others:
            return collectives.scatter_by_masters(
                self.layout, self.rank, root, pieces, packing
            )

        like = (
            None
            if packing is None or self._sized(packing.size * self.size) is None
            else packing.size
        )

        return collectives.scatter(self.layout, self.rank, root, pieces, like=like)

    def scatterv(
        self, root: int, pieces: Sequence[Octets] | None
    ) -> Algorithm[Octets | None]:
        """IMPI 4.15."""
        return collectives.scatterv(self.layout, self.rank, root, pieces)

    def allgather(
        self, piece: Octets, packing: Packing, nbytes: int
    ) -> Algorithm[list[Octets]]:
        """IMPI 4.19."""
        native = (
            self._native and self._sized(packing.size_of(range(self.size))) is not None
        )
        if self._rule("allgather", nbytes) is not None:
            return collectives.allgather_by_exchange(
                self.layout, self.rank, piece, packing, native=native
            )

        return collectives.allgather(
            self.layout,
            self.rank,
            piece,
            packing,
            maxlinear=self._maxlinear,
            short=is_short(nbytes, self._xsize),
            native=native,
        )

    def allgatherv(self, piece: Octets, packing: Packing) -> Algorithm[list[Octets]]:
        """IMPI 4.20."""
        if "allgatherv=gathervs" in self._others:
            return collectives.allgatherv_by_gathervs(self.layout, self.rank, piece)

        native = self._sized(packing.size_of(range(self.size))) is not None

        return collectives.allgatherv(
            self.layout,
            self.rank,
            piece,
            packing,
            maxlinear=self._maxlinear,
            native=native,
        )

    def alltoall(
        self, pieces: Sequence[Octets], packing: Fixed | None = None
    ) -> Algorithm[list[Octets]]:
        """IMPI 4.22. ``packing``: None if a proc knows only its own sizes; this is not in IMPI."""

        if (
            packing is not None
            and "alltoall=masters" in self._others
            and is_short(packing.size, self._xsize)
        ):
            return collectives.alltoall_by_masters(
                self.layout, self.rank, pieces, packing
            )

        alike = (
            packing is not None and self._sized(packing.size * self.size) is not None
        )
        size = None if packing is None else packing.size

        return collectives.alltoall(
            self.layout, self.rank, pieces, alike=alike, size=size
        )

    def alltoallv(self, pieces: Sequence[Octets]) -> Algorithm[list[Octets]]:
        """IMPI 4.23; on octets it is Alltoallw, too, which IMPI does not have."""
        return collectives.alltoallv(self.layout, self.rank, pieces)

    def reduce(
        self, root: int, value: V, reduction: Reduction[V]
    ) -> Algorithm[V | None]:
        """IMPI 4.16."""

        if self._reproducible(reduction):
            return collectives.reproducible_reduce(
                self.layout, self.rank, root, value, reduction
            )

        rule = self._reduction_rule("reduce", value, reduction)
        if rule is not None and rule.algorithm == "elimination":
            return collectives.reduce_by_elimination(
                self.layout,
                self.rank,
                root,
                value,
                reduction,
                threshold=rule.segment,
                native=self._native,
            )

        return collectives.reduce(
            self.layout,
            self.rank,
            root,
            value,
            reduction,
            maxlinear=self._linear_up_to(rule),
            native=self._native,
        )

    def allreduce(self, value: V, reduction: Reduction[V]) -> Algorithm[V]:
        """IMPI 4.21."""

        if self._reproducible(reduction):
            return collectives.reproducible_allreduce(
                self.layout,
                self.rank,
                value,
                reduction,
                maxlinear=self._maxlinear,
                native=self._native,
            )

        rule = self._reduction_rule("allreduce", value, reduction)
        if rule is not None and rule.algorithm == "elimination":
            return collectives.allreduce_by_elimination(
                self.layout,
                self.rank,
                value,
                reduction,
                threshold=rule.segment,
                native=self._native,
            )

        return collectives.allreduce(
            self.layout,
            self.rank,
            value,
            reduction,
            maxlinear=self._linear_up_to(rule),
            native=self._native,
        )

    def reduce_scatter(
        self,
        value: V,
        reduction: Reduction[V],
        divide: Callable[[V], Sequence[V]],
        sizes: Sequence[int] = (),
    ) -> Algorithm[V]:
        """IMPI 4.17. ``sizes``: elements of the parts, if all procs know them."""
        if self._reproducible(reduction):
            return collectives.reproducible_reduce_scatter(
                self.layout, self.rank, value, reduction, divide
            )

        return collectives.reduce_scatter(
            self.layout,
            self.rank,
            value,
            reduction,
            divide,
            maxlinear=self._maxlinear,
            native=self._native,
            sizes=sizes,
        )

    def scan(self, value: V, reduction: Reduction[V]) -> Algorithm[V]:
        """IMPI 4.18."""
        return collectives.scan(self.layout, self.rank, value, reduction)

    def exscan(self, value: V, reduction: Reduction[V]) -> Algorithm[V | None]:
        return collectives.exscan(self.layout, self.rank, value, reduction)

    def maximum(self, value: bytes) -> Algorithm[bytes]:
        """Allreduce with the maximum, for IMPI 4.3.1."""
        return self.allreduce(value, LARGEST)

    def free(self) -> Algorithm[None]:
        """Barrier of IMPI 4.5."""
        return self.barrier()

    def _sized(self, nbytes: int | None) -> int | None:
        """Return ``nbytes`` if the local phase can be the vendor's, else None."""
        # The library's calls take counts as C int, and all procs must call it or none.
        return (
            nbytes
            if self._native and nbytes is not None and nbytes <= INT_MAX
            else None
        )

    def decide(self, decisions: Decisions | None) -> None:
        """Use another decision table from now on; collective, with one table everywhere."""
        self._decisions = decisions

    def _rule(self, operation: str, nbytes: int | None) -> Rule | None:
        """Return the rule for an operation; ``nbytes``: octets known to all procs, or None."""
        if self._decisions is None or nbytes is None:
            return None

        rules, key = self._rules, (operation, nbytes)
        if key not in rules:
            if len(rules) >= _MOST_RULES:
                rules.clear()

            # Rules are about the way between masters; inside one client there is none.
            clients = self.layout.num_masters()
            rules[key] = (
                self._decisions.choose(operation, clients, nbytes)
                if clients > 1
                else None
            )

        return rules[key]

    def _reduction_rule(
        self, operation: str, value: V, reduction: Reduction[V]
    ) -> Rule | None:
        # Only the specification's own algorithm keeps the order of values.
        if reduction.elements is None or not reduction.commutative:
            return None

        return self._rule(operation, reduction.elements.nbytes(value))

    def _linear_up_to(self, rule: Rule | None) -> int:
        """Return the ``maxlinear`` that selects the decided one of the shapes of chapter 4."""
        if rule is None:
            return self._maxlinear

        return _ALWAYS_LINEAR if rule.algorithm == "flat" else _NEVER_LINEAR

    def _reproducible(self, reduction: Reduction[V]) -> bool:
        # Any order gives the same maximum; the creation of communicators needs no change.
        return REPRODUCIBLE in self._others and reduction is not LARGEST


class Between:
    """Algorithms from one group to the other."""

    def __init__(
        self, rank: int, size: int, peers: int, *, external: bool = True
    ) -> None:
        self.external = external
        self.plans: Plans = {}
        self.rank = rank
        self.size = size
        self.peers = peers

    def role(self, root: int) -> Role:
        """Return the role of ROOT, of a proc beside it, or of a leaf in the other group."""
        if root not in (ROOT, PROC_NULL) and not 0 <= fitting(root) < self.peers:
            raise error(
                "ERR_ROOT",
                f"root {root} is not ROOT, PROC_NULL or in 0..{self.peers - 1}",
            )

        return Role(root == ROOT, root >= 0)

    def barrier(self) -> Algorithm[None]:
        yield from inter.exchange(self.peers, [b""] * self.peers, BARRIER_TAG)

    def bcast(self, root: int, value: Any, nbytes: int | None = None) -> Algorithm[Any]:
        return inter.bcast(self.peers, root, value)

    def gather(
        self, root: int, piece: Octets, packing: Packing, nbytes: int
    ) -> Algorithm[list[Octets] | None]:
        return inter.gather(self.peers, root, piece)

    def gatherv(self, root: int, piece: Octets) -> Algorithm[list[Octets] | None]:
        return inter.gather(self.peers, root, piece, GATHERV_TAG)

    def scatter(
        self, root: int, pieces: Sequence[Octets] | None, packing: Fixed | None = None
    ) -> Algorithm[Octets | None]:
        return inter.scatter(self.peers, root, pieces)

    def scatterv(
        self, root: int, pieces: Sequence[Octets] | None
    ) -> Algorithm[Octets | None]:
        return inter.scatter(self.peers, root, pieces, SCATTERV_TAG)

    def allgather(
        self, piece: Octets, packing: Packing, nbytes: int
    ) -> Algorithm[list[Octets]]:
        return inter.exchange(self.peers, [piece] * self.peers, GATHER_TAG)

    def allgatherv(self, piece: Octets, packing: Packing) -> Algorithm[list[Octets]]:
        return inter.exchange(self.peers, [piece] * self.peers, GATHERV_TAG)

    def alltoall(
        self, pieces: Sequence[Octets], packing: Fixed | None = None
    ) -> Algorithm[list[Octets]]:
        return inter.exchange(self.peers, pieces, ALLTOALL_TAG)

    def alltoallv(self, pieces: Sequence[Octets]) -> Algorithm[list[Octets]]:
        return inter.exchange(self.peers, pieces, ALLTOALLV_TAG)

    def reduce(
        self, root: int, value: V, reduction: Reduction[V]
    ) -> Algorithm[V | None]:
        return inter.reduce(self.peers, root, value, reduction)

    def allreduce(self, value: V, reduction: Reduction[V]) -> Algorithm[V]:
        return inter.allreduce(self.peers, value, reduction)

    def reduce_scatter(
        self,
        value: V,
        reduction: Reduction[V],
        divide: Callable[[V], Sequence[V]],
        sizes: Sequence[int] = (),
    ) -> Algorithm[V]:
        return inter.reduce_scatter(self.rank, self.peers, value, reduction, divide)

    def scan(self, value: V, reduction: Reduction[V]) -> Algorithm[V]:
        """Raise ERR_COMM: MPI has no scan between two groups."""
        raise error("ERR_COMM", "a scan needs an intracommunicator")

    exscan = scan

    def maximum(self, value: bytes) -> Algorithm[bytes]:
        """IMPI 4.6."""
        return inter.leaders_maximum(self.rank, self.peers, value)

    def free(self) -> Algorithm[None]:
        """IMPI 4.5."""
        return inter.free_barrier(self.rank, self.peers)


Algorithms: TypeAlias = Within | Between
