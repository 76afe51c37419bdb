"""The evidence of one cell: plain values, also written to disk; the verdict is their function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from impi.lab.dissect import Breach, Standing
from impi.lab.evidence.call_logs import Call
from impi.lab.nodes.links import NetworkSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSeen:
    """The end of one command of the job."""

    who: str  # ``server`` or ``client 1``
    code: int | None  # exit status, ``-N`` for signal N; None: it had to be ended
    stdout: str = ""
    stderr: str = ""
    leftovers: tuple[str, ...] = ()  # processes of its session that were alive after it
    ended_s: float | None = None  # seconds after the cell's beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A rank's process, as the witness saw it after MPI_Init."""

    # MPI libraries in its /proc/PID/maps, with their SHA-256; None when nobody looked.
    libraries: Mapping[str, str] | None = None
    shared: tuple[str, ...] = ()  # segments that it has mapped to share with others, after MPI_Init
    ancestors: tuple[str, ...] = ()  # the programs above it
    listens: tuple[str, ...] = ()  # where it listened after MPI_Init
    node_listens: tuple[str, ...] = ()  # where anybody was seen to listen on its node until then
    # Its modules of impi whose text differs from this checkout's; None: it named none.
    other_sources: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who a rank says it is, and where."""

    size: int | None = None
    nonce: str = ""  # the cell's nonce, as the rank read it
    node_nonce: str = ""  # read from the disk of the node where it runs
    # The rank's view of the vendor's own world: vendor, size, messages; from the last report.
    local: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The checks of a rank, by its last report."""

    performed: int | None = None  # checks that it performed; None without a last report
    failures: tuple[Mapping[str, str], ...] = ()  # the failed ones: check, expected, actual
    figures: Mapping[str, Any] = field(default_factory=dict)  # what its program tells beside them, and nobody judges


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """One process started as a rank: its own reports, and observations from outside."""

    node: str
    client: int
    pid: int
    rank: int | None = None  # from its first report; None when there is none
    says: Claims = Claims()
    process: Process = Process()
    checks: Checks = Checks()
    status: int | None = None  # its wait status, recorded by its wrapper; None while it runs or without record
    ended: float | None = None  # when it ended (seconds since the epoch, by its node's clock)
    stack: tuple[str, ...] = ()  # where it stood at the deadline, innermost frame first
    # When it was started, initialised MPI, and had done its last check; by its node's clock.
    began: float | None = None
    initialised: float | None = None
    done: float | None = None
    calls: tuple[Call, ...] = ()  # the MPI calls of its program, as it logged them

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
    time: float = 0.0  # when it crossed; 0 where none did
    phase: str = "case"
    by_receiver: bool = False  # whether it is the receiver that did not do its part


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A message that its receiver has answered by SYNCACK; ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    time: float  # when the SYNCACK was captured


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTold:
    """A host as its labels say (IMPI 2.3.5), and where its connections came from."""

    client: int
    address: str
    port: int
    ranks: tuple[int, ...]  # its procs
    came_from: tuple[str, ...] = ()  # addresses from which it opened channels (IMPI 2.3.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """What clients and the server have said in start-up."""

    # By client its progress: ``connect``, ``auth``, ``impi``, ``done``, ``fini``; absent: none.
    reached: Mapping[int, str] = field(default_factory=dict)
    # By client: the authentication method that the server chose (IMPI 2.3.3).
    methods: Mapping[int, int] = field(default_factory=dict)
    # By client: the authentication methods that it offered.
    offers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # By rank: the process id that its client told everybody (P_PID).
    pids: Mapping[int, int] = field(default_factory=dict)
    clients: tuple[int, ...] = ()  # number of procs of each client, as told to everybody
    hosts: tuple[HostTold, ...] = ()  # the hosts, as told to everybody
    # By client: the clients of whose loss the server has told it; absent where of none.
    losses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How messages differ from what the case demands."""

    missing: tuple[Mismatch, ...] = ()  # messages that the case demands and that did not cross
    owed: tuple[Owed, ...] = ()  # the missing ones in numbers
    wrong: tuple[Mismatch, ...] = ()  # messages with other octets than the case demands; in order of time
    headers: tuple[Mismatch, ...] = ()  # messages with another pk_lsrank or pk_count (IMPI 3.5)
    extra: tuple[Mismatch, ...] = ()  # messages that nothing demands


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The content of the captures."""

    untrusted: tuple[str, ...] = ()  # why they prove nothing: dropped packets, a missing canary, holes
    # Breaches of the protocol in order of time, without what a vendor is known to do.
    breaches: tuple[Breach, ...] = ()
    startup: StartUp = StartUp()
    compared: Compared = Compared()
    no_channel: tuple[str, ...] = ()  # pairs of hosts of different clients without a channel (IMPI 2.3.8)
    unfinished: tuple[str, ...] = ()  # hosts that sent no FINI, by channel (IMPI 3.8)
    # Ranks of the first host or client to close a connection without a FINI on it (3.8, 2.3.7).
    left_first: tuple[int, ...] = ()
    # Hosts that closed a channel when the other, still there, had sent no FINI (IMPI 3.8).
    closed_early: tuple[str, ...] = ()
    # The first SYNCACK for messages of MPI_COMM_WORLD of each source, destination and tag.
    answered: tuple[Answered, ...] = ()
    last_sent: Mapping[int, float] = field(default_factory=dict)  # by rank: time of its last DATA or DATASYNC packet
    timeline: tuple[str, ...] = ()
    messages: int = 0  # number of messages between clients
    standing: Standing | None = None  # open items at the moment of the look; None without a look


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a rank had of a processor."""

    had_s: float
    waited_s: float | None  # how long it could run and had none; None where the kernel does not count that


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Observations of a cell that did not end, just before it was ended."""

    at: float  # seconds since the epoch, by the nodes' clock
    why: str  # ``the time limit`` or ``an interrupt``
    # By node and pid: what the kernel says of a rank that is there.
    processes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    # By node and pid: what a rank has had of a processor which wants one, and has none.
    starved: Mapping[str, Mapping[int, Share]] = field(default_factory=dict)
    # By node: the TCP sockets of its ranks, with the octets that wait in them.
    sockets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By node and pid: where the rank stood, innermost frame first, as seen from outside.
    stacks: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # gaps in the observation, with reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """What was done to a job on purpose, and what shows that it happened."""

    kind: str
    phase: str
    began: bool  # whether all ranks came to the phase, and it was caused
    lasted_s: float = 0.0  # until it was ended; 0: it was not
    victim: int = 0  # the process that got a signal
    what: str = ""  # its command line
    at: float = 0.0  # when it was hit (seconds since the epoch, by its node's clock)
    ended: bool = False  # whether it was seen to end after its signal
    still: bool = False  # whether the kernel had stopped all of its threads
    thawed_at: float = 0.0  # when it was let go on; 0: it was not
    frozen: bool = False  # whether it stood still, or the engine had the node frozen, until it was let go on
    refused: int = 0  # packets that the kernel has dropped or answered by a reset, by its own count
    times: int = 1  # how often it was caused
    late: float = 0.0  # seconds that packets were held on average, on the link that held them least


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What is known of the nodes of a cell."""

    # By node: SHA-256 of the MPI libraries in its planned vendor's prefix; empty for pure.
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By node: the path of impi's libmpi for compiled programs; empty: the program is in Python.
    own_libraries: Mapping[str, str] = field(default_factory=dict)
    # By node with a replaced library: the folder that mapped libraries must come from.
    prefixes: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)  # by node: its address
    node_nonces: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a cell took, and by which clock."""

    clocks_s: float = 0.0  # how far the clocks of two nodes may be apart, in seconds; 0: they have one
    timed_out: bool = False
    limit_s: float = 0.0
    seconds: float = 0.0
    began: float = 0.0  # when the cell was begun (seconds since the epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabTold:
    """What the lab says of itself."""

    unseen: tuple[str, ...] = ()  # existing hosts that nobody captured on
    leftovers: tuple[str, ...] = ()  # findings of the sweep after the cell
    # What happened on links that the variant makes worse; None: it makes none worse.
    network: NetworkSeen | None = None
    trouble: str = ""  # the lab's own fault, in one sentence; empty when it had none


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All of it."""

    captures: bool  # whether all nodes were captured
    lab: LabTold = LabTold()
    nodes: Nodes = Nodes()
    times: Times = Times()
    hostport: str = ""  # the server's output; empty: nothing in time
    server: CommandSeen | None = None
    clients: tuple[CommandSeen, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    wire: Wire | None = None
    told_key: tuple[str, ...] = ()  # commands whose output has the key of the job
    look: Look | None = None  # None where the cell ended by itself
    fault: FaultSeen | None = None  # the fault of the variant; None: it has none, or the cell did not come so far

    def to_json(self) -> dict[str, Any]:
        """For ``evidence.json``, where the values of parts stand beside all others."""
        value = _flat(asdict(self), "lab", "nodes", "times")
        value["ranks"] = [_flat(rank, "says", "process", "checks") for rank in value["ranks"]]
        value["wire"] = value["wire"] and _flat(value["wire"], "startup", "compared")
        return value


def _flat(record: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Return a record without some parts, but with their values."""
    values = {name: value for part in parts for name, value in record[part].items()}
    return values | {name: value for name, value in record.items() if name not in parts}
