"""The invitation of impirun to each proc of its client: the content of ``IMPI_JOIN``, as JSON.

impirun writes it (:mod:`impi.launch.client.session`); :mod:`impi.rank.engine.job.join` claims it,
and the engine and the vendor read it (docs/how-it-works/start-up.md).
"""

from __future__ import annotations

from typing import TypedDict


class Place(TypedDict, total=False):
    """The part that differs between vendors and procs."""

    rank: int
    """Rank in the client; missing under an MPI library, which tells it."""
    size: int
    """Number of procs of the client."""
    node: str
    """Name of the proc's node for impirun; missing under an MPI library."""
    library: str
    """Title of the MPI library (``title`` of the manifest); missing without one."""


class Invitation(Place, total=False):
    """The whole invitation."""

    vendor: str
    """Name of the vendor."""
    prefix: str
    """Folder of its library; empty: where it is found."""
    control: str
    """Address and port of impirun's control socket."""
    token: str
    """The secret that both ends of a connection to impirun prove, in hexadecimal."""
    kept: str
    """The keeper that has token and names where they are missing here (:mod:`.keeper`)."""
    server: str
    """Numeric address of the server, towards which a host finds its own address."""
    names: list[str]
    """Address and port of the server, and the key of its published names, in hexadecimal."""
    interface: str
    """Address, name or network of the interface that hosts advertise; empty: towards the server."""
    source: str
    """Address, name or network of the interface that hosts connect from; empty: the one above."""
    agents: bool
    """Whether hosts are agents: procs have no channels of their own."""
    tls: bool
    """Whether connections of the job are encrypted."""
    resilient: bool
    """Whether the job goes on without a client that is lost."""
    cores: int
    """Processors that impirun may use."""
