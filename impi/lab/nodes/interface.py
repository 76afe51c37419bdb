"""The interface of a backend to the lab: nodes that run argument vectors, and captures of traffic.

A *node* is a machine or container (``server``, ``c1n0``); the protocol's *host* is another thing.
Every function below raises :class:`impi.base.errors.LabError` when the lab itself fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from impi.base.remote.supervised import Completed
from impi.lab.nodes.links import Network
from impi.lab.nodes.topology import Topology

ON_LOOPBACK: Final = "local"
ON_HOSTS: Final = "ssh:"
"""The beginning of the name of a backend of existing hosts; the path of their file follows."""
ON_SWARM: Final = "swarm"
"""The name of the backend of a Docker swarm."""
ON_KUBERNETES: Final = "kubernetes"
"""The beginning of the name of a backend of a Kubernetes cluster; ``:NAMESPACE`` follows."""
TTL_S: Final = 2 * 3600.0
"""Default lifetime of a lab, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Settings of a lab beyond its shape."""

    ttl_s: float = TTL_S  # lifetime in seconds: then its nodes end by themselves, even if their opener is gone
    name: str = ""  # the user's name for it
    publish: bool = False  # reach SSH by ports on 127.0.0.1, also where the nodes' addresses could be reached
    six: bool = False  # whether nodes know each other by IPv6 addresses only
    compiled: bool = False  # whether nodes have the cases' programs in C, where the backend has images of such


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A developer's own build of an MPI library, in the place of the usual one."""

    vendor: str
    origin: str  # a folder of this machine, or an image, as the user named it
    prefix: str  # where it is on a node: what processes map must be below it
    libraries: tuple[str, ...]  # SHA-256 of its MPI libraries, taken from its origin and not from a node
    digest: str  # one digest of all these, or the image's id


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSeen:
    """A lab of any user, or the remains of one."""

    lab: str
    labels: Mapping[str, str]
    parts: tuple[str, ...]  # its parts, as text
    state: str  # ``running``, ``kept`` or ``left over``
    age_s: float
    left_s: float  # until its time is over


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """The address and port of one node."""

    address: str  # on the lab's own network
    host: str = ""  # where its SSH listens, as seen from here; empty where there is none
    port: int = 0
    container: str = ""
    home: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Everything that another process needs to use a lab.

    A lab has it from the beginning, as its lease: nodes, variables and keys come at its start.
    """

    backend: str
    lab: str
    run: str
    vendors: tuple[str, ...]
    topology: Topology
    expires: float  # when its time is over, in seconds since the epoch
    nodes: Mapping[str, NodeAccess] = field(default_factory=dict)
    # Variables by node, for what runs on it.
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    python: str = ""
    user: str = ""
    private_key: str = ""
    host_key: str = ""  # the one public key of all its nodes
    images: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, Build] = field(default_factory=dict)


class RunningCommand(Protocol):
    """A command under way on a node, in a session of its own under a starter of the lab."""

    @property
    def pid(self) -> int:
        """Its process id on the node; 0: not known yet."""

    def poll(self) -> Completed | None:
        """The outcome, or None while it runs. Never blocks."""

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the outcome; at the deadline the whole session is ended and ``code`` is None."""

    def stdout(self) -> bytes:
        """The output so far."""

    def stderr(self) -> bytes:
        """The errors and reports so far."""

    def stop(self) -> Completed:
        """End the whole session now (TERM, then KILL) and say how it ended."""


class Node(Protocol):
    """One machine of the lab."""

    name: str
    address: str  # the numeric address on the lab's network

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] = ...) -> RunningCommand:
        """Start and return at once."""

    def read(self, path: str) -> bytes | None:
        """A file's content, or None if there is none."""

    def write(self, path: str, data: bytes, *, mode: int = ...) -> None:
        """Put a file there, with the folders above it."""


