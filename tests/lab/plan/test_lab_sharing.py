from __future__ import annotations

import pytest

from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.plan.lab_sharing import labs_of, own_place, share
from impi.lab.plan.matrix import cells_of

TRIO = "p2p.ring/pure+mpich+openmpi/1x2+1x2+1x2"
WIDE = "p2p.ring/mpich+openmpi/2x2+2x2"


def cells(*ids: str) -> list[Cell]:
    return [parse_cell(each) for each in ids]


def kinds(*ids: str) -> list[object]:
    found = cells(*ids)
    return [share(found)[cell.id].kind for cell in found]


@pytest.mark.parametrize(
    "identifier",
    [
        "p2p.ring/pure+mpich/1x2+1x2",
        "p2p.ring/openmpi+pure/1x2+1x2",
        "p2p.sizes/pure+mpich/1x1+1x1/form=native",
        "failure.kill-rank/mpich+openmpi/1x2+1x2",
        "startup.hello/pure+mpich/1x2+1x2/source=second",
    ],
)
def test_a_cell_runs_in_a_lab_that_has_its_nodes(identifier):
    trio, other = kinds(TRIO, identifier)
    assert trio == other


@pytest.mark.parametrize(
    "identifier",
    [
        "p2p.ring/mpich+mpich/1x2+1x2",  # the lab has one node of that vendor
        "p2p.ring/pure+mpich/2x2+2x2",
        "network.steady/pure+mpich/1x2+1x2/net=slow",
        "p2p.ring/pure+mpich/1x2+1x2/abi=standard",
        "p2p.ring/pure+mpich/1x2+1x2/ip=6",
    ],
)
def test_a_cell_that_needs_other_nodes_or_changes_them_has_its_own_lab(identifier):
    found = cells(TRIO, identifier)
    places = share(found)
    assert places[TRIO].kind != places[identifier].kind
    assert places[identifier] == own_place(found[1])


def test_a_cell_that_changes_the_network_leaves_its_lab_to_nobody():
    hurt = "network.steady/pure+mpich/1x2+1x2/net=slow"
    first, other = kinds(hurt, "p2p.ring/mpich+pure/1x2+1x2")
    assert first != other


def test_the_nodes_of_a_part_are_of_the_cells_vendors_in_its_order():
    swapped = "p2p.ring/openmpi+pure/1x2+1x2"
    place = share(cells(TRIO, swapped))[swapped]
    assert dict(place.nodes) == {"server": "server", "c0n0": "c2n0", "c1n0": "c0n0"}


def test_two_clients_of_a_vendor_have_different_nodes():
    twice = "p2p.ring/mpich+mpich/1x2+1x2"
    place = share(cells(WIDE, twice))[twice]
    assert dict(place.nodes) == {"server": "server", "c0n0": "c0n0", "c1n0": "c0n1"}


def test_a_cell_in_a_lab_of_its_own_shape_has_another_number_of_procs():
    wide, narrow = (
        "p2p.ring/pure+mpich/1x2+1x2",
        "p2p.sizes/pure+mpich/1x1+1x1/form=native",
    )
    places = share(cells(wide, narrow))
    assert places[wide].kind == places[narrow].kind
    assert dict(places[narrow].nodes)["c1n0"] == "c1n0"


def test_labs_that_fit_share_the_cells_evenly():
    found = cells(
        TRIO, WIDE, *(f"{case}/mpich+openmpi/1x2+1x2" for case in ("p2p.any",))
    )
    found += cells(*(f"{case}/openmpi+mpich/1x2+1x2" for case in ("p2p.any",)))
    places = share(found)
    assert {places[cell.id].kind for cell in found[2:]} == {
        places[TRIO].kind,
        places[WIDE].kind,
    }


def test_without_parts_each_kind_of_cell_has_its_own_lab():
    found = cells(TRIO, "p2p.ring/pure+mpich/1x2+1x2")
    assert all(place == own_place(cell) for cell, place in _paired(found))
    assert labs_of(found, parts=False) == 2
    assert labs_of(found, parts=True) == 1


def test_tier_core_needs_few_labs():
    found = cells_of("core")
    assert labs_of(found, parts=True) <= 7 < labs_of(found, parts=False)


def _paired(found):
    places = share(found, parts=False)
    return [(cell, places[cell.id]) for cell in found]
