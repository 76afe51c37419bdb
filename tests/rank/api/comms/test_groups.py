from __future__ import annotations

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.comms.groups import GROUP_EMPTY, GROUP_NULL, Group
from impi.rank.api.constants import (
    CONGRUENT,
    ERR_GROUP,
    ERR_RANK,
    IDENT,
    SIMILAR,
    UNDEFINED,
    UNEQUAL,
)

WORLD = Group._of(range(6), 2)


def test_members() -> None:
    assert (WORLD.size, WORLD.rank) == (6, 2)
    assert WORLD._ranks == (0, 1, 2, 3, 4, 5)
    assert Group._of([5, 4], 2).rank == UNDEFINED


def test_algebra() -> None:
    odd, high = WORLD.Incl([5, 3, 1]), WORLD.Range_incl([(3, 5, 1)])
    assert Group.Union(odd, high)._ranks == (5, 3, 1, 4)
    assert (
        Group.Intersection(odd, high)._ranks
        == Group.Intersect(odd, high)._ranks  # type: ignore[misc]
        == (5, 3)
    )
    assert Group.Difference(odd, high)._ranks == (1,)
    assert (
        WORLD.Excl([0])._ranks
        == WORLD.Range_excl([(0, 0, 1)])._ranks
        == (1, 2, 3, 4, 5)
    )
    assert WORLD.Compare(WORLD.Incl([0, 1, 2, 3, 5, 4])) == SIMILAR
    assert WORLD.Compare(WORLD.Dup()) == IDENT
    assert WORLD.Compare(odd) == UNEQUAL
    assert CONGRUENT not in (IDENT, SIMILAR, UNEQUAL)


def test_translate() -> None:
    part = WORLD.Incl([4, 2])
    assert WORLD.Translate_ranks([2, 3, 4], part) == [1, UNDEFINED, 0]
    assert part.Translate_ranks() == [4, 2]
    assert part.Translate_ranks([1]) == [2]
    assert part.Translate_ranks(None, WORLD) == [4, 2]


def test_empty() -> None:
    empty = WORLD.Incl([])
    assert empty == GROUP_EMPTY
    assert (empty.size, empty.rank) == (0, UNDEFINED)
    assert Group.Union(GROUP_EMPTY, WORLD).rank == 2
    assert WORLD.Compare(GROUP_EMPTY) == UNEQUAL


def test_handles_of_two_equal_groups_differ() -> None:
    assert WORLD.Dup() != WORLD
    assert Group(WORLD) == WORLD


def test_free() -> None:
    group = WORLD.Dup()
    group.Free()
    assert group == GROUP_NULL
    GROUP_EMPTY.Free()
    assert GROUP_EMPTY.size == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: GROUP_NULL.Get_size(),
        lambda: GROUP_NULL.Free(),
        lambda: WORLD.Compare(GROUP_NULL),
        lambda: Group.Union(GROUP_NULL, WORLD),
    ],
)
def test_null(call: object) -> None:
    with pytest.raises(MPIException) as caught:
        call()  # type: ignore[operator]
    assert caught.value == ERR_GROUP


def test_bad_arguments() -> None:
    with pytest.raises(MPIException) as caught:
        WORLD.Incl([6])
    assert caught.value == ERR_RANK
    with pytest.raises(TypeError):
        WORLD.Compare(None)  # type: ignore[arg-type]
