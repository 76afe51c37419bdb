from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.constants import (
    ERROR_CLASSES,
    IDENT,
    PROC_NULL,
    SIMILAR,
    UNDEFINED,
    UNEQUAL,
)
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.group import RankSet

groups = st.lists(st.integers(0, 9), unique=True).map(RankSet)


@given(groups, groups)
def test_algebra(a: RankSet, b: RankSet) -> None:
    union, common, rest = a.union(b), a.intersection(b), a.difference(b)
    assert set(union.members) == set(a.members) | set(b.members)
    assert union.members[: len(a)] == a.members
    assert set(common.members) == set(a.members) & set(b.members)
    assert common.union(rest).compare(a) in (IDENT, SIMILAR)
    assert a.compare(b) == (
        IDENT
        if a.members == b.members
        else SIMILAR
        if set(a.members) == set(b.members)
        else UNEQUAL
    )


@given(groups, st.randoms())
def test_incl_and_excl_share_the_group(a: RankSet, random: object) -> None:
    ranks = [rank for rank in range(len(a)) if rank % 2]
    assert a.incl(ranks).members == a.members[1::2]
    assert a.excl(ranks).members == a.members[::2]
    assert a.incl(ranks).union(a.excl(ranks)).compare(a) in (IDENT, SIMILAR)


@given(groups, groups)
def test_translate_there_and_back(a: RankSet, b: RankSet) -> None:
    there = a.translate(range(len(a)), b)
    for rank, other in enumerate(there):
        if other == UNDEFINED:
            assert a.members[rank] not in b.members
        else:
            assert b.members[other] == a.members[rank]
            assert b.translate([other], a) == [rank]


def test_proc_null_stays() -> None:
    assert RankSet([3, 4]).translate([PROC_NULL, 1], RankSet([4])) == [PROC_NULL, 0]


def test_ranges() -> None:
    group = RankSet(range(10, 20))
    assert group.range_incl([(0, 6, 3), (9, 8, -1)]).members == (10, 13, 16, 19, 18)
    assert group.range_excl([(0, 8, 1)]).members == (19,)
    assert group.range_incl([(3, 1, 1)]).members == ()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda g: g.incl([2]), "ERR_RANK"),
        (lambda g: g.incl([-1]), "ERR_RANK"),
        (lambda g: g.incl([0, 0]), "ERR_RANK"),
        (lambda g: g.excl([5]), "ERR_RANK"),
        (lambda g: g.translate([7], g), "ERR_RANK"),
        (lambda g: g.range_incl([(0, 1, 0)]), "ERR_ARG"),
    ],
)
def test_bad_arguments(call: object, name: str) -> None:
    with pytest.raises(MPIException) as caught:
        call(RankSet([5, 6]))  # type: ignore[operator]
    assert caught.value == ERROR_CLASSES[name][0]
