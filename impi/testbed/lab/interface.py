"""What a backend gives the lab: nodes on which argument vectors run, and captures of what passes between them.

A *node* is a machine or container (``server``, ``c1n0``); the protocol's *host* is something else.
Everything below raises :class:`impi.errors.LabError` when the lab itself fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from impi.testbed.lab.lab_topology import Topology

__all__ = [
    "TTL_S",
    "Access",
    "Backend",
    "Build",
    "Capture",
    "Completed",
    "Finding",
    "Lab",
    "LabSeen",
    "Line",
    "Node",
    "NodeAccess",
    "RunningCommand",
    "Stacks",
    "Terms",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that a command has printed."""

    at: float
    """When its end was there (seconds since the epoch, by the node's clock)."""
    stream: str
    """``stdout`` or ``stderr``."""
    text: str


TTL_S: Final = 2 * 3600.0
"""How long a lab lives unless it is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a lab is told beyond its shape."""

    ttl_s: float = TTL_S
    """After so long its nodes end by themselves, whatever has become of who opened it."""
    name: str = ""
    """What its user calls it."""
    publish: bool = False
    """Reach SSH by ports on 127.0.0.1, also where the nodes' addresses could be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A developer's own build of an MPI library, in the place of the usual one."""

    vendor: str
    origin: str
    """A folder of this machine, or an image, as the user named it."""
    prefix: str
    """Where it is on a node: what processes map must be below it."""
    libraries: tuple[str, ...]
    """SHA-256 of its MPI libraries, taken from its origin and not from a node."""
    digest: str
    """Of all these, or the image's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSeen:
    """A lab of whoever's, or what is left of one."""

    lab: str
    labels: Mapping[str, str]
    parts: tuple[str, ...]
    """What it consists of, for people."""
    state: str
    """``running``, ``kept`` or ``left over``."""
    age_s: float
    left_s: float
    """Until its time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """How one node is reached."""

    address: str
    """On the lab's own network."""
    host: str = ""
    """Where its SSH listens, as seen from here; empty where there is none."""
    port: int = 0
    container: str = ""
    home: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """All that another process needs to use a lab."""

    backend: str
    lab: str
    run: str
    vendors: tuple[str, ...]
    topology: str
    expires: float
    """When its time is over, in seconds since the epoch."""
    nodes: Mapping[str, NodeAccess]
    environment: Mapping[str, Mapping[str, str]]
    """Variables by node, for what runs on it."""
    python: str
    user: str = ""
    private_key: str = ""
    host_key: str = ""
    """The one public key of all its nodes."""
    images: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, Build] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How one command on a node ended; a value, never an exception."""

    argv: tuple[str, ...]
    code: int | None
    """Exit status, ``-N`` for signal N, or None when the deadline ended it."""
    stdout: bytes
    stderr: bytes
    leftovers: tuple[str, ...] = ()
    """Command lines of processes of its session that were still alive at its end, and were ended."""
    lines: tuple[Line, ...] = ()
    """What it printed, line by line, in order of time."""


class RunningCommand(Protocol):
    """A command under way on a node, in a session of its own under a starter of the lab."""

    def poll(self) -> Completed | None:
        """The outcome, or None while it runs. Never blocks."""
        ...

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the outcome; at the deadline the whole session is ended and ``code`` is None."""
        ...

    def stdout(self) -> bytes:
        """What it has printed so far."""
        ...

    def stop(self) -> Completed:
        """End the whole session now (TERM, then KILL) and say how it ended."""
        ...


class Node(Protocol):
    """One machine of the lab."""

    name: str
    address: str
    """Its numeric address on the lab's network."""

    def run(self, argv: Sequence[str], *, env: Mapping[str, str] = ..., timeout_s: float = ...) -> Completed:
        """Start, wait, return the outcome."""
        ...

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] = ...) -> RunningCommand:
        """Start and return at once."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content, or None if there is none."""
        ...

    def write(self, path: str, data: bytes, *, mode: int = ...) -> None:
        """Put a file there, with the folders above it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What one node's network interface carried during one cell (pcap octets), and how far it can be trusted."""

    node: str
    pcap: bytes
    dropped: int
    """Packets that the kernel dropped while capturing, by tcpdump's own account."""
    canaries: tuple[bytes, bytes]
    """The UDP payloads that must be the capture's first and last: sent before and after the cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Where processes of a lab stand."""

    frames: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    """By node and pid; innermost frame first, as Python's faulthandler writes them."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and why."""


