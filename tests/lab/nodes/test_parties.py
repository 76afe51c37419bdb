"""Parties: the vendor of each client, and the nodes that it has."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.base.manifests import vendors
from impi.lab.nodes.parties import (
    KNOWN_DEVIATIONS,
    core_vendors,
    deviations,
    is_remote,
    node_names,
    node_prefix,
    parse_parties,
)
from impi.lab.nodes.topology import parse_topology


def test_parties_are_vendors_in_client_order() -> None:
    assert parse_parties("mpich+openmpi@4.1+pure") == ("mpich", "openmpi@4.1", "pure")
    with pytest.raises(
        UsageError, match=r"^parties 'mpich\+lamb': there is no vendor 'lamb'"
    ):
        parse_parties("mpich+lamb")


def test_a_remote_party_has_no_node_of_the_lab() -> None:
    assert node_names(parse_topology("2x2+1x1+1x4"), ["mpich", "remote", "pure"]) == [
        ["c0n0", "c0n1"],
        [],
        ["c2n0"],
    ]
    assert [vendor for vendor in ("pure", "remote", "lam") if is_remote(vendor)] == [
        "remote"
    ]


def test_versions_of_a_vendor_have_one_place() -> None:
    assert node_prefix("openmpi@4.1") == node_prefix("openmpi") == "/opt/mpi/openmpi"


def test_every_deviation_of_a_vendor_is_known_and_each_known_one_is_of_some_vendor() -> (
    None
):
    found = {deviation for vendor in vendors() for deviation in deviations(vendor.name)}
    assert found == KNOWN_DEVIATIONS.keys()


def test_the_default_tier_has_the_three_of_the_project() -> None:
    assert core_vendors() == ("pure", "mpich", "openmpi")
