from __future__ import annotations

from random import Random

import pytest

from impi.protocol.semantics.contexts import (
    COMM_SELF_CID,
    COMM_WORLD_CID,
    MAX_CID,
    Asking,
    ContextIds,
    copy_cid,
)
from impi.protocol.semantics.errors import MPIException


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


@pytest.mark.parametrize("seed", range(200))
def test_creations_of_several_threads_end_with_different_ids(seed: int) -> None:
    """Creations under way at once, of any processes: all offer, in any order, then all take."""
    draw = Random(seed)
    every = [ContextIds() for _ in range(draw.randint(1, 5))]
    for one in every:
        one.draw = draw.getrandbits
    count = draw.randint(1, 6)
    members = [draw.sample(every, draw.randint(1, len(every))) for _ in range(count)]
    asking = [[Asking(one) for one in mine] for mine in members]
    todo: list[list[tuple[int, Asking]]] = [
        [(n, each) for each in mine] for n, mine in enumerate(asking)
    ]
    offers: list[list[int]] = [[] for _ in range(count)]
    cids: list[set[int]] = [set() for _ in range(count)]
    while waiting := [n for n in range(count) if todo[n]]:
        number = draw.choice(waiting)
        _, each = todo[number].pop(draw.randrange(len(todo[number])))
        if len(offers[number]) < len(asking[number]):
            offers[number].append(each.offer())
            if len(offers[number]) == len(asking[number]):
                todo[number] = [(number, one) for one in asking[number]]
        else:
            with each:
                cids[number].add(each.take(max(offers[number])))
    found = [cid.pop() for cid in cids if len(cid) == 1]
    for one in every:
        mine = [cid for cid, group in zip(found, members, strict=True) if one in group]
        assert len(set(mine)) == len(mine)
    assert all(
        cid % 2 == 0 and (4 <= cid < 4 + 4 * count or 2**61 <= cid < 2**62)
        for cid in found
    )
    assert all(one.maximum < 4 + 4 * count for one in every)


def test_a_process_of_impi_0_0_offers_only_what_the_specification_knows() -> None:
    ids = ContextIds()
    with Asking(ids) as one, Asking(ids) as two:
        assert (one.offer(), two.offer()) == (3, 3)


def test_a_creation_that_fails_gives_the_offer_of_its_process_away() -> None:
    ids = ContextIds()
    ids.draw = lambda bits: 2**bits - 1
    with pytest.raises(ValueError), Asking(ids) as one:
        assert (one.offer(), Asking(ids).offer()) == (3, 2**61 + 2**60 - 1)
        raise ValueError
    assert Asking(ids).offer() == 3


def test_the_last_id_and_no_more() -> None:
    ids = ContextIds()
    assert ids.take(MAX_CID - 3) == MAX_CID - 2
    with pytest.raises(MPIException, match="out of contexts"):
        ids.take(MAX_CID - 1)


def test_copies_have_ids_of_their_own() -> None:
    """Copies share no id, none is an agreed one, and all are even, below the highest."""
    ids = {
        copy_cid(parent, number)
        for parent in (0, 2, 2**40, 2**61)
        for number in (0, 1, 2, 2**22)
    }
    assert len(ids) == 16
    assert all(2**63 <= cid <= MAX_CID and cid % 2 == 0 for cid in ids)


def test_copies_of_copies_have_ids_of_their_own() -> None:
    """At any depth ids are unique, also of parents with drawn ids and of many copies."""
    known: dict[int, tuple[int, ...]] = {}

    def grow(parent: int, path: tuple[int, ...], depth: int) -> None:
        for number in (0, 1, 2, 7, 100):
            cid = copy_cid(parent, number)
            assert cid not in known, (path, number, known[cid])
            assert 2**63 <= cid <= MAX_CID and cid % 2 == 0
            known[cid] = (*path, number)
            if depth:
                grow(cid, (*path, number), depth - 1)

    for root in (0, 2, 4, 100, 2**61 + 2):
        grow(root, (root,), 2)
    assert len(known) == 5 * (5 + 25 + 125)
