"""Subnets for labs from a configurable pool: the engine's defaults end at about thirty networks."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError

DEFAULT_POOL: Final = "10.213.0.0/16"
_SMALLEST: Final = 26  # a prefix length: 61 nodes
_RESERVED: Final = 3  # network, gateway, broadcast

Network = ipaddress.IPv4Network


def pool_from_environment() -> Network:
    """Return the pool of ``IMPILAB_POOL``, or :data:`DEFAULT_POOL`. UsageError: no IPv4 network."""

    text = os.environ.get("IMPILAB_POOL", DEFAULT_POOL)
    try:
        pool = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise UsageError(
            f"IMPILAB_POOL={text!r} is not an IPv4 network ({error}); write one such as {DEFAULT_POOL}"
        ) from error

    if pool.prefixlen > _SMALLEST:
        raise UsageError(
            f"IMPILAB_POOL={text!r} is too small; a lab needs a /{_SMALLEST}"
        )

    return pool


def host_routes(table: bytes | None = None) -> list[Network]:
    """Return this machine's routes but the default one, from the text of ``/proc/net/route``."""

    if table is None:
        try:
            table = Path("/proc/net/route").read_bytes()
        except OSError:
            return []

    found = []
    # Octets: an interface may be named in any encoding.
    for line in table.split(b"\n")[1:-1]:
        fields = line.split()
        # The kernel prints the number as it lies in memory.
        destination, mask = (
            socket.inet_ntoa(struct.pack("=L", int(fields[i], 16))) for i in (1, 7)
        )

        network = ipaddress.IPv4Network(f"{destination}/{mask}")
        if network.prefixlen:
            found.append(network)

    return found


def free_subnets(
    pool: Network, nodes: int, taken: Iterable[Network]
) -> Iterator[Network]:
    """Return subnets of the pool with room for the nodes, apart from ``taken``, lowest first.

    Another lab may take one in the same moment: then ask for the next.
    """

    prefix = min(_SMALLEST, 32 - (nodes + _RESERVED - 1).bit_length())
    if prefix < pool.prefixlen:
        raise UsageError(
            f"{nodes} nodes do not fit into the pool {pool}; set IMPILAB_POOL to a larger one"
        )

    used = list(taken)
    for subnet in pool.subnets(new_prefix=prefix):
        if not any(subnet.overlaps(other) for other in used):
            yield subnet
