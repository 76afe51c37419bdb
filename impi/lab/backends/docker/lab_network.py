"""A lab's network: a free subnet of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError
from docker.models.networks import Network
from docker.types import IPAMConfig, IPAMPool

from impi.base.errors import LabError
from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.docker.subnet_pool import free_subnets, host_routes

_NEIGHBOURS: Final = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")


def make_network(
    client: docker.DockerClient,
    lab: str,
    labels: Mapping[str, str],
    pool: IPv4Network,
    nodes: int,
    *,
    six: bool = False,
) -> tuple[Network, IPv4Network]:
    """Make a network with room for the nodes; return it with its subnet. LabError: none is free.

    With ``six`` it has the subnet :func:`six_of`, too.
    """
    with engine_fault("the engine's networks cannot be listed"):
        taken = [*host_routes(), *network_subnets(client)]

    for subnet in free_subnets(pool, nodes, taken):
        pools = [IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))]

        pools += [IPAMPool(subnet=str(six_of(subnet)))] if six else []
        try:
            network = client.networks.create(
                f"impilab-{lab}",
                driver="bridge",
                ipam=IPAMConfig(pool_configs=pools),
                labels=dict(labels),
                enable_ipv6=six,
            )
        except APIError as error:
            # Another lab was faster: take the next subnet.
            if "overlap" in str(error).lower():
                continue

            raise LabError(f"lab {lab}: no network {subnet}: {error}") from error

        return network, subnet

    raise LabError(
        f"no free subnet is left in the pool {pool}: impilab clean, or set IMPILAB_POOL"
    )


def six_of(subnet: IPv4Network) -> IPv6Network:
    """Return the private IPv6 subnet that belongs to an IPv4 subnet, and to no other."""
    number = int(subnet.network_address)
    return IPv6Network(f"fd69:6d70:{number >> 16:x}:{number & 0xFFFF:x}::/64")


def neighbours_short(nodes: int, limit: Path = _NEIGHBOURS) -> str:
    """Return why a job of ``nodes`` nodes, all connected, cannot run here; empty: it can.

    The kernel has one neighbour table for all containers; when full, there is "no route to host".
    """

    try:
        most = int(limit.read_text("ascii"))
    except (OSError, ValueError):
        return ""  # another system, or an engine elsewhere

    needed = (nodes + 1) * nodes
    if needed <= most:
        return ""

    cure = f"sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * needed}"

    return f"{nodes} nodes need {needed} neighbours, and this machine's kernel keeps {most} ({cure} as root)"


def network_subnets(client: docker.DockerClient) -> list[IPv4Network]:
    """Return the IPv4 subnets of all networks of the engine."""
    found = [
        (network.attrs.get("IPAM") or {}).get("Config") or ()
        for network in client.networks.list()
    ]
    subnets = [config.get("Subnet", "") for configs in found for config in configs]

    return [IPv4Network(subnet) for subnet in subnets if "." in subnet]


def gateway(network: Network | None) -> str:
    """Return the engine's own IPv4 address in the network. LabError: it has none."""
    for config in network.attrs["IPAM"]["Config"] if network is not None else []:
        if "." in config.get("Gateway", ""):
            return str(config["Gateway"])

    raise LabError("the lab's network has no gateway")
