"""The interface that a backend implements: nodes that run commands, and captures of traffic.

A *node* is a machine or container (``server``, ``c1n0``). The *host* of the protocol is something
else: it owns channels. Every function below raises :class:`impi.base.errors.LabError` if the lab
itself fails.
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
"""The prefix of a backend's name for existing hosts; the path of the file of hosts follows."""
ON_SWARM: Final = "swarm"
"""The name of the backend of a Docker swarm."""
ON_KUBERNETES: Final = "kubernetes"
"""The prefix of a backend's name for a Kubernetes cluster; ``:NAMESPACE`` may follow."""
TTL_S: Final = 2 * 3600.0
"""Default lifetime of a lab, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The settings of a lab, without its vendors and topology."""

    # Seconds until its nodes end by themselves, even if the process that opened it has ended
    ttl_s: float = TTL_S
    name: str = ""  # the user's name for it
    # Whether SSH is reached by ports on 127.0.0.1, even if the nodes' addresses are reachable
    publish: bool = False
    six: bool = False  # whether nodes use only IPv6 addresses for each other
    # Whether nodes have the cases' programs in C, if the backend has images with these
    compiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build of an MPI library that takes the place of the usual one (``--replace``)."""

    vendor: str
    origin: str  # a folder on this machine or an image, as the user wrote it
    prefix: str  # its folder on a node: mapped libraries must be below it
    # SHA-256 of its MPI libraries, read at the origin and not on a node
    libraries: tuple[str, ...]
    digest: str  # one digest of all of them, or the image's id


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSeen:
    """A lab of any user, or the remains of a lab, as :class:`Inventory` finds it."""

    lab: str
    labels: Mapping[str, str]
    parts: tuple[str, ...]  # descriptions of its parts, such as containers
    state: str  # ``running``, ``kept`` or ``left over``
    age_s: float
    left_s: float  # seconds until its lifetime ends


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """The addresses of one node, and the way to reach its SSH."""

    address: str  # on the lab's own network
    host: str = (
        ""  # address of its sshd, as reached from this machine; empty: there is none
    )
    port: int = 0
    container: str = ""
    home: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """All that another process needs to use a lab.

    It exists before the lab's start, as the lease of the lab. The start adds nodes, variables and
    keys.
    """

    backend: str
    lab: str
    run: str
    vendors: tuple[str, ...]
    topology: Topology
    expires: float  # end of its lifetime, in seconds since the epoch
    nodes: Mapping[str, NodeAccess] = field(default_factory=dict)
    # By node: environment variables of every command on it.
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    python: str = ""
    user: str = ""
    private_key: str = ""
    host_key: str = ""  # public SSH host key, which all its nodes share
    images: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, Build] = field(default_factory=dict)


class RunningCommand(Protocol):
    """A command that runs on a node: a starter of the lab runs it in a session of its own."""

    @property
    def pid(self) -> int:
        """The process id of the command on the node; 0: not known yet."""

    def poll(self) -> Completed | None:
        """Return the outcome, or None while the command runs. Never blocks."""

    def wait(self, timeout_s: float) -> Completed:
        """Return the outcome, waiting up to ``timeout_s``.

        After that the starter ends the session, and ``code`` of the outcome is None.
        """

    def stdout(self) -> bytes:
        """Return the standard output until now."""

    def stderr(self) -> bytes:
        """Return the standard error until now, with reports of the starter."""

    def stop(self) -> Completed:
        """End the whole session now (TERM, then KILL), and return the outcome."""


class Node(Protocol):
    """One node of the lab, a machine or container."""

    name: str
    address: str  # the numeric address on the lab's network

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] = ..., warm: bool = ...
    ) -> RunningCommand:
        """Start a command, and return without waiting for it.

        ``warm``: ``python -m MODULE`` may be a fork of a process that has loaded it. Where the
        backend has none, it is a fresh Python.
        """

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None: there is no such file."""

    def write(self, path: str, data: bytes, *, mode: int = ...) -> None:
        """Write a file, and make missing folders of its path."""


