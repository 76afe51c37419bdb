"""The options of impirun, each declared once: flags, type, range, default, help and label.

A field of :class:`Offer`, :class:`ClientOptions` or :class:`ServerOptions` is an option if its
default comes from an :class:`~impi.settings.Option`. The parser (``impi.cli.impirun``), the checks
of ranges, the labels for other clients (``impi.startup.facts``) and the reference page
(docs/reference/options.md) read these. To add an option, add a field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from impi import variables
from impi.decisions import Decisions
from impi.errors import UsageError
from impi.exit_codes import ExitCode
from impi.job import ALTERNATIVES, REPRODUCIBLE
from impi.quirks import Quirks
from impi.records import names_of, record
from impi.settings import OPTIONS, Option, seconds
from impi.variables import PORTS, port_range
from impi.wire import Label, OwnLabel

HostKind: TypeAlias = Literal["proc", "node", "client"]
HOSTS: Final[tuple[HostKind, ...]] = ("proc", "node", "client")
"""Owner of the channels to other clients: each proc, an agent on each node, or one agent."""
LAUNCHERS: Final = ("mpiexec", "pmi", "outer")
"""What starts the procs of a client."""
ABIS: Final = ("standard", "mpich", "openmpi")
"""Binary interfaces of MPI libraries."""
MIN_TAG_UB: Final = 32767
MAX_INT4: Final = 2**31 - 1
MAX_UINT4: Final = 2**32 - 1
LEAST_SILENCE_S: Final = 5.0
"""More than two heartbeats, which come every 2 s."""


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None


def _some_seconds(text: str) -> float:
    if not (value := seconds(text)):
        raise UsageError(f"{text!r} is not a number of seconds above 0")
    return value


def _silence(text: str) -> float:
    value = seconds(text)
    if 0.0 < value < LEAST_SILENCE_S:
        raise UsageError(f"{text!r} is too short: 0 is no limit, or else at least {LEAST_SILENCE_S:g} s")
    return value


def _collectives(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in chosen:
        if name not in ALTERNATIVES:
            raise UsageError(f"there is no {name!r}; the choices are {', '.join(ALTERNATIVES)}")
    return chosen


def _export(text: str) -> tuple[str, ...]:
    name = text.partition("=")[0]
    if not name.replace("_", "a").isalnum():
        raise UsageError(f"{text!r} is no variable: it is NAME or NAME=VALUE")
    return (text,)


def _abi(text: str) -> str:
    if text not in ABIS:
        raise UsageError(f"there is no ABI {text!r}; the choices are {', '.join(ABIS)}")
    return text


def _quirks(text: str) -> Quirks:
    return Quirks.parse(text.split(","))


def _decisions(path: str) -> Decisions:
    try:
        return Decisions.parse(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{path} is no table of decisions: {error.message}") from None


_SILENCE_S: Final = 10.0


@record(kw_only=True)
class ServerOptions:
    """The command line of ``impirun -server``, and of ``impirun -relay``."""

    count: int = Option(
        "-server --server", "server", "COUNT", _number, 0, "serve a job of COUNT clients", field="count", range=(1, 32),
        clause="2.3.5",
    ).default  # fmt: skip
    interface: str = Option(
        "--interface", "both", "ADDRESS", str, "", "address (client: or interface, or network) to listen on"
    ).default
    port: int = Option(
        "-port --port", "server", "PORT", _number, 0, "TCP port", shown="any free one", range=(0, 65535)
    ).default
    ports: range = Option(
        "--ports", "both", "FIRST-LAST", port_range, range(0),
        "where server and procs listen for other clients, such as 20000-20100, or one port: a client needs one for "
        "each proc of a node, with --hosts client one",
        shown="any free ones", variable=PORTS,
    ).default  # fmt: skip
    heartbeat_timeout_s: float = Option(
        "--heartbeat-timeout", "both", "S", _silence, _SILENCE_S,
        "seconds of silence after which a process of the job that is stopped or cut off is lost; 0: never",
        field="heartbeat_timeout_s", variable="IMPI_HEARTBEAT_TIMEOUT",
    ).default  # fmt: skip
    resilient: bool = Option(
        "--resilient", "both", None, bool, False,
        "the job goes on without a client, or a proc of a client without an MPI library, that is lost; all clients "
        "alike",
    ).default  # fmt: skip
    auth: str | None = Option(
        "-auth --auth",
        "server",
        "LIST",
        str,
        None,
        "authentication methods, best first, such as 31,1: 31 is impi's challenge, 30 that with TLS, 1 a key, 0 none",
    ).default
    tls: bool = Option(
        "--tls", "server", None, bool, False,
        "encrypt what server, clients and their hosts send each other, by TLS 1.3 under the secret: method 30 alone",
    ).default  # fmt: skip
    file: str = Option(
        "-file --file", "server", "APPFILE", str, "", "start the clients that this file lists, too"
    ).default
    """See :mod:`impi.launch.appfile` (IMPI 2.2.3)."""
    slurm: bool = Option(
        "-slurm --slurm", "server", None, bool, False,
        "inside a job of Slurm: start server and one client per component; then follow the arguments of each client, "
        "with a colon between, or those of all",
    ).default  # fmt: skip
    """See :mod:`impi.launch.slurm`."""
    is_relay: bool = Option(
        "-relay", "relay", None, bool, False,
        "accept for clients that have --relay with the address that this prints, until a signal ends it; it takes "
        "--interface, -port, --ports for them, --heartbeat-timeout and -v, and needs the job's secret",
        field="is_relay",
    ).default  # fmt: skip
    """See :mod:`impi.launch.relay`."""
    verbose: bool = Option("-v --verbose", "server", None, bool, False, "tell who joins and ends").default


@record(kw_only=True)
class Offer:
    """A client's offer to the job; checked when made.

    Raises:
        UsageError: a value is out of its range.
    """

    datalen: int = Option(
        "--datalen", "offer", "OCTETS", _number, 256 * 1024, "most user data in a packet",
        range=(1, MAX_UINT4), clause="2.3.5", label=Label.C_DATALEN,
    ).default  # fmt: skip
    ackmark: int = Option(
        "--ackmark", "offer", "N", _number, 32, "packets per acknowledgement", shown="32, or hiwater",
        range=(1, MAX_UINT4), clause="3.9", label=Label.H_ACKMARK,
    ).default  # fmt: skip
    hiwater: int = Option(
        "--hiwater", "offer", "N", _number, 64, "most packets not acknowledged",
        range=(1, MAX_UINT4), clause="3.9", label=Label.H_HIWATER,
    ).default  # fmt: skip
    tag_ub: int | None = Option(
        "--tag-ub", "offer", "TAG", _number, None, "highest tag", shown="the vendor's",
        range=(MIN_TAG_UB, MAX_INT4), clause="3.9", label=Label.C_TAGUB,
    ).default  # fmt: skip
    xsize: int = Option(
        "--xsize", "offer", "OCTETS", _number, -1, "from here a collective is long; all clients alike",
        shown="1024", range=(-1, MAX_INT4), clause="2.3.5", label=Label.C_COLL_XSIZE,
    ).default  # fmt: skip
    maxlinear: int = Option(
        "--maxlinear", "offer", "N", _number, -1, "most clients of a linear collective; all clients alike",
        shown="4", range=(-1, MAX_INT4), clause="2.3.5", label=Label.C_COLL_MAXLINEAR,
    ).default  # fmt: skip
    collectives: tuple[str, ...] = Option[tuple[str, ...]](
        "--collectives", "offer", "LIST", _collectives, (),
        f"other readings where the specification is lost, of {','.join(ALTERNATIVES[:-1])}; {REPRODUCIBLE}: the "
        "bits of reductions depend on nothing but the ranks, which takes longer; all clients alike",
        label=OwnLabel.C_COLLECTIVES,
    ).default  # fmt: skip
    decisions: Decisions | None = Option(
        "--tuning", "offer", "FILE", _decisions, None,
        "algorithms of collectives, by impi tune; one client's is that of all",
        field="decisions", label=OwnLabel.C_TUNING, variable="IMPI_TUNING",
    ).default  # fmt: skip
    verify: int = Option(
        "", "offer", "LEVEL", _number, 0,
        "the calls of every collective are checked against each other: 1 says which do not fit, 2 explains, 3 "
        "compares Info arguments, too, 4 is for assertions, of which these operations have none; all clients "
        "alike", shown="0, off",
        field="verify", range=(0, 4), label=OwnLabel.C_VERIFY, variable="IMPI_VERIFY",
    ).default  # fmt: skip

    def __post_init__(self) -> None:
        for name in names_of(self):
            OPTIONS[name].check(getattr(self, name))
        if self.ackmark > self.hiwater:
            raise UsageError(f"--ackmark is {self.ackmark}, but must be 1 to {self.hiwater}", clause="3.9")


@record(kw_only=True)
class ClientOptions:
    """The command line of ``impirun -client``."""

    rank: int
    """The number of this client."""
    server: str
    """HOST:PORT, as ``impirun -server`` has printed it."""
    argv: tuple[str, ...]
    """The program and its arguments."""
    interface: str = ""
    """Address, interface or network that procs advertise; empty: the one towards the server."""
    heartbeat_timeout_s: float = _SILENCE_S
    """See :class:`ServerOptions`."""
    ports: range = range(0)
    """See :class:`ServerOptions`."""
    resilient: bool = False
    """See :class:`ServerOptions`."""
    procs: int | None = Option(
        "-np -n --np", "client", "N", _number, None, "number of procs", field="procs", shown="all slots, or 1",
        range=(1, MAX_INT4),
    ).default  # fmt: skip
    vendor: str = Option(
        "--vendor", "client", "NAME", str, "pure",
        "what moves messages inside the client; 'impilab ls vendors' shows all", shown="pure, which needs no library",
    ).default  # fmt: skip
    prefix: str = Option("--prefix", "client", "DIR", str, "", "where that MPI library is installed").default
    nodes: str = Option("--nodes", "client", "LIST", str, "", "NODE:SLOTS,NODE:SLOTS,...", shown="this machine").default
    hostfile: str = Option(
        "--hostfile", "client", "FILE", str, "",
        "a line for each node in place of --nodes: 'NODE slots=N', as Open MPI has it, or 'NODE:N', as MPICH does",
    ).default  # fmt: skip
    launcher: str = Option(
        "--launcher", "client", None, str, "mpiexec",
        "what starts the procs of an MPI library: its own mpiexec, or impirun itself, as the process manager of "
        "libraries that speak PMI-1, such as MPICH; outer: srun --mpi=pmi2 or mpiexec has started impirun once for "
        "each proc (pure only)", choices=LAUNCHERS, shown="mpiexec",
    ).default  # fmt: skip
    hosts: str = Option(
        "--hosts", "client", None, str, "proc",
        "what connects to other clients: each proc, an agent on every node, or one agent for all procs",
        choices=HOSTS, shown="proc",
    ).default  # fmt: skip
    relay: str = Option(
        "--relay", "client", "ADDRESS:PORT", str, "",
        "the line of an impirun -relay, where this client's hosts take the connections of others, which they only "
        "fetch from there: behind NAT or a firewall that lets none in",
        shown="they are reached themselves", variable=variables.RELAY,
    ).default  # fmt: skip
    impi_version: str = Option(
        "--impi-version", "client", None, str, "", "offer this version only, even to clients that have ours",
        choices=("0.0",),
    ).default  # fmt: skip
    handles: str = Option(
        "--handles", "client", "ABI", _abi, "",
        "programs get mpi4py itself, so that extension modules compiled for this ABI of MPI can take handles of C "
        "from its objects", choices=ABIS, shown="impi.MPI, which has none", variable="IMPI_HANDLES",
    ).default  # fmt: skip
    external32: bool = Option(
        "--external32", "client", None, bool, False,
        "user data between clients is external32, even where all of them have it alike in memory",
    ).default  # fmt: skip
    stand_in: bool = Option(
        "--stand-in", "client", None, bool, False,
        "a compiled program has impi's library alone, even if it was compiled for this client's",
    ).default  # fmt: skip
    explain: bool = Option(
        "--explain", "client", None, bool, False,
        "say how the program reaches MPI, start it, and say who connects to whom, and to which ports",
    ).default  # fmt: skip
    label: bool = Option(
        "-l --label", "client", None, bool, False, "before each line of output stand the numbers of client and rank",
    ).default  # fmt: skip
    exports: tuple[str, ...] = Option[tuple[str, ...]](
        "-x", "client", "VAR[=VALUE]", _export, (),
        "procs on all nodes get this variable, as it is here or with that value; may come several times",
        field="exports", many=True,
    ).default  # fmt: skip
    timeout_s: float = Option(
        "--timeout", "client", "S", _some_seconds, 0.0,
        f"seconds after which the job is ended, with exit code {int(ExitCode.TIMEOUT)}", field="timeout_s",
        shown="never",
    ).default  # fmt: skip
    start_timeout_s: float = Option(
        "--start-timeout", "client", "S", _some_seconds, 60.0,
        "seconds that procs may start after the first", field="start_timeout_s",
    ).default  # fmt: skip
    lazy: bool = Option(
        "--lazy", "client", None, bool, False,
        "procs of two clients connect when the first message needs it, and not at the start; where all clients have "
        "this option",
    ).default  # fmt: skip
    quirks: Quirks = Option(
        "--peer-quirks", "peers", "LIST", _quirks, Quirks(),
        "little-endian: user data is native, not external32; reduce-on-p2p: Reduce uses the point-to-point "
        "context id, and tag 190 is its own. LAM/MPI: little-endian,reduce-on-p2p", field="quirks",
    ).default  # fmt: skip
    offer: Offer = Offer()


Option(
    "",
    "procs",
    "DIR",
    str,
    "",
    "has a folder for each vendor, as images/ of a checkout has",
    variable=variables.VENDORS,
)
Option(
    "", "procs", "DIR", str, "", "ends in the vendor's name, as in _MPICH: where that library is installed",
    variable=variables.PREFIX,
)  # fmt: skip
