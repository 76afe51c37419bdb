"""The evidence of one cell: plain values, also written to disk; the verdict is their function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from impi.dissect import Breach, Standing
from impi.testbed.evidence.call_logs import Call
from impi.testbed.lab.lab_links import NetworkSeen


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
    shared: tuple[str, ...] = ()
    """Segments that it has mapped to share with others, after MPI_Init."""
    ancestors: tuple[str, ...] = ()
    """The programs above it."""
    listens: tuple[str, ...] = ()
    """Where it listened after MPI_Init."""
    node_listens: tuple[str, ...] = ()
    """Where anybody was seen to listen on its node until then."""
    other_sources: tuple[str, ...] | None = None
    """Its modules of impi whose text differs from this checkout's; None: it named none."""
    performed: int | None = None
    """Checks that it performed; None without a last report."""
    failures: tuple[Mapping[str, str], ...] = ()
    """The failed ones: check, expected, actual."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What its program tells beside them, and nobody judges."""
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
class Mismatch:
    """A message that is not as the case demands; ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    expected: str
    actual: str
    time: float = 0.0
    """When it crossed; 0 where none did."""
    phase: str = "case"
    by_receiver: bool = False
    """Whether it is the receiver that did not do its part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A message that its receiver has answered by SYNCACK; ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    time: float
    """When the SYNCACK was captured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTold:
    """A host as its labels say (IMPI 2.3.5), and where its connections came from."""

    client: int
    address: str
    port: int
    ranks: tuple[int, ...]
    """Its procs."""
    came_from: tuple[str, ...] = ()
    """Addresses from which it opened channels (IMPI 2.3.8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The content of the captures."""

    untrusted: tuple[str, ...] = ()
    """Why they prove nothing: dropped packets, a missing canary, holes."""
    breaches: tuple[Breach, ...] = ()
    """Breaches of the protocol in order of time, without what a vendor is known to do."""
    reached: Mapping[int, str] = field(default_factory=dict)
    """By client its progress: ``connect``, ``auth``, ``impi``, ``done``, ``fini``; absent without
    any."""
    methods: Mapping[int, int] = field(default_factory=dict)
    """By client: the authentication method that the server chose (IMPI 2.3.3)."""
    offers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By client: the authentication methods that it offered."""
    pids: Mapping[int, int] = field(default_factory=dict)
    """By rank: the process id that its client told everybody (P_PID)."""
    clients: tuple[int, ...] = ()
    """Number of procs of each client, as told to everybody."""
    hosts: tuple[HostTold, ...] = ()
    """The hosts, as told to everybody."""
    no_channel: tuple[str, ...] = ()
    """Pairs of hosts of different clients without a channel (IMPI 2.3.8)."""
    losses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By client: the clients of whose loss the server has told it; absent where of none."""
    unfinished: tuple[str, ...] = ()
    """Hosts that sent no FINI, by channel (IMPI 3.8)."""
    missing: tuple[Mismatch, ...] = ()
    """Messages that the case demands and that did not cross."""
    owed: tuple[Owed, ...] = ()
    """The missing ones in numbers."""
    wrong: tuple[Mismatch, ...] = ()
    """Messages with other octets than the case demands; in order of time."""
    headers: tuple[Mismatch, ...] = ()
    """Messages with another pk_lsrank or pk_count (IMPI 3.5)."""
    extra: tuple[Mismatch, ...] = ()
    """Messages that nothing demands."""
    left_first: tuple[int, ...] = ()
    """Ranks of the first host or client to close a connection without a FINI on it (3.8, 2.3.7)."""
    closed_early: tuple[str, ...] = ()
    """Hosts that closed a channel when the other, still there, had sent no FINI (IMPI 3.8)."""
    answered: tuple[Answered, ...] = ()
    """The first SYNCACK for messages of MPI_COMM_WORLD of each source, destination and tag."""
    last_sent: Mapping[int, float] = field(default_factory=dict)
    """By rank: time of its last DATA or DATASYNC packet."""
    timeline: tuple[str, ...] = ()
    messages: int = 0
    """Number of messages between clients."""
    standing: Standing | None = None
    """Open items at the moment of the look; None without a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a rank had of a processor."""

    had_s: float
    waited_s: float | None
    """How long it could run and had none; None where the kernel does not count that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Observations of a cell that did not end, just before it was ended."""

    at: float
    """Seconds since the epoch, by the nodes' clock."""
    why: str
    """``the time limit`` or ``an interrupt``."""
    processes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By node and pid: what the kernel says of a rank that is there."""
    starved: Mapping[str, Mapping[int, Share]] = field(default_factory=dict)
    """By node and pid: what a rank has had of a processor which wants one, and has none."""
    sockets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node: the TCP sockets of its ranks, with the octets that wait in them."""
    stacks: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    """By node and pid: where the rank stood, innermost frame first, as seen from outside."""
    notes: tuple[str, ...] = ()
    """Gaps in the observation, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """What was done to a job on purpose, and what shows that it happened."""

    kind: str
    phase: str
    began: bool
    """Whether all ranks came to the phase, and it was caused."""
    lasted_s: float = 0.0
    """Until it was ended; 0: it was not."""
    victim: int = 0
    """The process that got a signal."""
    what: str = ""
    """Its command line."""
    at: float = 0.0
    """When it was hit (seconds since the epoch, by its node's clock)."""
    ended: bool = False
    """Whether it was seen to end after its signal."""
    still: bool = False
    """Whether the kernel had stopped all of its threads."""
    thawed_at: float = 0.0
    """When it was let go on; 0: it was not."""
    frozen: bool = False
    """Whether it stood still, or the engine had the node frozen, until it was let go on."""
    refused: int = 0
    """Packets that the kernel has dropped or answered by a reset, by its own count."""
    times: int = 1
    """How often it was caused."""
    late: float = 0.0
    """Seconds that packets were held on average, on the link that held them least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it."""

    captures: bool
    """Whether all nodes were captured."""
    unseen: tuple[str, ...] = ()
    """Existing hosts that nobody captured on."""
    clocks_s: float = 0.0
    """How far the clocks of two nodes may be apart, in seconds; 0: they have one."""
    hostport: str = ""
    """The server's output; empty: nothing in time."""
    server: CommandSeen | None = None
    clients: tuple[CommandSeen, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    wire: Wire | None = None
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By node: SHA-256 of the MPI libraries in its planned vendor's prefix; empty for pure."""
    own_libraries: Mapping[str, str] = field(default_factory=dict)
    """By node: the path of impi's libmpi for compiled programs; empty: the program is in Python."""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """By node with a replaced library: the folder that mapped libraries must come from."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """By node: its address."""
    told_key: tuple[str, ...] = ()
    """Commands whose output has the key of the job."""
    node_nonces: Mapping[str, str] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()
    """Findings of the sweep after the cell."""
    timed_out: bool = False
    limit_s: float = 0.0
    seconds: float = 0.0
    look: Look | None = None
    """None where the cell ended by itself."""
    network: NetworkSeen | None = None
    """What happened on links that the variant makes worse; None: it makes none worse."""
    fault: FaultSeen | None = None
    """The fault of the variant; None: it has none, or the cell did not come so far."""
    began: float = 0.0
    """When the cell was begun (seconds since the epoch)."""
    trouble: str = ""
    """The lab's own fault, in one sentence; empty when it had none."""

    def to_json(self) -> dict[str, Any]:
        """For ``evidence.json``."""
        return asdict(self)
