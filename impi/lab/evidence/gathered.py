"""The evidence of one cell as plain values: the input of the verdict, and ``evidence.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from impi.lab.dissect import Breach, Standing
from impi.lab.evidence.call_logs import Call
from impi.lab.nodes.links import NetworkSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSeen:
    """A command of the job after its end: outcome, output and leftovers."""

    who: str  # ``server`` or ``client 1``
    # Exit status; ``-N``: ended by signal N; None: the lab ended the command
    code: int | None
    stdout: str = ""
    stderr: str = ""
    # Processes of its session that still ran after its end
    leftovers: tuple[str, ...] = ()
    ended_s: float | None = (
        None  # seconds from the cell's beginning to the command's end
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A rank's process, as the witness saw it after MPI_Init."""

    # MPI libraries in its /proc/PID/maps, with their SHA-256; None: the witness did not look.
    libraries: Mapping[str, str] | None = None
    # Shared memory segments that it had mapped after MPI_Init
    shared: tuple[str, ...] = ()
    ancestors: tuple[str, ...] = ()  # programs of its ancestor processes
    listens: tuple[str, ...] = ()  # its listening sockets after MPI_Init
    # All listening sockets on its node at any time before that
    node_listens: tuple[str, ...] = ()
    # Its modules of impi whose text differs from this checkout's; None: it named no module.
    other_sources: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """A rank's own report on its identity and its node."""

    size: int | None = None
    nonce: str = ""  # the cell's nonce, as the rank read it
    node_nonce: str = ""  # read from the disk of the node where it runs
    # MPI_COMM_WORLD of the vendor's library: vendor, size, messages; from the last report.
    local: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The checks of a rank, from its last report."""

    performed: int | None = None  # number of its checks; None: no last report
    # The failed ones: check, expected, actual
    failures: tuple[Mapping[str, str], ...] = ()
    # Measurements of its program; no item of a verdict uses them
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSeen:
    """One process of a rank: its own reports, and observations from outside."""

    node: str
    client: int
    pid: int
    rank: int | None = None  # from its first report; None: there is no report
    says: Claims = Claims()
    process: Process = Process()
    checks: Checks = Checks()
    # Wait status, as its wrapper recorded it; None: it still runs, or there is no record
    status: int | None = None
    # When it ended (seconds since the epoch, by its node's clock)
    ended: float | None = None
    stack: tuple[str, ...] = ()  # its stack at the deadline, innermost frame first
    # Times of its start, of MPI_Init, and of its last check, by its node's clock.
    began: float | None = None
    initialised: float | None = None
    done: float | None = None
    calls: tuple[Call, ...] = ()  # the MPI calls of its program, as it logged them

    @property
    def call(self) -> Call | None:
        """The MPI call in which the rank is at the end of the log; None: it is in no call."""
        return self.calls[-1] if self.calls and self.calls[-1].ended is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Equal messages, demanded and seen, as numbers; ``src``, ``dest``: in MPI_COMM_WORLD."""

    src: int
    dest: int
    cid: int
    tag: int
    wanted: int
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A message that differs from the case's demand; ``src``, ``dest``: in MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    expected: str
    actual: str
    time: float = 0.0  # when it crossed; 0: it did not
    phase: str = "case"
    by_receiver: bool = False  # whether the receiver failed to do its part


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A message that its receiver answered by SYNCACK; ``src``, ``dest``: in MPI_COMM_WORLD."""

    src: int
    dest: int
    tag: int
    time: float  # when the SYNCACK was captured


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTold:
    """A host by its labels (IMPI 2.3.5), and the source addresses of its connections."""

    client: int
    address: str
    port: int
    ranks: tuple[int, ...]  # its procs
    # Addresses from which it opened channels (IMPI 2.3.8)
    came_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """The commands of clients and server in start-up, as captured."""

    # By client: its last step: ``connect``, ``auth``, ``impi``, ``done``, ``fini``; absent: none.
    reached: Mapping[int, str] = field(default_factory=dict)
    # By client: the authentication method that the server chose (IMPI 2.3.3).
    methods: Mapping[int, int] = field(default_factory=dict)
    # By client: the authentication methods that it offered.
    offers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # By rank: its process id in its client's label P_PID.
    pids: Mapping[int, int] = field(default_factory=dict)
    # Number of procs of each client, from the labels
    clients: tuple[int, ...] = ()
    hosts: tuple[HostTold, ...] = ()  # the hosts, from the labels
    # By client: the lost clients that the server has reported to it; absent: no client.
    losses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The differences between the captured messages and the demands of the case."""

    missing: tuple[Mismatch, ...] = ()  # demanded messages that did not cross
    owed: tuple[Owed, ...] = ()  # the missing messages as numbers
    # Messages with other octets than demanded, in order of time
    wrong: tuple[Mismatch, ...] = ()
    # Messages with another pk_lsrank or pk_count (IMPI 3.5)
    headers: tuple[Mismatch, ...] = ()
    extra: tuple[Mismatch, ...] = ()  # messages without a demand


@dataclass(frozen=True, slots=True)
class Unsealed:
    """Octets between two nodes that are not in TLS."""

    sender: str  # its address
    text: str


@dataclass(frozen=True, slots=True)
class TlsSeen:
    """The connections between nodes, where all must be in TLS."""

    connections: int = 0
    in_clear: tuple[Unsealed, ...] = ()  # the octets that they carry outside of TLS