def run_on(
    node: Node,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
) -> Completed:
    """Run a command on a node until its end or the deadline, and return the outcome."""
    return node.start(argv, env=env or {}).wait(timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The packets of one node during one cell (pcap), and the values that tell if it is whole."""

    node: str
    pcap: bytes
    # Packets that the kernel dropped while capturing, by tcpdump's own account
    dropped: int
    # Payloads of the UDP packets that must be its first and last: the canaries of the cell
    canaries: tuple[bytes, bytes]
    # Bounds of the seconds by which the node's clock is ahead of this machine's; zeros:
    # all nodes have this machine's clock.
    ahead_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """The stacks of processes in a lab."""

    # Frames by node and pid, innermost first, as Python's faulthandler writes them.
    frames: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # gaps in the observation, with reasons


class Lab(Protocol):
    """The running nodes for vendors and a topology, for many cells until one does not pass."""

    access: Access  # name, vendors, topology, interpreter, variables by node and builds
    server: Node
    # ``clients[i][j]`` is node j of client i, named ``c{i}n{j}``; a remote party has no nodes.
    clients: Sequence[Sequence[Node]]
    # Whether all nodes are captured; if not, a pass is self-reported (~)
    captures: bool
    unseen: Sequence[str]  # names of existing hosts without a capture
    software: Mapping[str, str]  # image ids and package versions, for the records

    @property
    def network(self) -> Network | None:
        """The lab's network; None: the backend cannot change it (:meth:`Backend.no_network`)."""

    def begin_capture(self) -> None:
        """Mark the beginning of a cell in every node's capture by a canary, sent and seen."""

    def end_capture(self) -> list[Capture]:
        """Send the last canaries, and return the captures; empty: the backend has no captures."""

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Return the stacks of these processes by node, taken from outside. Never raises."""

    def residue(self, known: Collection[str] = ...) -> list[str]:
        """Return leftovers after a cell: processes, segments, listening ports, files.

        ``known``: leftovers of earlier cells, which are left out.
        """

    def hold(self) -> None:
        """Let the lab outlive this process until its lifetime ends; :meth:`close` then keeps it."""

    def close(self) -> None:
        """Remove every node, network and folder of this lab. A second call does nothing."""


class Inventory(Protocol):
    """All labs of one backend on this machine, running or left over."""

    def find(self) -> list[LabSeen]:
        """Return all labs of this backend, and remains of labs."""

    def remove(self, seen: LabSeen) -> list[str]:
        """Remove all parts of the lab, and return a description of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of ``impilab doctor``: what was checked, the result, and the cure."""

    subject: str
    ok: bool
    detail: str
    cure: str = ""
    fatal: bool = field(default=True)


class Backend(Protocol):
    """A kind of labs: ``docker``, ``local``, a swarm, a Kubernetes cluster, existing hosts."""

    name: str
    inventory: Inventory
    # By vendor: the build that :meth:`prepare` has put in place of the usual library
    builds: Mapping[str, Build]
    # Whether its labs are a :class:`.lab_part.SharedLab`
    parts: bool

    def doctor(self) -> list[Finding]:
        """Check everything that a run needs, without changing it."""

    def prepare(
        self,
        vendors: Sequence[str],
        builds: Mapping[str, str] = ...,
        *,
        compiled: bool = ...,
    ) -> None:
        """Build missing images and prefixes, with messages on stderr.

        ``builds``: by vendor, a local folder or an image to use from now on. ``compiled``: whether
        some labs need the cases' programs in C. UsageError: a build is neither folder nor image.
        """

    def supports(self, topology: Topology, vendors: Sequence[str] = ...) -> str:
        """Return the reason why this topology of these vendors cannot run; empty: it can."""

    def no_machine(self, machine: str) -> str:
        """Return the reason why no node can be of that architecture (by Debian's name), or ""."""

    def no_network(self) -> str:
        """Return the reason why the network of a lab cannot be changed; empty: it can."""

    def open(
        self,
        vendors: Sequence[str],
        topology: Topology,
        *,
        run: str,
        terms: Terms = ...,
    ) -> Lab:
        """Start a lab, and return it. ``run``: the name of the run, for the labels of its parts."""

    def attach(self, access: Access) -> Lab:
        """Return a kept lab, with the impi of this checkout on it. LabError: the lab has ended."""

    def network(self, access: Access) -> Network:
        """Return the network of a kept lab. LabError: the lab is gone, or it has none to change."""

    def logs(self, access: Access, node: str) -> str:
        """Return the log of a node's own server. LabError: the lab is gone."""
