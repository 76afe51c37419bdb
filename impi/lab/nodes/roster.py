"""The planned ranks of a topology and their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from impi.base.manifests import manifest
from impi.lab.nodes.parties import is_remote
from impi.lab.nodes.topology import Topology


@dataclass(frozen=True, slots=True)
class PlannedRank:
    """One planned rank of MPI_COMM_WORLD."""

    rank: int
    client: int
    node: str
    vendor: str


@dataclass(frozen=True, slots=True)
class Roster:
    """All ranks; ascending clients, in each its nodes, on each its procs (IMPI 2.3.5)."""

    ranks: tuple[PlannedRank, ...]

    @classmethod
    def of(cls, topology: Topology, vendors: Sequence[str]) -> Roster:
        places = [
            (client, f"c{client}n{node}", vendor)
            for client, (shape, vendor) in enumerate(
                zip(topology.clients, vendors, strict=True)
            )
            for node in range(shape.nodes)
            for _ in range(shape.procs_per_node)
        ]
        return cls(
            tuple(PlannedRank(rank, *place) for rank, place in enumerate(places))
        )

    @property
    def near(self) -> list[PlannedRank]:
        return [planned for planned in self.ranks if not is_remote(planned.vendor)]

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def nclients(self) -> int:
        return self.ranks[-1].client + 1

    def client(self, rank: int) -> int:
        return self.ranks[rank].client

    def of_client(self, client: int) -> list[int]:
        return [r.rank for r in self.ranks if r.client == client]

    def vendor(self, client: int) -> str:
        return self.ranks[self.of_client(client)[0]].vendor

    def on_node(self, node: str) -> list[int]:
        return [r.rank for r in self.ranks if r.node == node]

    def hosts(self, of: str) -> list[int]:
        """Return each rank's host number; each ``proc``, ``node`` or ``client`` has its own host.

        An MPI that speaks IMPI itself has one for each client.
        """

        owners = []
        for planned in self.ranks:
            each = of if manifest(planned.vendor).kind == "backed" else "client"
            owner = {
                "proc": f"rank {planned.rank}",
                "node": planned.node,
                "client": f"client {planned.client}",
            }
            owners.append(owner[each])

        order = list(dict.fromkeys(owners))

        return [order.index(owner) for owner in owners]

    def masters(self) -> list[int]:
        return [self.of_client(c)[0] for c in range(self.nclients)]

    def remote(self, one: int, other: int) -> bool:
        return self.client(one) != self.client(other)

    def label(self, rank: int) -> str:
        """Return a rank in words: ``client 1 (openmpi) rank 3 on c1n0``."""
        planned = self.ranks[rank]
        return (
            f"client {planned.client} ({planned.vendor}) rank {rank} on {planned.node}"
        )
