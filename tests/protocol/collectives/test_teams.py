"""Stars and trees around a root."""

from __future__ import annotations

import chapter4
import pytest

from impi.protocol.collectives import Layout
from impi.protocol.collectives.teams import (
    Links,
    Team,
    across,
    high_links,
    low_links,
    within,
)

SIX = (0, 0, 1, 1, 2, 3, 4, 5, 5)


def test_the_root_stands_in_for_its_client() -> None:
    assert across(Layout(SIX), 3, 4) == Team((0, 3, 4, 5, 6, 7), 1, linear=False)
    assert across(Layout(SIX), 2, 6) == Team((0, 2, 4, 5, 6, 7), 1, linear=True)


def test_the_local_phase_is_around_the_root_or_the_master() -> None:
    assert within(Layout(SIX), 2, 3) == Team((2, 3), 1, linear=False)
    assert within(Layout(SIX), 8, 3) == Team((7, 8), 0, linear=False)


def test_links_join_both_phases() -> None:
    layout = Layout(SIX)
    assert high_links(layout, 3, 3, 4) == Links(None, (4, 5, 7), (2,))
    assert high_links(layout, 2, 3, 4) == Links(3, (), ())
    assert low_links(layout, 7, 3, 4) == Links(3, (0,), (8,))
    assert low_links(layout, 0, 3, 6) == Links(3, (), (1,))


def test_who_takes_no_part_has_no_links() -> None:
    team = across(Layout(SIX), 3, 4)
    assert team.high(2) == (None, ())
    assert team.low(2) == (None, ())


def test_blocks_of_six() -> None:
    assert Team((0, 3, 4, 5, 6, 7), 1, linear=False).blocks == (
        (1,),
        (2,),
        (3, 4),
        (5, 0),
    )
    assert Team((0, 3, 4, 5, 6, 7), 1, linear=True).blocks == (
        (1,),
        (0,),
        (2,),
        (3,),
        (4,),
        (5,),
    )
    assert Team((5,), 0, linear=False).blocks == ((0,),)


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("limit", [1, 32])
def test_every_process_has_one_way_to_the_root(size: int, limit: int) -> None:
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        for root in range(size):
            for links in (high_links, low_links):
                of = [links(layout, r, root, limit) for r in range(size)]
                children = sorted(
                    (c, r) for r in range(size) for c in (*of[r].wide, *of[r].near)
                )
                assert children == [(r, of[r].parent) for r in range(size) if r != root]
                assert of[root].parent is None
                assert all(
                    clients[c] != clients[r] for r in range(size) for c in of[r].wide
                )
                assert all(
                    clients[c] == clients[r] for r in range(size) for c in of[r].near
                )
