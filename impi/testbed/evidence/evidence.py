"""The evidence of one cell: plain values, also written to disk; the verdict is their function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from impi.dissect import Standing
from impi.testbed.evidence.call_logs import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSeen:
    """The end of one command of the job."""

    who: str
    """``server`` or ``client 1``."""
    code: int | None
    """Exit status, ``-N`` for signal N; None: it had to be ended."""
    stdout: str = ""
    stderr: str = ""
    leftovers: tuple[str, ...] = ()
    """Processes of its session that were alive after it."""
    ended_s: float | None = None
    """Seconds after the cell's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """One process started as a rank: its own reports, and observations from outside."""

    node: str
    client: int
    pid: int
    rank: int | None = None
    """From its first report; None when there is none."""
    size: int | None = None
    nonce: str = ""
    """The cell's nonce, as the rank read it."""
    node_nonce: str = ""
    """Read from the disk of the node where it runs."""
    local: Mapping[str, Any] | None = None
    """The rank's view of the vendor's own world: vendor, size, messages; from the last report."""
    libraries: Mapping[str, str] | None = None
    """MPI libraries in its /proc/PID/maps, with their SHA-256; None when nobody looked."""
    other_sources: tuple[str, ...] | None = None
    """Its modules of impi whose text differs from this checkout's; None: it named none."""
    performed: int | None = None
    """Checks that it performed; None without a last report."""
    failures: tuple[Mapping[str, str], ...] = ()
    """The failed ones: check, expected, actual."""
    status: int | None = None
    """Its wait status, recorded by its wrapper; None while it runs or without record."""
    ended: float | None = None
    """When it ended (seconds since the epoch, by its node's clock)."""
    stack: tuple[str, ...] = ()
    """Where it stood at the deadline, innermost frame first."""
    began: float | None = None
    """When it was started, initialised MPI, and had done its last check; by its node's clock."""
    initialised: float | None = None
    done: float | None = None
    calls: tuple[Call, ...] = ()
    """The MPI calls of its program, as it logged them."""

    @property
    def call(self) -> Call | None:
        """The call that it is in; None outside of any."""
        return self.calls[-1] if self.calls and self.calls[-1].ended is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Messages that the case demands, and how many of them were seen; ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    cid: int
    tag: int
    wanted: int
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The content of the captures."""

    untrusted: tuple[str, ...] = ()
    """Why they prove nothing: dropped packets, a missing canary, holes."""
    violations: tuple[str, ...] = ()
    """Breaches of the protocol."""
    reached: Mapping[int, str] = field(default_factory=dict)
    """By client its progress: ``connect``, ``auth``, ``impi``, ``done``, ``fini``; absent without
    any."""
    methods: Mapping[int, int] = field(default_factory=dict)
    """By client: the authentication method that the server chose (IMPI 2.3.3)."""
    pids: Mapping[int, int] = field(default_factory=dict)
    """By rank: the process id that its client told everybody (P_PID)."""
    clients: tuple[int, ...] = ()
    """Number of procs of each client, as told to everybody."""
    no_channel: tuple[str, ...] = ()
    """Pairs of hosts of different clients without a channel (IMPI 2.3.8)."""
    unfinished: tuple[str, ...] = ()
    """Hosts that sent no FINI, by channel (IMPI 3.8)."""
    missing: tuple[str, ...] = ()
    """Messages that the case demands and that did not cross."""
    owed: tuple[Owed, ...] = ()
    """The traffic in numbers."""
    wrong: tuple[str, ...] = ()
    """Messages whose octets are not the ones that the case demands."""
    last_sent: Mapping[int, float] = field(default_factory=dict)
    """By rank: time of its last DATA or DATASYNC packet."""
    timeline: tuple[str, ...] = ()
    messages: int = 0
    """Number of messages between clients."""
    standing: Standing | None = None
    """Open items at the moment of the look; None without a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Observations of a cell that did not end, just before it was ended."""

    at: float
    """Seconds since the epoch, by the nodes' clock."""
    why: str
    """``the time limit`` or ``an interrupt``."""
    processes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By node and pid: what the kernel says of a rank that is there."""
    sockets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node: the TCP sockets of its ranks, with the octets that wait in them."""
    stacks: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    """By node and pid: where the rank stood, innermost frame first, as seen from outside."""
    notes: tuple[str, ...] = ()
    """Gaps in the observation, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it."""

    captures: bool
    """Whether the backend can capture at all."""
    hostport: str = ""
    """The server's output; empty: nothing in time."""
    server: CommandSeen | None = None
    clients: tuple[CommandSeen, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    wire: Wire | None = None
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node: SHA-256 of the MPI libraries in its planned vendor's prefix; empty for pure."""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """By node with a replaced library: the folder that mapped libraries must come from."""
    node_nonces: Mapping[str, str] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    """Findings of the sweep after the cell."""
    timed_out: bool = False
    limit_s: float = 0.0
    seconds: float = 0.0
    look: Look | None = None
    """None where the cell ended by itself."""
    trouble: str = ""
    """The lab's own fault, in one sentence; empty when it had none."""

    def to_json(self) -> dict[str, Any]:
        """For ``evidence.json``."""
        return asdict(self)
