"""Clauses of IMPI 0.0 that cross the wire, and the items and cases that fail if one is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from impi.lab.cases import CASES


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of chapters 1 to 4."""

    number: str
    about: str
    items: tuple[str, ...] = ()  # items of evidence that examine it in every cell

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(
            case.name for case in CASES.values() if self.number in case.clauses
        )


CLAUSES: Final = (
    Clause("1.2.2", "user data is external32", ("traffic.payload",)),
    Clause("2.2.1", "the server prints where it listens", ("start.server",)),
    Clause("2.3.2", "form of a command", ("traffic.protocol",)),
    Clause("2.3.3", "authentication", ("start.auth", "end.secret")),
    Clause(
        "2.3.4", "the clients' ranks and their number", ("start.reach", "placement")
    ),
    Clause(
        "2.3.5",
        "labels, and the values that follow",
        ("start.reach", "start.address", "identity.pid"),
    ),
    Clause("2.3.6", "DONE", ("start.reach",)),
    Clause("2.3.7", "FINI to the server", ("end.fini", "end.status")),
    Clause("2.3.8", "channels between hosts", ("start.mesh", "start.address")),
    Clause("2.4", "MPI_Finalize and its barrier", ("traffic.crossing", "end.fini")),
    Clause("2.5", "attributes of clients and hosts"),
    Clause("3.2", "names of procs in packets", ("traffic.protocol", "identity.pid")),
    Clause(
        "3.3", "context ids of MPI_COMM_WORLD", ("traffic.extra", "traffic.crossing")
    ),
    Clause("3.4", "tags up to the agreed bound", ("traffic.protocol", "traffic.extra")),
    Clause("3.5", "form of a packet", ("traffic.protocol", "traffic.header")),
    Clause("3.6", "credit, PROTOACK", ("traffic.protocol",)),
    Clause(
        "3.7.1",
        "short and synchronous messages",
        ("traffic.protocol", "traffic.crossing"),
    ),
    Clause("3.7.2", "long messages", ("traffic.protocol", "traffic.crossing")),
    Clause("3.7.3", "probes and wildcards"),
    Clause("3.7.4", "cancelling a send", ("traffic.protocol",)),
    Clause("3.8", "FINI on channels", ("end.fini", "traffic.protocol")),
    Clause("4.1", "messages as in chapter 4", ("traffic.payload",)),
    Clause("4.3", "context ids of communicators", ("traffic.extra",)),
    Clause("4.3.1", "the next context id", ("traffic.extra", "traffic.crossing")),
    Clause("4.4", "Comm_create"),
    Clause("4.5", "Comm_free"),
    Clause("4.6", "Comm_dup"),
    Clause("4.7", "Comm_split"),
    Clause("4.8", "Intercomm_create"),
    Clause("4.9", "Intercomm_merge"),
    Clause("4.10", "Barrier", ("traffic.crossing",)),
    Clause("4.11", "Bcast"),
    Clause("4.12", "Gather"),
    Clause("4.13", "Gatherv"),
    Clause("4.14", "Scatter"),
    Clause("4.15", "Scatterv"),
    Clause("4.16", "Reduce"),
    Clause("4.17", "Reduce_scatter"),
    Clause("4.18", "Scan"),
    Clause("4.19", "Allgather"),
    Clause("4.20", "Allgatherv"),
    Clause("4.21", "Allreduce"),
    Clause("4.22", "Alltoall"),
    Clause("4.23", "Alltoallv"),
    Clause("4.24", "Finalize, as a collective", ("traffic.crossing",)),
    Clause("4.25", "tags of collectives", ("traffic.extra", "traffic.crossing")),
)
"""All clauses, in the order of the specification."""

SILENT: Final = {
    **dict.fromkeys(("2.1", "2.2", "2.2.2", "2.2.3", "2.2.4"), "the start of programs"),
    **dict.fromkeys(("2.3", "3.7"), "a heading; its parts are listed above"),
    "2.3.1": "facts that the server does not need",
    "3.1": "permission to share a channel; the variants with --hosts test it",
    "3.9": "ranges of the values that 2.3.5 negotiates",
}
"""Clauses of chapters 2 and 3 that put nothing on the wire, with the reason."""


def table() -> Iterator[str]:
    """Return a line for each clause: its subject, the items of every cell, the cases."""
    for clause in CLAUSES:
        items = ", ".join(clause.items)
        cases = ", ".join(clause.cases)
        sides = [
            f"every cell: {items}" if items else "",
            f"cases: {cases}" if cases else "",
        ]
        yield f"{clause.number:<6} {clause.about:<40} {'; '.join(filter(None, sides))}"
