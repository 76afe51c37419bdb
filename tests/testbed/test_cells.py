from __future__ import annotations

import pytest
from forge import FakeBackend

from impi.errors import UsageError
from impi.testbed.cases import CASES
from impi.testbed.cell import Cell, parse_parties, select
from impi.testbed.matrix import cells_of, make_plan
from impi.testbed.roster import Roster
from impi.testbed.topology import parse_topology

ALL = cells_of("pairs")


def test_the_default_has_what_it_promises():
    pairs = {c.vendors for c in ALL if str(c.topology) == "1x2+1x2"}
    assert pairs == {(a, b) for a in ("pure", "mpich", "openmpi") for b in ("pure", "mpich", "openmpi")}
    for first, second in pairs:
        shown = {c.case.name for c in ALL if c.vendors == (first, second) and str(c.topology) == "1x2+1x2"}
        assert shown >= {case.name for case in CASES.values() if case.wide}
        if first != second:
            reverse = {c.case.name for c in ALL if c.vendors == (second, first) and str(c.topology) == "1x2+1x2"}
            assert shown | reverse == set(CASES)
    assert ("mpich", "openmpi") in {c.vendors for c in ALL if str(c.topology) == "2x2+2x2"}
    assert any("pure" in c.vendors for c in ALL if str(c.topology) == "2x2+2x2")
    assert {c.vendors for c in ALL if len(c.vendors) == 3} == {("pure", "mpich", "openmpi")}
    assert all(shape.np >= 2 for c in ALL for shape in c.topology.clients)


def test_ids_and_hashes_are_one_to_one():
    every = {*ALL, *cells_of("full"), *cells_of("smoke")}
    assert len({c.id for c in every}) == len({c.hash for c in every}) == len(every)


def test_an_id_reads_well():
    cell = Cell(CASES["startup.key"], ("mpich", "pure"), parse_topology("2x2+1x4"), "auth=key")
    assert cell.id == "startup.key/mpich+pure/2x2+1x4/auth=key"
    assert len(cell.hash) == 7


@pytest.mark.parametrize(
    ("selectors", "count"),
    [
        (["p2p.ring"], 12),
        (["p2p.ring/mpich+openmpi"], 2),
        (["p2p.ring/mpich+openmpi/1x2+1x2"], 1),
        (["p2p.ring/mpich+openmpi/**"], 2),
        (["*/*/1x2+1x2+1x2"], 5),
        (["*/*/*/auth=key"], 3),
        (["nothing.*"], 0),
        (["p2p.ring", "p2p.ring/mpich+*"], 12),
    ],
)
def test_selectors(selectors, count):
    assert len(select(ALL, selectors)) == count


def test_a_hash_selects_its_cell():
    assert select(ALL, [ALL[17].hash]) == [ALL[17]]
    assert select(ALL, ["/" + ALL[17].hash]) == [ALL[17]]


def test_exclusion_comes_after():
    assert select(ALL, ["p2p.ring"], ["*/*pure*"]) == [
        c for c in ALL if c.case.name == "p2p.ring" and "pure" not in c.vendors
    ]


@pytest.mark.parametrize("bad", ["", "/", "a/b/c/d/e"])
def test_bad_selectors(bad):
    with pytest.raises(UsageError, match="selector"):
        select(ALL, [bad])


def test_unknown_vendor():
    with pytest.raises(UsageError, match="no vendor 'foo'"):
        parse_parties("mpich+foo")


def test_chosen_topologies_and_parties():
    three = parse_topology("1x1+1x1+1x1")
    assert {c.vendors for c in cells_of("pairs", [three])} == {("pure", "mpich", "openmpi")}
    assert {c.parties for c in cells_of("pairs", [], [("mpich", "pure")])} == {"mpich+pure"}
    assert {str(c.topology) for c in cells_of("pairs", [], [("mpich", "pure")])} == {"1x2+1x2"}
    with pytest.raises(UsageError, match="3 clients"):
        cells_of("pairs", [three], [("mpich", "pure")])


def test_what_the_backend_cannot_run_is_said():
    backend = FakeBackend()
    backend.unsupported["2x2+2x2"] = "one machine"
    plan = make_plan(ALL, backend)
    assert {e.reason for e in plan.excluded} == {"one machine"}
    assert len(plan.cells) + len(plan.excluded) == len(ALL)
    assert plan.excluded


def test_roster():
    roster = Roster.of(parse_topology("2x2+1x3"), ["mpich", "pure"])
    assert [(r.client, r.node) for r in roster.ranks] == [
        *[(0, "c0n0")] * 2,
        *[(0, "c0n1")] * 2,
        *[(1, "c1n0")] * 3,
    ]
    assert roster.masters() == [0, 4]
    assert roster.on_node("c0n1") == [2, 3]
    assert roster.label(5) == "client 1 (pure) rank 5 on c1n0"
