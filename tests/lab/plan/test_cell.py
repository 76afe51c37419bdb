"""Cells, their ids and hashes, and what selectors pick."""

from __future__ import annotations

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.lab.cases import CASES
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell, is_literal, matches, parse_cell, picks, select
from impi.lab.plan.matrix import cells_of, choose

ALL = cells_of("core")


def test_an_id_reads_well():
    cell = Cell(
        CASES["startup.key"], ("mpich", "pure"), parse_topology("2x2+1x4"), "auth=key"
    )
    assert cell.id == "startup.key/mpich+pure/2x2+1x4/auth=key"
    assert len(cell.hash) == 7


@pytest.mark.parametrize(
    ("selectors", "count"),
    [
        (["p2p.ring"], 12),
        (["p2p.ring/mpich+openmpi"], 2),
        (["p2p.ring/mpich+openmpi/1x2+1x2"], 1),
        (["p2p.ring/mpich+openmpi/**"], 2),
        (["*/*/1x2+1x2+1x2"], 11),
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
        c
        for c in ALL
        if c.case.name == "p2p.ring" and "pure" not in c.vendors and not c.variant
    ]


@pytest.mark.parametrize("bad", ["", "/", "a/b/c/d/e"])
def test_bad_selectors(bad):
    with pytest.raises(UsageError, match="selector"):
        select(ALL, [bad])


def test_tags_select():
    found = select(ALL, ["@collective"])
    assert {c.case.name for c in found} == {
        "coll.all",
        "coll.exchanges",
        "coll.rooted",
        "coll.sizes",
        "objects.all",
    }
    assert set(select(ALL, ["@collective/*/2x2+2x2"])) < set(found)
    assert select(ALL, ["@coll*"]) == found
    assert {c.case.name for c in select(ALL, ["@smoke"])} == {
        c.name for c in CASES.values() if "smoke" in c.groups
    }
    with pytest.raises(
        UsageError, match="no case has the tag 'fast'; there are startup"
    ):
        select(ALL, ["@fast"])


@pytest.mark.parametrize("cell", cells_of("full")[::7])
def test_an_id_names_its_cell(cell):
    assert parse_cell(cell.id) == cell


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p2p.rong/pure+pure/1x1+1x1", "no case 'p2p.rong'"),
        ("p2p.ring/pure+lamb/1x1+1x1", "no vendor 'lamb'"),
        ("p2p.ring/pure+pure", "topology"),
        ("p2p.ring/pure+pure/1x1", "different numbers of clients"),
        (
            "p2p.ring/pure+pure/1x1+1x1/auth=none",
            "auth has no value 'none'; it has key",
        ),
        ("p2p.ring/pure+pure/1x1+1x1/colour=red", "there is no setting 'colour'"),
        (
            "p2p.ring/pure+pure/1x1+1x1/form=native,auth=key",
            "write 'auth=key,form=native'",
        ),
        ("startup.key/pure+pure/1x1+1x1", "variant"),
        ("p2p.ring/pure+pure/1x1+1x1//x", "write CASE"),
    ],
)
def test_no_id(text, words):
    with pytest.raises(UsageError, match=words):
        parse_cell(text)


def test_settings_of_a_variant_change_the_options():
    plain = parse_cell("p2p.ring/pure+pure/1x2+1x2")
    changed = parse_cell("p2p.ring/pure+pure/1x2+1x2/auth=key,form=native,hosts=node")
    assert plain.options == ("--external32", "--tuning=specification")
    assert changed.options == ("--tuning=specification", "--hosts", "node")
    assert changed.settings == {"auth": "key", "form": "native", "hosts": "node"}
    usual = parse_cell("coll.exchanges/pure+pure/1x2+1x2/form=native")
    assert usual.options == ()


def test_a_fault_in_an_id_is_no_tag():
    cell = "network.steady/mpich+pure/1x2+1x2/fault=pause@case"
    assert [c.id for c in choose(FakeBackend(), include=(cell,)).cells] == [cell]


@pytest.mark.parametrize(
    ("selector", "literal"),
    [
        ("p2p.ring/pure+pure/1x2+1x2", True),
        ("0123abc", True),
        ("/0123abc", True),
        ("p2p.ring", False),
        ("p2p.*/pure+pure/1x2+1x2", False),
        ("@p2p/pure+pure/1x2+1x2", False),
    ],
)
def test_what_names_a_cell_literally(selector, literal):
    assert is_literal(selector) is literal


def test_without_a_variant_a_selector_matches_all_but_picks_the_plain_one():
    plain, varied = (
        parse_cell(f"p2p.ring/pure+pure/1x2+1x2{variant}")
        for variant in ("", "/hosts=node")
    )
    assert matches(plain, "p2p.ring") and matches(varied, "p2p.ring")
    assert picks(plain, "p2p.ring") and not picks(varied, "p2p.ring")
    assert picks(varied, "p2p.ring/*/*/hosts=node") and picks(varied, varied.hash)


def test_cells_that_can_share_nodes():
    pair = "p2p.ring/pure+pure/1x2+1x2"
    plain, six, compiled, native = (
        parse_cell(pair + v) for v in ("", "/ip=6", "/abi=standard", "/form=native")
    )
    assert len({plain.lab, six.lab, compiled.lab}) == 3
    assert native.lab == plain.lab
    assert parse_cell(
        "faults.phases/mpich+openmpi/2x2+2x2/fault=kill-node@recv"
    ).breaks_lab
    assert not parse_cell(
        "faults.phases/mpich+openmpi/2x2+2x2/fault=freeze-node@recv"
    ).breaks_lab


def test_only_a_soak_has_an_amount():
    amount = parse_cell("soak.messages/pure+pure/1x2+1x2/amount=20s").amount
    assert amount is not None
    assert (amount.seconds, amount.count) == (20, 0)
    assert parse_cell("p2p.ring/pure+pure/1x2+1x2").amount is None
