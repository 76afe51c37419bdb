"""The cases of each tier, with their parties and topology."""

from __future__ import annotations

from forge import FakeBackend

from impi.base.manifests import manifest, vendors
from impi.base.records import replaced
from impi.lab.cases import CASES
from impi.lab.plan.matrix import cells_of, make_plan
from impi.lab.plan.tier_parts import Pick, parts_of


def test_a_trio_has_three_vendors_however_many_there_are(know_vendors):
    know_vendors(*vendors("core"), replaced(manifest("mpich"), name="fourth"))
    for tier, trios in (("core", 4), ("pairs", 4), ("full", 24)):
        cells = cells_of(tier)
        assert all(len(cell.vendors) == len(cell.topology.clients) for cell in cells)
        assert len({cell.vendors for cell in cells if len(cell.vendors) == 3}) == trios


def test_tier_pairs_has_a_line_of_six_clients():
    line = [c for c in cells_of("pairs") if len(c.vendors) == 6]
    assert {"coll.rooted", "coll.all", "coll.vectors", "reduce.ordered"} <= {
        c.case.name for c in line
    }
    assert {c.roster.nclients for c in line} == {6}


def test_the_tier_abi_is_every_program_in_c_for_each_abi():
    tier = cells_of("abi")
    in_c_alone = {"shutdown.broken", "startup.unloaded"}
    assert {cell.case.name for cell in tier} == {
        case.name for case in CASES.values() if case.twin
    } - in_c_alone
    assert all(cell.settings["abi"] in ("standard", *cell.vendors) for cell in tier)
    assert make_plan(tier, FakeBackend()).excluded == ()


def test_a_guest_joins_the_vendors_of_a_tier():
    cells = cells_of("core", guest="mpich@4.3")
    assert all("mpich@4.3" in cell.vendors for cell in cells)
    assert {cell.vendors for cell in cells} >= {
        ("mpich@4.3", name) for name in ("pure", "mpich", "openmpi")
    }
    assert {c.case.name for c in cells} == {c.case.name for c in cells_of("core")}


def test_a_selection_of_cases():
    ring, soak = CASES["p2p.ring"], CASES["soak.messages"]
    assert Pick().has(soak)
    assert Pick(groups=("smoke",)).has(ring) and not Pick(groups=("smoke",)).has(soak)
    assert Pick(tags=("soak",)).has(soak) and Pick(
        names=("p2p.ring",), tags=("soak",)
    ).has(ring)
    assert not Pick(groups=("core",), but="wide").has(ring)
    assert not Pick(tags=("soak",), also="smoke").has(soak)
    assert Pick(compiled=True).has(ring) is bool(ring.twin)
    assert not Pick(compiled=True).has(CASES["p2p.types"])


def test_a_part_has_as_many_parties_as_its_topology_has_clients():
    for tier in ("smoke", "core", "pairs", "versions", "natives", "net", "abi", "full"):
        parts = parts_of(tier)
        assert parts, tier
        assert {
            len(each) == len(part.topology.clients)
            for part in parts
            for each in part.parties
        } <= {True}
    assert parts_of("none of them") == ()
