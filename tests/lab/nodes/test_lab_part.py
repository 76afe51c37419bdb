from __future__ import annotations

from typing import cast

import pytest

from impi.lab.nodes.interface import Access, Capture, NodeAccess, Stacks
from impi.lab.nodes.lab_part import LabPart, SharedLab
from impi.lab.nodes.topology import parse_topology

TRIO = "server", "c0n0", "c1n0", "c2n0"
# pure+mpich+openmpi serves openmpi+pure
NODES = {"server": "server", "c0n0": "c2n0", "c1n0": "c0n0"}
PAIR = parse_topology("1x2+1x2")


class OneNode:
    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address


class Whole:
    """A :class:`impi.lab.nodes.lab_part.SharedLab` that notes what it is asked for."""

    captures, unseen = True, ()

    def __init__(self) -> None:
        vendors = "pure", "mpich", "openmpi"
        self.access = Access(
            backend="fake",
            lab="lab-1",
            run="r",
            vendors=vendors,
            topology=parse_topology("1x2+1x2+1x2"),
            expires=0.0,
            nodes={n: NodeAccess(address=f"10.0.0.{i}") for i, n in enumerate(TRIO)},
            environment={
                "server": {"MPI": "pure"},
                **{f"c{i}n0": {"MPI": vendor} for i, vendor in enumerate(vendors)},
            },
            images={name: f"sha256:{name}" for name in (*vendors, "base")},
        )
        self.asked: list[tuple[str, list[str]]] = []
        self.left: list[str] = []
        self.closed = False

    def renamed(self, node, name):
        return OneNode(name, self.access.nodes[node].address)

    def network_among(self, nodes):
        return dict(nodes)

    def software_of(self, access, server, clients):
        return dict(access.images)

    def begin_capture(self, only=()):
        self.asked.append(("begin", sorted(only)))

    def end_capture(self, only=()):
        self.asked.append(("end", sorted(only)))
        return [
            Capture(node=n, pcap=n.encode(), dropped=0, canaries=(b"", b""))
            for n in only
        ]

    def stacks(self, pids):
        return Stacks(frames={node: {1: ("main",)} for node in pids})

    def residue(self, known=(), only=()):
        return [
            line
            for line in self.left
            if line not in known and line.partition(":")[0] in only
        ]

    def hold(self):
        raise AssertionError("a part is never given away")

    def close(self):
        self.closed = True


@pytest.fixture
def whole() -> Whole:
    return Whole()


def part(whole: Whole, left: set[str], nodes=NODES, vendors=("openmpi", "pure")):
    return LabPart(cast(SharedLab, whole), vendors, PAIR, nodes, left)


def test_its_nodes_have_the_cells_names_and_their_own_addresses(whole):
    found = part(whole, set())
    clients = [(n.name, n.address) for nodes in found.clients for n in nodes]
    assert clients == [("c0n0", "10.0.0.3"), ("c1n0", "10.0.0.1")]
    assert found.server.address == "10.0.0.0"
    assert {n: a.address for n, a in found.access.nodes.items()} == {
        "server": "10.0.0.0",
        **dict(clients),
    }


def test_each_node_has_the_variables_of_its_vendor(whole):
    environment = part(whole, set()).access.environment
    assert {name: each["MPI"] for name, each in environment.items()} == {
        "server": "openmpi",
        "c0n0": "openmpi",
        "c1n0": "pure",
    }


def test_records_have_no_vendor_that_took_no_part(whole):
    found = part(whole, set())
    assert found.access.vendors == ("openmpi", "pure")
    assert sorted(found.access.images) == ["base", "openmpi", "pure"]
    assert sorted(found.software) == ["base", "openmpi", "pure"]


def test_only_its_nodes_are_captured_by_the_cells_names(whole):
    found = part(whole, set())
    found.begin_capture()
    captures = {each.node: each.pcap for each in found.end_capture()}
    assert captures == {"server": b"server", "c0n0": b"c2n0", "c1n0": b"c0n0"}
    assert whole.asked == [
        (what, ["c0n0", "c2n0", "server"]) for what in ("begin", "end")
    ]


def test_stacks_are_of_the_nodes_behind_the_names(whole):
    frames = part(whole, set()).stacks({"c0n0": [1]}).frames
    assert frames == {"c0n0": {1: ("main",)}}


def test_leftovers_are_told_by_the_cells_names(whole):
    whole.left = ["c2n0: process 7", "c1n0: process 8"]
    assert part(whole, set()).residue() == ["c0n0: process 7"]


def test_a_file_of_an_earlier_cell_is_none_of_a_later_cell_in_another_part(whole):
    left: set[str] = set()
    first, other = (
        part(whole, left),
        part(
            whole, left, {**NODES, "c0n0": "c0n0", "c1n0": "c2n0"}, ("pure", "openmpi")
        ),
    )
    whole.left = ["c2n0: file /tmp/x", "c2n0: process 7"]
    assert first.residue() == ["c0n0: file /tmp/x", "c0n0: process 7"]
    # A process that is still there is a finding again.
    assert other.residue() == ["c1n0: process 7"]


def test_a_part_closes_nothing(whole):
    part(whole, set()).close()
    assert not whole.closed


def test_a_lab_without_the_nodes_has_no_such_part(whole):
    with pytest.raises(KeyError):
        part(whole, set(), {**NODES, "c1n0": "c7n0"})
