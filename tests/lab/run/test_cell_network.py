"""The network of a cell: as its variant wants it, and as it was."""

from __future__ import annotations

import pytest
from forge import FakeBackend

from impi.base.errors import LabError
from impi.lab.plan.cell import parse_cell
from impi.lab.run.cell_network import CellNetwork


@pytest.mark.parametrize(
    ("variant", "asked"),
    [
        ("", []),
        ("/net=wan", ["links"]),
        ("/reach=heads", ["drop"]),
        ("/reach=routed", ["direct", "route"]),
        ("/ip=two", ["second"]),
    ],
)
def test_the_network_is_changed_as_the_variant_says_and_restored(
    variant: str, asked: list[str]
) -> None:
    backend, cell = (
        FakeBackend(),
        parse_cell(f"p2p.ring/mpich+openmpi/2x2+2x2{variant}"),
    )
    lab = backend.open(cell.vendors, cell.topology, run="r")
    network = CellNetwork(lab)
    network.make_worse(cell)
    assert backend.log[1:] == asked
    assert (network.seen is None) == (not asked)
    network.restore(faulty=False)
    assert backend.log[1:] == [*asked, *(["clear"] if asked else [])]


def test_what_was_seen_is_taken_before_all_is_as_before() -> None:
    cell = parse_cell("p2p.ring/mpich+openmpi/1x2+1x2/net=wan")
    network = CellNetwork(FakeBackend().open(cell.vendors, cell.topology, run="r"))
    network.make_worse(cell)
    network.restore(faulty=False)
    assert network.seen is not None
    assert len(network.seen.links) == 6


def test_a_fault_may_have_changed_what_the_variant_has_not() -> None:
    backend, cell = FakeBackend(), parse_cell("p2p.ring/mpich+openmpi/1x2+1x2")
    network = CellNetwork(backend.open(cell.vendors, cell.topology, run="r"))
    network.make_worse(cell)
    network.restore(faulty=True)
    assert (backend.log, network.seen) == (["open", "clear"], None)


def test_addresses_behind_another_are_noted() -> None:
    cell = parse_cell("p2p.ring/mpich+openmpi/2x2+2x2/reach=nat")
    network = CellNetwork(FakeBackend().open(cell.vendors, cell.topology, run="r"))
    network.make_worse(cell)
    assert network.hidden == ["10.9.2.2"]


def test_a_lab_without_a_network_of_its_own_says_so() -> None:
    cell = parse_cell("p2p.ring/mpich+openmpi/1x2+1x2/net=wan")
    network = CellNetwork(
        FakeBackend(captures=False).open(cell.vendors, cell.topology, run="r")
    )
    with pytest.raises(LabError, match="the network of this lab cannot be changed"):
        network.make_worse(cell)
    network.restore(faulty=True)
