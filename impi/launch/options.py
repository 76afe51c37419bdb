"""What a user asks of one client of a job."""

from __future__ import annotations

from impi.decisions import Decisions
from impi.quirks import Quirks
from impi.records import record
from impi.startup.facts import DEFAULT_ACKMARK, DEFAULT_DATALEN, DEFAULT_HIWATER

__all__ = ["ClientOptions"]


@record(kw_only=True)
class ClientOptions:
    """What the command line of ``impirun -client`` says."""

    rank: int
    """The number of this client."""
    server: str
    """HOST:PORT, as ``impirun -server`` has printed it."""
    argv: tuple[str, ...]
    """The program and its arguments."""
    procs: int | None = None
    """How many procs; None: the slots of all nodes, or 1."""
    vendor: str = "pure"
    prefix: str = ""
    """Folder of the MPI library; empty: look for it."""
    nodes: str = ""
    """NODE:SLOTS,...; empty: this machine."""
    hosts: str = "proc"
    """What owns the channels to other clients: one of :data:`impi.agent.HOSTS`."""
    interface: str = ""
    """Address, interface or network that the procs advertise; empty: where traffic to the server leaves."""
    strict: bool = False
    """Whether to offer IMPI 0.0 only."""
    external32: bool = False
    """Whether user data between clients is external32 even where all have it alike in memory."""
    xsize: int = -1
    maxlinear: int = -1
    datalen: int = DEFAULT_DATALEN
    ackmark: int = DEFAULT_ACKMARK
    hiwater: int = DEFAULT_HIWATER
    tag_ub: int | None = None
    """The highest tag; None: the highest that the vendor has."""
    quirks: Quirks = Quirks()
    """What the user says of the other clients."""
    verify: int = 0
    """The level of verification of collectives (IMPI_VERIFY)."""
    collectives: tuple[str, ...] = ()
    """Which of :data:`impi.job.ALTERNATIVES` are chosen."""
    decisions: Decisions | None = None
    """The algorithms of collectives, for all clients (--tuning)."""
    start_timeout_s: float = 60.0
    """How long procs may take to initialise MPI once the first has begun to."""
