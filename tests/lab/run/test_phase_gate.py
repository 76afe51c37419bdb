"""The gate of a phase, on forged nodes."""

from __future__ import annotations

import pytest
from forge import FakeBackend

from impi.base.errors import LabError
from impi.base.remote.supervised import Completed
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.run.phase_gate import PhaseGate, network_of, node_program

FOLDERS = {"c0n0": "cell", "c1n0": "cell"}


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def lab(backend: FakeBackend) -> Lab:
    return backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")


def gate(lab: Lab) -> PhaseGate:
    found = PhaseGate(
        "case", lab, Roster.of(lab.access.topology, ["pure", "pure"]), FOLDERS
    )
    found.begin([node for nodes in lab.clients for node in nodes], 5.0)
    return found


def answers(backend: FakeBackend, text: bytes) -> None:
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=text, stderr=b"")


def test_ranks_are_told_by_node_once_all_have_come(backend, lab):
    answers(backend, b'{"7": 0}')
    assert gate(lab).ranks() == {"c0n0": {0: 7}, "c1n0": {0: 7}}
    answers(backend, b"{}")
    assert gate(lab).ranks() is None


def test_only_the_nodes_that_are_named_are_opened(backend, lab):
    answers(backend, b"{}")
    gate(lab).open([lab.clients[1][0]])
    assert lab.clients[0][0].read("cell/open-case") is None
    assert lab.clients[1][0].read("cell/open-case") == b""


def test_a_network_that_cannot_be_changed_is_told(lab):
    lab.network = None
    with pytest.raises(LabError, match="the network of this lab cannot be changed"):
        network_of(lab)


def test_a_program_on_a_node_sees_no_packages_of_a_user(lab):
    assert node_program(lab, "text", "a")[1:] == ["-I", "-S", "-c", "text", "a"]
