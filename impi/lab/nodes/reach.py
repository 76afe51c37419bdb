"""The connections that a lab permits, and their gateways, by ``reach=...`` of a variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from impi.base.errors import LabError
from impi.lab.nodes.links import Direction, between_parties, party_of

REACHES: Final[Mapping[str, str]] = {
    "heads": "only the first node of a client reaches other clients and the server",
    "outward": "the last client accepts no connection from others, as behind a firewall",
    "relay": "no client accepts a connection from others; the relay runs on the server's node",
    "ports": "nodes take connections of others at a hundred ports only (--ports 20000-20099)",
    "port": "nodes take connections of others at one port only (--ports 20000)",
    "routed": "the first node of a client routes for its other nodes, which reach other clients through it",
    "nat": "the first node of the last client translates addresses: its other nodes appear with its own address",
}
"""The names of all ways to reach each other."""
PORTS: Final[Mapping[str, str]] = {"ports": "20000-20099", "port": "20000"}
"""The range of open ports, for the ways that close all others."""


_SECONDS: Final = "198.18.77.0/24"  # a network reserved for tests of devices (RFC 2544)
_SECOND_OF_ALL: Final = "127.0.0.1/32"


def second_network(address: str) -> str:
    """Return the network of a node's second address, whose first one is ``address``.

    Nodes on loopback share one machine, and so its own loopback address.
    """
    return _SECOND_OF_ALL if is_loopback(address) else _SECONDS


def is_loopback(address: str) -> bool:
    """Whether an address is one of those that all nodes of a machine share."""
    return address.startswith("127.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The closed directions, and those through another node."""

    # directions by their refusal: see ``_REFUSALS`` of ``programs/link_queue.py``
    closed: Mapping[str, Sequence[Direction]]
    # the gateway of each direction that has one
    via: Mapping[Direction, str] = field(default_factory=dict)
    # Nodes behind a gateway whose address stands for theirs
    translated: tuple[str, ...] = ()

    @property
    def gateways(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for (source, _), gateway in self.via.items():
            if party_of(source) == party_of(gateway) and source not in found.setdefault(
                gateway, []
            ):
                found[gateway].append(source)

        return found


def reach_of(name: str, nodes: Sequence[str]) -> Reach:
    """Return the meaning of such a name; ``nodes``: all nodes of the lab.

    Raises:
        LabError: it means nothing, because the client has no second node.
    """

    apart, last = between_parties(nodes), party_of(nodes[-1])
    if name == "outward":
        return Reach(closed={"syn": [(a, b) for a, b in apart if party_of(b) == last]})

    if name == "relay":
        return Reach(closed={"syn": [(a, b) for a, b in apart if b != "server"]})

    if name in PORTS:
        return Reach(closed={name: apart})

    inner = [node for node in nodes if node != "server" and not node.endswith("n0")]

    inner = [node for node in inner if name != "nat" or party_of(node) == last]
    if not inner:
        raise LabError(f"reach={name} needs a client of several nodes, such as 2x2+2x2")

    return {"heads": _by_nobody, "routed": _by_heads, "nat": _by_another_address}[name](
        inner, apart
    )


def _by_nobody(inner: Sequence[str], apart: Sequence[Direction]) -> Reach:
    return Reach(
        closed={"drop": [(a, b) for a, b in apart if a in inner or b in inner]}
    )


def _by_heads(inner: Sequence[str], apart: Sequence[Direction]) -> Reach:
    outwards = {(a, b): head_of(a) for a, b in apart if a in inner}
    inwards = {(a, b): head_of(b) for a, b in apart if b in inner and a not in inner}
    return Reach(closed={"direct": [*outwards, *inwards]}, via={**outwards, **inwards})


def _by_another_address(inner: Sequence[str], apart: Sequence[Direction]) -> Reach:
    outwards = {(a, b): head_of(a) for a, b in apart if a in inner}
    closed = {"drop": list(outwards), "direct": [(b, a) for a, b in outwards]}
    return Reach(closed=closed, via=outwards, translated=tuple(inner))


def head_of(node: str) -> str:
    """Return the first node of a node's client."""
    return f"{party_of(node)}n0"