@dataclass(frozen=True, slots=True)
class Sealing:
    """Addresses whose connections must be in TLS, and the secret that none may carry."""

    addresses: tuple[str, ...]
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The decoded content of the captures."""

    # Reasons not to trust the captures: dropped packets, a missing canary, holes
    untrusted: tuple[str, ...] = ()
    # Breaches of the protocol in order of time, without known deviations of vendors.
    breaches: tuple[Breach, ...] = ()
    startup: StartUp = StartUp()
    compared: Compared = Compared()
    # Pairs of hosts of different clients without a channel (IMPI 2.3.8)
    no_channel: tuple[str, ...] = ()
    # Hosts of a lazy job that have connected without a message
    needless: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()  # hosts that sent no FINI, by channel (IMPI 3.8)
    # Ranks of the first host or client to close a connection without a FINI on it (3.8, 2.3.7).
    left_first: tuple[int, ...] = ()
    # Hosts that closed a channel before the other host, still alive, sent FINI (IMPI 3.8).
    closed_early: tuple[str, ...] = ()
    # The first SYNCACK for messages of MPI_COMM_WORLD of each source, destination and tag.
    answered: tuple[Answered, ...] = ()
    # By rank: time of its last DATA or DATASYNC packet
    last_sent: Mapping[int, float] = field(default_factory=dict)
    timeline: tuple[str, ...] = ()
    messages: int = 0  # number of messages between clients
    tls: TlsSeen = TlsSeen()
    # Unfinished messages at the time of the snapshot; None: there was no snapshot
    standing: Standing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The processor time that a rank had, and that it waited for."""

    had_s: float
    # Seconds that it was runnable without a processor; None: the kernel does not count them
    waited_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A snapshot of a cell that did not end by itself, taken just before the lab ended it."""

    at: float  # seconds since the epoch, by the nodes' clock
    why: str  # ``the time limit`` or ``an interrupt``
    # The kernel's state of each living rank, by node and pid.
    processes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    # By node and pid: the processor time of runnable ranks.
    starved: Mapping[str, Mapping[int, Share]] = field(default_factory=dict)
    # By node: the TCP sockets of its ranks, with the octets in their queues.
    sockets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By node and pid: the stack of the rank, innermost frame first, taken from outside.
    stacks: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # gaps in the observation, with reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault that the lab caused on purpose, and the proof that it happened."""

    kind: str
    phase: str
    began: bool  # whether all ranks reached the phase, and the lab caused the fault
    lasted_s: float = 0.0  # seconds until its end; 0: it was not ended
    victim: int = 0  # the process that got a signal
    what: str = ""  # its command line
    at: float = 0.0  # time of the signal (seconds since the epoch, by its node's clock)
    ended: bool = False  # whether the victim ended after its signal
    still: bool = False  # whether all its threads were stopped after its signal
    thawed_at: float = 0.0  # when it was thawed; 0: it was not
    # Whether it was stopped, or the Docker engine kept the node frozen, until it was thawed
    frozen: bool = False
    # Packets that the kernel dropped or answered by a reset, by the kernel's count
    refused: int = 0
    times: int = 1  # how many times it was caused
    # Average delay of packets in seconds, on the link with the smallest average
    late: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Facts about the nodes of a cell."""

    # By node: SHA-256 of the MPI libraries in its planned vendor's prefix; empty for pure.
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # By node: the path of impi's libmpi for compiled programs; empty: the program is in Python.
    own_libraries: Mapping[str, str] = field(default_factory=dict)
    # By node with a replaced library: the folder that its mapped libraries must come from.
    prefixes: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)  # by node: its address
    node_nonces: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The duration of a cell in seconds, and the offset between its nodes' clocks."""

    # Largest offset between the clocks of two nodes; 0: all nodes have one clock
    clocks_s: float = 0.0
    timed_out: bool = False
    limit_s: float = 0.0
    # The limit by the clock, stretched if other processes used the processors
    waited_s: float = 0.0
    seconds: float = 0.0
    began: float = 0.0  # when the cell was begun (seconds since the epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabTold:
    """The lab's own report on the cell."""

    unseen: tuple[str, ...] = ()  # existing hosts without a capture
    leftovers: tuple[str, ...] = ()  # findings of the sweep after the cell
    # Counters of the links that the variant makes worse; None: it changes no link.
    network: NetworkSeen | None = None
    trouble: str = ""  # the lab's own fault, in one sentence; empty: it had none


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSeen:
    """The output file of a user's program."""

    node: str  # the first node that has the file
    size: int
    sha256: str
    # The cell, or the user's file, whose output it must equal; empty: nothing to compare with
    compared_to: str = ""
    # The place of the first difference, as the end of a sentence; empty: they are equal
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All evidence of a cell."""

    captures: bool  # whether all nodes were captured
    lab: LabTold = LabTold()
    nodes: Nodes = Nodes()
    times: Times = Times()
    hostport: str = (
        ""  # the line HOST:PORT of the server; empty: it did not come in time
    )
    server: CommandSeen | None = None
    clients: tuple[CommandSeen, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    wire: Wire | None = None
    told_key: tuple[str, ...] = ()  # commands whose output has the key of the job
    look: Look | None = None  # None: the cell ended by itself
    # The fault of the variant; None: it has no fault, or the cell did not reach its phase
    fault: FaultSeen | None = None
    # The user's output file; None: no rank has written it, or the user did not ask for it
    output: OutputSeen | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the value of ``evidence.json``: the fields of parts are on the top level."""

        value = _flat(asdict(self), "lab", "nodes", "times")
        value["ranks"] = [
            _flat(rank, "says", "process", "checks") for rank in value["ranks"]
        ]
        value["wire"] = value["wire"] and _flat(value["wire"], "startup", "compared")

        return value


def _flat(record: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Return a record with the values of its parts in place of the parts."""
    values = {name: value for part in parts for name, value in record[part].items()}
    return values | {name: value for name, value in record.items() if name not in parts}
