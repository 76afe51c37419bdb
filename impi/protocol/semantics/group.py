"""Groups: ordered sets of ranks in MPI_COMM_WORLD (MPI 4.1, 7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from impi.protocol.semantics.constants import (
    IDENT,
    PROC_NULL,
    SIMILAR,
    UNDEFINED,
    UNEQUAL,
)
from impi.protocol.semantics.errors import error


class RankSet:
    """An immutable group: members are named by rank in MPI_COMM_WORLD, ranks are positions.

    Methods raise :class:`MPIException`: ``ERR_RANK`` for a rank outside of the group or a repeated
    one, ``ERR_ARG`` for a bad range.
    """

    def __init__(self, members: Iterable[int]) -> None:
        self.members: tuple[int, ...] = tuple(members)

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"RankSet({list(self.members)})"

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {member: rank for rank, member in enumerate(self.members)}

    def rank_of(self, member: int) -> int:
        return self._ranks.get(member, UNDEFINED)

    def incl(self, ranks: Sequence[int]) -> RankSet:
        self._check(ranks)
        return RankSet(self.members[rank] for rank in ranks)

    def excl(self, ranks: Sequence[int]) -> RankSet:
        self._check(ranks)
        out = set(ranks)
        return RankSet(
            member for rank, member in enumerate(self.members) if rank not in out
        )

    def range_incl(self, ranges: Sequence[tuple[int, int, int]]) -> RankSet:
        """Return the members in ranges of (first, last, stride), in that order; ``last`` is
        included."""
        return self.incl(_expand(ranges))

    def range_excl(self, ranges: Sequence[tuple[int, int, int]]) -> RankSet:
        """All but those in ranges of (first, last, stride)."""
        return self.excl(_expand(ranges))

    def union(self, other: RankSet) -> RankSet:
        return RankSet(
            # The order of the first group, then what the second one adds to it.
            (*self.members, *(m for m in other.members if m not in self._ranks))
        )

    def intersection(self, other: RankSet) -> RankSet:
        return RankSet(m for m in self.members if m in other._ranks)

    def difference(self, other: RankSet) -> RankSet:
        return RankSet(m for m in self.members if m not in other._ranks)

    def translate(self, ranks: Sequence[int], other: RankSet) -> list[int]:
        """Return the ranks in ``other`` of the members at ``ranks``: UNDEFINED if absent, PROC_NULL
        stays."""
        for rank in ranks:
            if rank != PROC_NULL:
                self._check((rank,))

        return [
            PROC_NULL if rank == PROC_NULL else other.rank_of(self.members[rank])
            for rank in ranks
        ]

    def compare(self, other: RankSet) -> int:
        """IDENT, SIMILAR (another order) or UNEQUAL."""
        if self.members == other.members:
            return IDENT

        return SIMILAR if set(self.members) == set(other.members) else UNEQUAL

    def _check(self, ranks: Sequence[int]) -> None:
        for rank in ranks:
            if not 0 <= rank < len(self.members):
                raise error(
                    "ERR_RANK",
                    f"rank {rank} is not in this group of {len(self.members)}",
                )

        if len(set(ranks)) != len(ranks):
            raise error("ERR_RANK", f"a rank comes more than once in {list(ranks)}")


def _expand(ranges: Sequence[tuple[int, int, int]]) -> list[int]:
    ranks: list[int] = []
    for first, last, stride in ranges:
        if stride == 0:
            raise error(
                "ERR_ARG", f"range ({first}, {last}, {stride}) has a stride of 0"
            )

        # MPI's `last` is a member, Python's end is not. A range that runs
        # away from `last` is empty.
        ranks.extend(range(first, last + (1 if stride > 0 else -1), stride))

    return ranks
