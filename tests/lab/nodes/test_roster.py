"""The planned ranks: by client, by node, and by host."""

from __future__ import annotations

import pytest

from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("2x2+1x1"), ["mpich", "pure"])


def test_ranks_ascend_by_client_and_node() -> None:
    assert [
        (planned.rank, planned.client, planned.node) for planned in ROSTER.ranks
    ] == [
        (0, 0, "c0n0"),
        (1, 0, "c0n0"),
        (2, 0, "c0n1"),
        (3, 0, "c0n1"),
        (4, 1, "c1n0"),
    ]
    assert (ROSTER.size, ROSTER.nclients, ROSTER.masters()) == (5, 2, [0, 4])
    assert (ROSTER.of_client(0), ROSTER.on_node("c0n1"), ROSTER.on_node("server")) == (
        [0, 1, 2, 3],
        [2, 3],
        [],
    )
    assert (ROSTER.vendor(1), ROSTER.label(2)) == (
        "pure",
        "client 0 (mpich) rank 2 on c0n1",
    )


def test_messages_cross_between_clients_alone() -> None:
    assert [ROSTER.remote(0, other) for other in range(1, 5)] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("of", "hosts"),
    [("proc", [0, 1, 2, 3, 4]), ("node", [0, 0, 1, 1, 2]), ("client", [0, 0, 0, 0, 1])],
)
def test_hosts_are_of_procs_nodes_or_clients(of: str, hosts: list[int]) -> None:
    assert ROSTER.hosts(of) == hosts


def test_an_mpi_that_speaks_impi_has_one_host_for_each_client() -> None:
    assert Roster.of(parse_topology("1x2+1x2"), ["lam", "pure"]).hosts("proc") == [
        0,
        0,
        1,
        2,
    ]


def test_nobody_sees_the_ranks_of_a_remote_party() -> None:
    roster = Roster.of(parse_topology("1x1+1x2"), ["pure", "remote"])
    assert [planned.rank for planned in roster.near] == [0]
