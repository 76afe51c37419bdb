from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from impi.semantics.contexts import (
    AGAIN,
    COMM_SELF_CID,
    COMM_WORLD_CID,
    MAX_CID,
    UNKNOWN,
    Asking,
    ContextIds,
    Key,
    copy_cid,
    met_cid,
    shrunk_cid,
)
from impi.semantics.errors import MPIException


def test_world_and_self_are_taken_from_the_start() -> None:
    assert (COMM_WORLD_CID, COMM_SELF_CID) == (0, 2)
    assert ContextIds().maximum == 3


def test_ids_are_even_and_leave_room_for_the_collective_one() -> None:
    ids = ContextIds()
    cid = ids.take(ids.contribution())
    assert cid == 4
    assert ids.maximum == 5
    assert ids.take(ids.contribution()) == 6


def test_an_even_maximum_is_made_odd_before_it_is_offered() -> None:
    ids = ContextIds()
    ids.take(4)  # a peer with another parity led the maximum
    assert ids.maximum == 6
    assert ids.contribution() == 7
    assert ids.take(7) == 8


def test_all_processes_agree_whatever_they_had() -> None:
    one, two = ContextIds(), ContextIds()
    for _ in range(3):
        two.take(two.contribution())
    maximum = max(one.contribution(), two.contribution())
    assert one.take(maximum) == two.take(maximum) == 10
    assert one.maximum == two.maximum


def agreed(draw: Random, processes: int, keys: Sequence[Key | None]) -> list[int]:
    """Return the ids of creations under way at once; None: its key is known after a round.

    In a round all processes offer, in any order and amid rounds of others, then all take.
    """
    every = [ContextIds() for _ in range(processes)]
    for one in every:
        one.repeats = True
    asking = [[Asking(one, key or UNKNOWN) for one in every] for key in keys]
    offers: list[list[int]] = [[] for _ in keys]
    begun = [0] * len(keys)
    found: dict[int, int] = {}
    for _ in range(100_000):
        number = draw.choice([n for n in range(len(keys)) if n not in found])
        mine = asking[number]
        if (place := len(offers[number])) < processes:
            if place == begun[number]:
                mine[place].begin()
                begun[number] += 1
            offers[number].append(mine[place].offer())
            continue
        cids = {asked.take(max(offers[number])) for asked in mine}
        assert len(cids) == 1
        offers[number] = []
        if (cid := cids.pop()) is not None:
            found[number] = cid
            for asked in mine:
                asked.end()
            if len(found) == len(keys):
                return [found[n] for n in range(len(keys))]
        for asked in mine:
            asked.key = keys[number] or (3, 2, number)
    raise AssertionError("no creation goes on")


@pytest.mark.parametrize("seed", range(200))
def test_creations_of_several_threads_end_with_different_ids(seed: int) -> None:
    draw = Random(seed)
    keys = [draw.choice([(n, 0, 0), (3, 1, n), None]) for n in range(draw.randint(2, 6))]
    ids = agreed(draw, draw.randint(1, 5), keys)
    assert len(set(ids)) == len(ids)
    assert all(cid % 2 == 0 and 4 <= cid < 4 + 4 * len(ids) for cid in ids)


def test_a_process_of_impi_0_0_offers_only_what_the_specification_knows() -> None:
    ids = ContextIds()
    with ids.asking((0, 0, 0)) as one, ids.asking((4, 0, 0)) as two:
        assert (one.offer(), two.offer()) == (3, 3)


def test_a_creation_that_fails_gives_its_turn_away() -> None:
    ids = ContextIds()
    ids.repeats = True
    with ids.asking((4, 0, 0)) as other:
        with pytest.raises(ValueError), ids.asking((0, 0, 0)) as one:
            assert (one.offer(), other.offer()) == (3, AGAIN)
            raise ValueError
        assert other.offer() == 3


def test_ids_of_shrinks_and_of_meetings_are_used_for_nothing_else() -> None:
    shrunk = {shrunk_cid(parent, number) for parent in (0, 4, 6) for number in range(3)}
    copies = {copy_cid(parent, number) for parent in (0, 4, 6) for number in range(3)}
    met = {met_cid(f"{number:064x}"[::-1]) for number in (0, 1, 2**40, 2**256 - 1)}
    assert len(shrunk | copies) == 18
    assert all(2**61 <= cid < 2**62 and cid % 2 == 0 for cid in met) and len(met) == 4


def test_the_last_id_and_no_more() -> None:
    ids = ContextIds()
    assert ids.take(MAX_CID - 3) == MAX_CID - 2
    with pytest.raises(MPIException, match="out of contexts"):
        ids.take(MAX_CID - 1)


def test_copies_have_ids_of_their_own() -> None:
    """Copies share no id, none is an agreed one, and all are even, below the highest."""
    ids = {copy_cid(parent, number) for parent in (0, 2, 4, 2**40) for number in (0, 1, 2, 2**22 - 1)}
    assert len(ids) == 16
    assert all(cid is not None and 2**63 <= cid <= MAX_CID and cid % 2 == 0 for cid in ids)


@pytest.mark.parametrize(("parent", "number"), [(0, 2**22), (2**41, 0), (MAX_CID - 1, 2**21)])
def test_without_room_a_copy_needs_an_agreed_id(parent: int, number: int) -> None:
    assert copy_cid(parent, number) is None


def test_copies_of_copies_have_ids_of_their_own() -> None:
    """At any depth ids are unique, without questions for three generations of children."""
    known: dict[int, tuple[int, ...]] = {}

    def grow(parent: int, path: tuple[int, ...], depth: int) -> None:
        for number in (0, 1, 2, 7, 100):
            cid = copy_cid(parent, number)
            assert cid is not None and cid not in known, (path, number, known.get(cid or 0))
            assert 2**63 <= cid <= MAX_CID and cid % 2 == 0
            known[cid] = (*path, number)
            if depth:
                grow(cid, (*path, number), depth - 1)

    for root in (0, 2, 4, 100, 1000):
        grow(root, (root,), 2)
    assert len(known) == 5 * (5 + 25 + 125)


def test_a_long_line_of_copies_ends_without_a_wrong_id() -> None:
    line: list[int] = [0]
    while (cid := copy_cid(line[-1], 0)) is not None:
        assert cid not in line
        line.append(cid)
    assert len(line) > 30