def run_on(
    node: Node, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 60.0
) -> Completed:
    """Run the command on the node until its end or its deadline, and return how it ended."""
    return node.start(argv, env=env or {}).wait(timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Traffic of one node's interface during one cell (pcap octets), and its credibility."""

    node: str
    pcap: bytes
    dropped: int  # packets that the kernel dropped while capturing, by tcpdump's own account
    canaries: tuple[bytes, bytes]  # UDP payloads that must be first and last in it: sent before and after the cell
    # The node's clock is ahead of ours by at least and at most so many seconds. Zeros: all nodes
    # have our clock.
    ahead_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Where processes of a lab stand."""

    # By node and pid; innermost frame first, as Python's faulthandler writes them.
    frames: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # gaps in the observation, with reasons


class Lab(Protocol):
    """Running nodes for one (vendors, topology), reused by cells, discarded after a non-pass."""

    access: Access  # name, vendors, topology, interpreter, variables by node and builds
    server: Node
    # ``clients[i][j]`` is node j of client i, named ``c{i}n{j}``; a remote party has none.
    clients: Sequence[Sequence[Node]]
    captures: bool  # whether all nodes are captured; only then can a cell *pass* with evidence
    unseen: Sequence[str]  # names of existing hosts that nobody captures on
    software: Mapping[str, str]  # image ids and package versions, for the records

    @property
    def network(self) -> Network | None:
        """None where the backend cannot change it (:meth:`Backend.no_network` says why)."""

    def begin_capture(self) -> None:
        """Mark the beginning of a cell on every node's capture (canary sent and seen)."""

    def end_capture(self) -> list[Capture]:
        """Mark the end and fetch what lies between; empty where the backend has no captures."""

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Return these processes' stacks by node, seen from outside. Never raises."""

    def residue(self, known: Collection[str] = ...) -> list[str]:
        """Return leftovers between two cells: processes, segments, listening ports, files.

        ``known``: what earlier cells have left.
        """

    def hold(self) -> None:
        """Let it outlive this process until its time is over; :meth:`close` then only lets go."""

    def close(self) -> None:
        """Remove every node, network and folder of this lab. May be called twice."""


class Inventory(Protocol):
    """All labs of one backend on this machine, running or left over."""

    def find(self) -> list[LabSeen]:
        """Return all labs on this machine, and rests of labs."""

    def remove(self, seen: LabSeen) -> list[str]:
        """Remove all parts of the lab; return descriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of ``impilab doctor``: the object of a check, its result, and the cure."""

    subject: str
    ok: bool
    detail: str
    cure: str = ""
    fatal: bool = field(default=True)


class Backend(Protocol):
    """``docker`` or ``local``."""

    name: str
    inventory: Inventory
    builds: Mapping[str, Build]  # by vendor: the build that :meth:`prepare` has put in the place of the usual library

    def doctor(self) -> list[Finding]:
        """Examine everything a run needs; changes nothing."""

    def prepare(self, vendors: Sequence[str], builds: Mapping[str, str] = ..., *, compiled: bool = ...) -> None:
        """Build missing images and prefixes, with messages on stderr.

        ``builds``: by vendor, a local folder or an image to use from now on; UsageError: one is
        none. ``compiled``: whether some labs need the cases' programs in C.
        """

    def supports(self, topology: Topology, vendors: Sequence[str] = ...) -> str:
        """Empty when it can run this topology of these vendors, else the reason why not."""

    def no_machine(self, machine: str) -> str:
        """Return why nodes of that machine (Debian's name) cannot be had; empty if they can."""

    def no_network(self) -> str:
        """Empty when it can change the network of a lab, else the reason why not."""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms = ...) -> Lab:
        """Start a lab; ``run`` is the run's name, for labels."""

    def attach(self, access: Access) -> Lab:
        """Open a kept lab with the present impi; LabError: the lab is gone."""

    def network(self, access: Access) -> Network:
        """Return the network of a kept lab; LabError: the lab is gone, or it cannot be changed."""

    def logs(self, access: Access, node: str) -> str:
        """Return the log of a node's own server; LabError: the lab is gone."""
