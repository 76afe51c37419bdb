"""Topologies: written, read, and refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.lab.nodes.topology import ClientShape, Topology, parse_topology

SHAPES = st.builds(ClientShape, st.integers(1, 999), st.integers(1, 999))


@given(st.lists(SHAPES, min_size=1, max_size=32))
def test_a_topology_is_read_as_it_is_written(clients: list[ClientShape]) -> None:
    topology = Topology(tuple(clients))
    assert parse_topology(str(topology)) == topology
    assert topology.np == sum(
        client.nodes * client.procs_per_node for client in clients
    )


@pytest.mark.parametrize(
    "token", ["", "2", "2x", "x2", "0x1", "1x0", "2x2+", "1x1 + 1x1", "1000x1", "-1x1"]
)
def test_what_is_none_is_refused_by_its_part(token: str) -> None:
    with pytest.raises(UsageError, match="is not NODESxPROCS"):
        parse_topology(token)


def test_impi_has_a_limit_of_clients() -> None:
    with pytest.raises(UsageError, match=r"has 33 clients; IMPI allows 32 \(2.3.5\)"):
        parse_topology("+".join(["1x1"] * 33))


def test_each_client_has_one_vendor() -> None:
    parse_topology("1x1+2x2").check(["pure", "mpich"])
    with pytest.raises(
        UsageError, match=r"1 vendors do not fit the 2 clients of 1x1\+2x2"
    ):
        parse_topology("1x1+2x2").check(["pure"])
