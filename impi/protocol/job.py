"""The immutable facts of one job, negotiated during start-up (IMPI 2.3.5): members and limits.

Ranks in MPI_COMM_WORLD follow clients in ascending number, inside a client its hosts in order,
inside a host its procs in order (IMPI 2.3.5); so the position of a proc in :attr:`Job.procs` *is*
its rank.
"""

from __future__ import annotations

import json
from typing import Final

from impi.base.records import record, replaced, values_of
from impi.protocol.decisions import Decisions

STRICT_VERSION: Final = (0, 0)
"""IMPI 0.0, which every client supports."""

LONG8_VERSION: Final = (0x494C4142, 1)
"""Our own version ("ILAB", 1): IMPI 0.0 with 8-byte longs. In force if every client offers it."""

TUNED_VERSION: Final = (0x494C4142, 2)
"""Our next version ("ILAB", 2): that, and clients that take a table of decisions."""

RESILIENT_VERSION: Final = (0x494C4142, 3)
"""Our version ("ILAB", 3): that, and the job survives the loss of a client; by --resilient only."""

LAZY_VERSION: Final = (0x494C4142, 4)
"""Our version ("ILAB", 4): 2, and two hosts connect when the first message needs it; by --lazy."""

REPRODUCIBLE: Final = "reduce=reproducible"
"""Reductions whose bits do not depend on the clients; only between clients of ours."""

ALTERNATIVES: Final = (
    "scatter=masters",
    "allgatherv=gathervs",
    "alltoall=masters",
    REPRODUCIBLE,
)
"""Readings of chapter 4's lost text, and additions to it: in force only if every client chooses."""

DATALEN: Final = 256 * 1024
ACKMARK: Final = 32
HIWATER: Final = 64
"""A client's offer if its user says nothing else (:class:`impi.protocol.options.Offer`)."""


@record(kw_only=True)
class Host:
    """An agent that owns the TCP channels of some procs (IMPI 1, 2.3.5)."""

    index: int
    """Global host rank: the order of the H labels, over all clients."""
    client: int
    ipv6: bytes
    """The 16-byte address it listens on; IPv4 is embedded (IMPI 1.2.3)."""
    port: int
    procs: tuple[int, ...]
    """The ranks in MPI_COMM_WORLD of its procs."""


@record(kw_only=True)
class Proc:
    """An MPI process; ``(ipv6, pid)`` names it on the wire (IMPI 3.2)."""

    rank: int
    client: int
    host: int
    """Global host rank of its host."""
    ipv6: bytes
    pid: int


@record(kw_only=True)
class Job:
    """The facts of one job. :mod:`impi.protocol.startup` builds it, everything else reads it."""

    version: tuple[int, int]
    nclients: int
    hosts: tuple[Host, ...]
    procs: tuple[Proc, ...]
    maxdatalen: int
    """Most octets of user data in one packet: the minimum over the clients."""
    tag_ub: int
    xsize: int
    """Octets from which a collective is "long" (IMPI 2.3.5)."""
    maxlinear: int
    """Most masters for which a collective is linear."""
    ackmark: int
    hiwater: int
    verify: int = 0
    """Level of the verification of collectives (IMPI_VERIFY): 0 is none."""

    collectives: tuple[str, ...] = ()
    """The choices of all clients from :data:`ALTERNATIVES`."""
    decisions: Decisions | None = None
    """The algorithms of collectives where not those of chapter 4; None: those everywhere."""
    native: bool = False
    """Whether user data between clients stays in memory form, instead of external32 (1.2.2)."""
    software: tuple[tuple[int, ...], ...] = ()
    """Major and minor version of Python and of numpy, for each client; empty: not known."""

    @property
    def is_ours(self) -> bool:
        """Whether a version of our own is in force: every client is ours."""
        return self.version in (
            LONG8_VERSION,
            TUNED_VERSION,
            RESILIENT_VERSION,
            LAZY_VERSION,
        )

    @property
    def is_resilient(self) -> bool:
        """Whether the job goes on without a client, or proc, that is lost."""
        return self.version == RESILIENT_VERSION

    @property
    def is_lazy(self) -> bool:
        """Whether two hosts connect when the first message needs it, not in the dance (2.3.8)."""
        return self.version == LAZY_VERSION

    @property
    def long_size(self) -> int:
        """Octets of MPI_LONG on the wire: 4 as in external32, 8 where our version is in force."""
        return 8 if self.is_ours else 4

    def client_procs(self, client: int) -> tuple[int, ...]:
        """Ranks in MPI_COMM_WORLD of one client's procs, ascending."""
        return tuple(p.rank for p in self.procs if p.client == client)

    def to_json(self) -> str:
        """Return one line that :meth:`from_json` reads; addresses in hex."""

        # Decisions have a text of their own, which is checked whenever it is read.
        value = values_of(replaced(self, decisions=None))

        value["decisions"] = (
            None if self.decisions is None else self.decisions.to_json()
        )
        for item in (*value["hosts"], *value["procs"]):
            item["ipv6"] = item["ipv6"].hex()

        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that :meth:`to_json` wrote."""

        value = json.loads(text)
        hosts = tuple(
            Host(
                index=h["index"],
                client=h["client"],
                ipv6=bytes.fromhex(h["ipv6"]),
                port=h["port"],
                procs=tuple(h["procs"]),
            )
            for h in value.pop("hosts")
        )
        procs = tuple(
            Proc(
                rank=p["rank"],
                client=p["client"],
                host=p["host"],
                ipv6=bytes.fromhex(p["ipv6"]),
                pid=p["pid"],
            )
            for p in value.pop("procs")
        )
        # JSON has lists for tuples, and a list would make equal jobs differ.
        version = tuple(value.pop("version"))
        collectives = tuple(value.pop("collectives"))
        table = value.pop("decisions")
        software = tuple(map(tuple, value.pop("software", ())))

        return cls(
            version=(version[0], version[1]),
            hosts=hosts,
            procs=procs,
            collectives=collectives,
            decisions=None if table is None else Decisions.parse(table),
            software=software,
            **value,
        )
