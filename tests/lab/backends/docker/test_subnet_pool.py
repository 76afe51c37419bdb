"""Subnets for labs."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import islice

import pytest

from impi.base.errors import UsageError
from impi.lab.backends.docker.subnet_pool import (
    free_subnets,
    host_routes,
    pool_from_environment,
)

POOL = IPv4Network("10.213.0.0/16")

ROUTES = b"""Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
br-1\t4000D50A\t00000000\t0001\t0\t0\t0\tC0FFFFFF\t0\t0\t0
"""


def first(count: int, nodes: int, taken: list[str]) -> list[str]:
    return [
        str(n)
        for n in islice(
            free_subnets(POOL, nodes, [IPv4Network(t) for t in taken]), count
        )
    ]


def test_lowest_first() -> None:
    assert first(3, 5, []) == ["10.213.0.0/26", "10.213.0.64/26", "10.213.0.128/26"]


def test_skips_whatever_overlaps() -> None:
    # Larger, smaller and equal ones; and one that is not of the pool.
    taken = ["10.213.0.0/25", "10.213.0.130/31", "10.213.0.192/26", "192.168.0.0/16"]
    assert first(1, 5, taken) == ["10.213.1.0/26"]


def test_a_pool_inside_somebody_elses_network_has_nothing_free() -> None:
    assert first(1, 5, ["10.0.0.0/8"]) == []


@pytest.mark.parametrize(
    ("nodes", "prefix"), [(1, 26), (61, 26), (62, 25), (125, 25), (126, 24), (200, 24)]
)
def test_large_labs_get_large_subnets(nodes: int, prefix: int) -> None:
    subnet = next(free_subnets(POOL, nodes, []))
    assert subnet.prefixlen == prefix
    assert subnet.num_addresses - 3 >= nodes  # network, gateway, broadcast


def test_too_many_nodes_for_the_pool_is_said() -> None:
    with pytest.raises(UsageError, match="IMPILAB_POOL"):
        next(free_subnets(IPv4Network("10.1.0.0/26"), 62, []))


def test_routes_of_the_host_count_but_the_default_does_not() -> None:
    assert host_routes(ROUTES) == [
        IPv4Network("172.17.0.0/16"),
        IPv4Network("10.213.0.64/26"),
    ]


@pytest.mark.parametrize(
    "name", ["büro".encode("latin-1"), "büro".encode(), b"a\x85b", b"a\x1cb"]
)
def test_an_interface_may_have_any_name(name: bytes) -> None:
    assert host_routes(ROUTES.replace(b"br-1", name)) == host_routes(ROUTES)


def test_this_machine_has_a_table() -> None:
    assert all(network.prefixlen for network in host_routes())


def test_the_pool_is_configurable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMPILAB_POOL", raising=False)
    assert pool_from_environment() == POOL
    monkeypatch.setenv("IMPILAB_POOL", "192.168.128.0/20")
    assert pool_from_environment() == IPv4Network("192.168.128.0/20")


@pytest.mark.parametrize(
    "text", ["", "ten", "10.213.0.1/16", "fd00::/64", "10.1.0.0/27"]
)
def test_a_bad_pool_is_the_users_mistake(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("IMPILAB_POOL", text)
    with pytest.raises(UsageError, match="IMPILAB_POOL"):
        pool_from_environment()
