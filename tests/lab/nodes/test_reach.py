"""The connections that a lab permits, and their gateways."""

from __future__ import annotations

import pytest

from impi.base.errors import LabError
from impi.lab.nodes.reach import reach_of

NODES = ["server", "c0n0", "c0n1", "c1n0", "c1n1"]


def test_heads_reach_others_and_inner_nodes_do_not():
    directions = reach_of("heads", NODES).closed["drop"]
    assert ("c0n1", "server") in directions
    assert ("c0n0", "c1n1") in directions
    assert ("c0n0", "c1n0") not in directions
    assert ("c0n0", "c0n1") not in directions
    with pytest.raises(LabError, match="reach=heads needs a client of several nodes"):
        reach_of("heads", ["server", "c0n0", "c1n0"])


def test_inner_nodes_reach_others_through_the_head_of_their_client():
    reach = reach_of("routed", NODES)
    assert reach.gateways == {"c0n0": ["c0n1"], "c1n0": ["c1n1"]}
    assert (reach.via["c0n1", "c1n1"], reach.via["c1n1", "c0n1"]) == ("c0n0", "c1n0")
    assert (reach.via["server", "c0n1"], reach.via["c0n0", "c1n1"]) == ("c0n0", "c1n0")
    assert ("c0n0", "c1n0") not in reach.via
    assert set(reach.closed["direct"]) == set(reach.via)


def test_behind_nat_only_the_last_client_sends_through_its_head_and_nobody_sends_to_it():
    reach = reach_of("nat", NODES)
    assert (reach.gateways, reach.translated) == ({"c1n0": ["c1n1"]}, ("c1n1",))
    assert {source for source, _ in reach.via} == {"c1n1"}
    assert {source for source, _ in reach.closed["drop"]} == {"c1n1"}
    assert {target for _, target in reach.closed["direct"]} == {"c1n1"}


def test_nobody_connects_to_the_last_client_behind_nat():
    directions = reach_of("outward", NODES).closed["syn"]
    assert {target for _, target in directions} == {"c1n0", "c1n1"}
    assert {source for source, _ in directions} == {"server", "c0n0", "c0n1"}


def test_nobody_connects_to_any_client_that_has_a_relay():
    directions = reach_of("relay", NODES).closed["syn"]
    assert {target for _, target in directions} == {"c0n0", "c0n1", "c1n0", "c1n1"}
    assert ("server", "c0n0") in directions
    assert ("c0n0", "server") not in directions
    assert ("c0n0", "c0n1") not in directions


@pytest.mark.parametrize("name", ["ports", "port"])
def test_at_other_ports_nobody_connects_to_another_party(name):
    directions = reach_of(name, NODES).closed[name]
    assert {target for _, target in directions} == set(NODES)
    assert ("c0n0", "c0n1") not in directions