class Lab(Protocol):
    """Running nodes for one (vendors, topology); reused for many cells, discarded after a non-pass."""

    name: str
    vendors: tuple[str, ...]
    topology: Topology
    server: Node
    clients: Sequence[Sequence[Node]]
    """``clients[i][j]`` is node j of client i, named ``c{i}n{j}``."""
    captures: bool
    """Whether :meth:`end_capture` brings anything; only then can a cell *pass* with evidence."""
    software: Mapping[str, str]
    """Image ids and package versions, for the records."""
    builds: Mapping[str, Build]
    """By vendor: what is in the place of its usual library."""

    def environment(self, client: int) -> dict[str, str]:
        """Variables that impirun needs on this client's first node (``PATH``, ``PYTHONPATH``, ``HOME``, ...)."""
        ...

    def python(self, client: int | None = None) -> str:
        """The interpreter to use on that client's nodes (None: on the server's node)."""
        ...

    def begin_capture(self) -> None:
        """Mark the beginning of a cell on every node's capture (canary sent and seen)."""
        ...

    def end_capture(self) -> list[Capture]:
        """Mark the end and fetch what lies between; empty where the backend has no captures."""
        ...

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Where these processes stand, by node; seen from outside, without their help. Never raises."""
        ...

    def sweep(self) -> list[str]:
        """What is still there between two cells: processes, segments in /dev/shm, listening ports."""
        ...

    def access(self) -> Access:
        """How other processes reach it."""
        ...

    def hold(self) -> None:
        """From now on it outlives this process, until its time is over; :meth:`close` then only lets go of it."""
        ...

    def close(self) -> None:
        """Remove every node, network and folder of this lab. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of ``impilab doctor``: what was looked at, whether it is right, and the cure."""

    subject: str
    ok: bool
    detail: str
    cure: str = ""
    fatal: bool = field(default=True)


class Backend(Protocol):
    """``docker`` or ``local``."""

    name: str
    builds: Mapping[str, Build]
    """By vendor: what :meth:`replace` has put in the place of its usual library."""

    def replace(self, builds: Mapping[str, str]) -> None:
        """Use these builds (folders of this machine, or images) from now on; UsageError: one is none."""
        ...

    def doctor(self) -> list[Finding]:
        """Examine everything a run needs; changes nothing."""
        ...

    def prepare(self, vendors: Sequence[str]) -> None:
        """Build what is missing (images, prefixes); says what it does on stderr."""
        ...

    def supports(self, topology: Topology) -> str:
        """Empty when it can run this topology, else the reason why not."""
        ...

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms = ...) -> Lab:
        """Start a lab; ``run`` is the run's name, for labels."""
        ...

    def attach(self, access: Access) -> Lab:
        """A lab that is kept, as if this process had opened it, with impi as it is now; LabError: it is gone."""
        ...

    def logs(self, access: Access, node: str) -> str:
        """What a node's own server said; LabError: it is gone."""
        ...

    def labs(self) -> list[LabSeen]:
        """All labs on this machine, and what is left of any."""
        ...

    def clean(
        self,
        *,
        older_than_s: float = 0.0,
        everything: bool = False,
        labels: Mapping[str, str | None] = ...,
        owner: str = "",
    ) -> list[str]:
        """Remove what earlier runs left behind; spares live runs, and labs that are kept. Returns what was removed.

        ``labels`` (None: any value) and ``owner`` (a user's name, or the number of a process) narrow it.
        """
        ...

    def remove(self, lab: str) -> list[str]:
        """Remove the lab of that name, whoever's it is; what was removed."""
        ...
