"""Group: an ordered set of procs of the job; and the process sets that MPI demands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Self

from impi.protocol.semantics.constants import UNDEFINED
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.group import RankSet
from impi.rank.api import runtime
from impi.rank.api.handles import Handle, State, guarded, integer, row

if TYPE_CHECKING:
    from impi.rank.api.comms.session import Session
    from impi.rank.api.p2p.bsend import Attached

__all__ = ["GROUP_EMPTY", "GROUP_NULL", "Group"]

PROCESS_SETS: Final = ("mpi://WORLD", "mpi://SELF")
"""The process sets of every job (MPI 4.1, 11.3.2)."""


class _GroupState(State):
    __slots__ = ("attached", "me", "ranks")

    def __init__(
        self, ranks: RankSet, me: int, attached: Attached | None = None
    ) -> None:
        super().__init__()
        self.ranks = ranks
        self.me = me
        self.attached = attached  # the buffer of the session of the group


@guarded
class Group(Handle):
    """An ordered set of procs; null if made without arguments.

    Methods raise Exception: ``ERR_GROUP`` (null group), ``ERR_RANK``, ``ERR_ARG``.
    """

    @classmethod
    def _of(
        cls, members: Iterable[int], me: int, attached: Attached | None = None
    ) -> Self:
        """Return the group of these world ranks; ``me`` is the caller's."""
        return cls._new(RankSet(members), me, attached)

    @classmethod
    def _new(cls, ranks: RankSet, me: int, attached: Attached | None = None) -> Self:
        # MPI has one empty group, MPI_GROUP_EMPTY.
        if not ranks.members and cls is Group:
            return cls._wrap(_EMPTY)

        return cls._wrap(_GroupState(ranks, me, attached))

    def _live(self) -> _GroupState:
        state = self._state
        if not isinstance(state, _GroupState):
            raise error("ERR_GROUP", "null group")

        return state

    @property
    def _ranks(self) -> tuple[int, ...]:
        return self._live().ranks.members

    def Get_size(self) -> int:
        return len(self._live().ranks)

    def Get_rank(self) -> int:
        state = self._live()
        return state.ranks.rank_of(state.me) if len(state.ranks) else UNDEFINED

    size = property(Get_size, doc="number of procs")
    rank = property(Get_rank, doc="rank of the caller")

    def Translate_ranks(
        self, ranks: Sequence[int] | None = None, group: Group | None = None
    ) -> list[int]:
        """Return which ranks in ``group`` (default: world) ``ranks`` of this group have."""

        mine = self._live().ranks

        chosen = range(len(mine)) if ranks is None else row(ranks)
        if group is None:
            top = max(mine.members, default=-1) + 1
            return mine.translate(chosen, RankSet(range(top)))

        return mine.translate(chosen, _checked(group).ranks)

    def Compare(self, group: Group) -> int:
        return self._live().ranks.compare(_checked(group).ranks)

    def Dup(self) -> Self:
        state = self._live()
        return self._wrap(_GroupState(state.ranks, state.me, state.attached))

    @classmethod
    def _combined(
        cls, how: Callable[[RankSet, RankSet], RankSet], group1: Group, group2: Group
    ) -> Self:
        one, other = _checked(group1), _checked(group2)
        # The empty group does not know the caller.
        return cls._new(
            how(one.ranks, other.ranks),
            one.me if one.me >= 0 else other.me,
            one.attached or other.attached,
        )

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        return cls._combined(RankSet.union, group1, group2)

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        return cls._combined(RankSet.intersection, group1, group2)

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        return cls._combined(RankSet.difference, group1, group2)

    def _part(self, ranks: RankSet) -> Self:
        return self._new(ranks, self._live().me, self._live().attached)

    def Incl(self, ranks: Sequence[int]) -> Self:
        return self._part(self._live().ranks.incl(row(ranks)))

    def Excl(self, ranks: Sequence[int]) -> Self:
        return self._part(self._live().ranks.excl(row(ranks)))

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        return self._part(self._live().ranks.range_incl(_triples(ranks)))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        return self._part(self._live().ranks.range_excl(_triples(ranks)))

    @classmethod
    def Create_from_session_pset(cls, session: Session, pset_name: str) -> Self:
        return cls(session.Create_group(pset_name))

    def Free(self) -> None:
        self._live()
        self._forget()


def process_set(name: str) -> Sequence[int]:
    """Return the world ranks of a process set, empty if it is unknown; case does not matter."""
    engine = runtime.engine()
    known = dict(
        zip(
            map(str.lower, PROCESS_SETS),
            (range(engine.ways.home), (engine.rank,)),
            strict=True,
        )
    )

    return known.get(name.lower(), ())


def _triples(ranges: Iterable[Iterable[int]]) -> list[tuple[int, int, int]]:
    triples = []
    for each in ranges:
        first, last, stride = each
        triples.append((integer(first), integer(last), integer(stride)))

    return triples


def _checked(group: Group) -> _GroupState:
    if not isinstance(group, Group):
        raise TypeError(f"expecting Group, got {type(group).__name__}")

    return group._live()


_EMPTY: Final = _GroupState(RankSet(()), -1)

GROUP_NULL: Final = Group._define("GROUP_NULL", None)
GROUP_EMPTY: Final = Group._define("GROUP_EMPTY", _EMPTY)
