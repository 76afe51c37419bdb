"""Parties: which vendor each client of a lab runs, in client order (``mpich+openmpi@4.1``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impi.base.errors import UsageError
from impi.base.manifests import manifest, vendors
from impi.lab.nodes.topology import Topology

KNOWN_DEVIATIONS: Final[Mapping[str, str]] = {
    "owed-protoack": "packets stay unacknowledged at the end (IMPI 3.6)",
    "no-count": "pk_count is 0 in every packet (IMPI 3.5)",
    "world-lsrank": "pk_lsrank is the rank in MPI_COMM_WORLD (IMPI 3.5)",
    "any-address": "its host listens on all addresses of its node, not on the one it names (IMPI 2.3.5)",
    "native-data": "user data is in the sender's own form, not external32 (IMPI 1.2.2)",
    "reduce-on-p2p": "messages of Reduce have the point-to-point context (IMPI 4.3)",
}
"""Deviations from IMPI 0.0 that a manifest may declare, without failing each cell of the vendor."""


def deviations(vendor: str) -> frozenset[str]:
    """Return the known deviations of ``NAME`` or ``NAME@VERSION``, from its manifest."""
    return frozenset(manifest(vendor).deviations)


def parse_parties(text: str) -> tuple[str, ...]:
    """Return ``mpich+openmpi@4.1`` as a tuple.

    Raises:
        UsageError: a vendor or its version does not exist.
    """
    parties = tuple(text.split("+"))
    for vendor in parties:
        try:
            manifest(vendor)
        except UsageError as error:
            raise UsageError(f"parties {text!r}: {error.message}") from None

    return parties


def core_vendors() -> tuple[str, ...]:
    """Return the names of the vendors of the default tier."""
    return tuple(each.name for each in vendors("core"))


def is_remote(vendor: str) -> bool:
    """Whether somebody else starts the party, on a machine that the lab does not see."""
    return manifest(vendor).kind == "remote"


def node_names(topology: Topology, parties: Sequence[str]) -> list[list[str]]:
    """Return the names of the lab's nodes, ``c{i}n{j}``, by client; a remote party has no nodes."""
    clients = enumerate(zip(topology.clients, parties, strict=True))
    return [
        [] if is_remote(vendor) else [f"c{i}n{j}" for j in range(shape.nodes)]
        for i, (shape, vendor) in clients
    ]


def node_prefix(vendor: str) -> str:
    """Return the folder of a vendor's library on a node of its usual image."""
    return f"/opt/mpi/{manifest(vendor).name}"
