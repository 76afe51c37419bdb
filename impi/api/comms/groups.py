"""Group: an ordered set of procs of the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Self

from impi.api.handles.failing import guarded
from impi.api.handles.handle import Handle, State
from impi.api.handles.integers import integer, row
from impi.semantics.constants import UNDEFINED
from impi.semantics.errors import error
from impi.semantics.group import RankSet

if TYPE_CHECKING:
    from impi.api.comms.session import Session
    from impi.api.p2p.bsend import Attached

__all__ = ["GROUP_EMPTY", "GROUP_NULL", "Group"]


class _GroupState(State):
    __slots__ = ("attached", "me", "ranks")

    def __init__(self, ranks: RankSet, me: int, attached: Attached | None = None) -> None:
        super().__init__()
        self.ranks = ranks
        self.me = me
        self.attached = attached
        """The buffer of the session of the group."""


@guarded
class Group(Handle):
    """Group of procs; null by default. Raises ``ERR_GROUP`` (null), ``ERR_RANK``, ``ERR_ARG``."""

    @classmethod
    def _of(cls, members: Iterable[int], me: int, attached: Attached | None = None) -> Self:
        """Return the group of these world ranks; ``me`` is the caller's."""
        return cls._new(RankSet(members), me, attached)

    @classmethod
    def _new(cls, ranks: RankSet, me: int, attached: Attached | None = None) -> Self:
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
        """World ranks of the members."""
        return self._live().ranks.members

    def Get_size(self) -> int:
        """Return the number of procs."""
        return len(self._live().ranks)

    def Get_rank(self) -> int:
        """Return the rank of the caller, or UNDEFINED."""
        state = self._live()
        return state.ranks.rank_of(state.me) if len(state.ranks) else UNDEFINED

    size = property(Get_size, doc="number of procs")
    rank = property(Get_rank, doc="rank of the caller")

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Return ranks in ``group`` (default: world) of ``ranks`` of this group (default: all)."""
        mine = self._live().ranks
        chosen = range(len(mine)) if ranks is None else row(ranks)
        if group is None:
            top = max(mine.members, default=-1) + 1
            return mine.translate(chosen, RankSet(range(top)))
        return mine.translate(chosen, _checked(group).ranks)

    def Compare(self, group: Group) -> int:
        """Return IDENT, SIMILAR (same procs, other order) or UNEQUAL."""
        return self._live().ranks.compare(_checked(group).ranks)

    def Dup(self) -> Self:
        """Duplicate the group."""
        state = self._live()
        return self._wrap(_GroupState(state.ranks, state.me, state.attached))

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        """Return all procs of the first group, then those of the second that are not in it."""
        return cls._new(
            _checked(group1).ranks.union(_checked(group2).ranks), _me(group1, group2), _attached(group1, group2)
        )

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        """Return the procs of the first group that are in the second."""
        return cls._new(
            _checked(group1).ranks.intersection(_checked(group2).ranks), _me(group1, group2), _attached(group1, group2)
        )

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        """Return the procs of the first group that are not in the second."""
        return cls._new(
            _checked(group1).ranks.difference(_checked(group2).ranks), _me(group1, group2), _attached(group1, group2)
        )

    def Incl(self, ranks: Sequence[int]) -> Self:
        """Return the procs at ``ranks``, in that order."""
        state = self._live()
        return self._new(state.ranks.incl(row(ranks)), state.me, state.attached)

    def Excl(self, ranks: Sequence[int]) -> Self:
        """Return all procs but those at ``ranks``."""
        state = self._live()
        return self._new(state.ranks.excl(row(ranks)), state.me, state.attached)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Return the procs in ranges of (first, last, stride)."""
        state = self._live()
        return self._new(state.ranks.range_incl(_triples(ranks)), state.me, state.attached)

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Return all procs but those in ranges of (first, last, stride)."""
        state = self._live()
        return self._new(state.ranks.range_excl(_triples(ranks)), state.me, state.attached)

    @classmethod
    def Create_from_session_pset(cls, session: Session, pset_name: str) -> Self:
        """Return the group of a process set of a session."""
        return cls(session.Create_group(pset_name))

    def Free(self) -> None:
        """Free the group.

        Raises:
            Exception: ``ERR_GROUP``: it is null.
        """
        self._live()
        self._forget()


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


def _me(group1: Group, group2: Group) -> int:
    """Return the caller's world rank; the empty group does not know it."""
    first = _checked(group1)
    return first.me if first.me >= 0 else _checked(group2).me


def _attached(group1: Group, group2: Group) -> Attached | None:
    return _checked(group1).attached or _checked(group2).attached


_EMPTY: Final = _GroupState(RankSet(()), -1)

GROUP_NULL: Final = Group._define("GROUP_NULL", None)
GROUP_EMPTY: Final = Group._define("GROUP_EMPTY", _EMPTY)
