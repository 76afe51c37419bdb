"""Topologies: the number of nodes of each client, and of procs on each node.

A token such as ``2x2+1x4`` means client 0 with 2 nodes of 2 procs, client 1 with one node of 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from impi.base.errors import UsageError

_MAX_CLIENTS = 32
_CLIENT = re.compile(r"([1-9][0-9]{0,2})x([1-9][0-9]{0,2})")


@dataclass(frozen=True, slots=True)
class ClientShape:
    """One client: ``nodes`` machines with ``procs_per_node`` procs each."""

    nodes: int
    procs_per_node: int

    @property
    def np(self) -> int:
        return self.nodes * self.procs_per_node


@dataclass(frozen=True, slots=True)
class Topology:
    """The shapes of all clients, in client order."""

    clients: tuple[ClientShape, ...]

    def __post_init__(self) -> None:
        """Raise UsageError: there are more clients than IMPI allows."""
        if len(self.clients) > _MAX_CLIENTS:
            raise UsageError(
                f"topology {str(self)!r} has {len(self.clients)} clients; IMPI allows {_MAX_CLIENTS} (2.3.5)"
            )

    def __str__(self) -> str:
        return "+".join(f"{c.nodes}x{c.procs_per_node}" for c in self.clients)

    @property
    def np(self) -> int:
        return sum(c.np for c in self.clients)

    def check(self, vendors: Sequence[str]) -> None:
        """Raise UsageError: the number of vendors is not that of clients."""
        if len(vendors) != len(self.clients):
            raise UsageError(
                f"{len(vendors)} vendors do not fit the {len(self.clients)} clients of {self}"
            )


def parse_topology(token: str) -> Topology:
    """Return the topology of a token such as ``2x2+1x4``. UsageError names its fault."""
    shapes = []
    for part in token.split("+"):
        match = _CLIENT.fullmatch(part)
        if match is None:
            raise UsageError(
                f"topology {token!r}: {part!r} is not NODESxPROCS; write a client with 2 nodes of 4 procs as 2x4"
            )

        shapes.append(ClientShape(int(match[1]), int(match[2])))

    return Topology(tuple(shapes))
