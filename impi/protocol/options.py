"""The options of impirun, each declared once: flags, type, range, default, help and label.

A field of :class:`ClientOptions`, :class:`ServerOptions` or one of their parts is an option if
:func:`~impi.protocol.settings.option` declares it. :func:`~impi.protocol.settings.made` makes an
object of either class.
The parser (``impi.cli.impirun``), the checks of ranges, the labels for other clients
(``impi.protocol.startup.facts``) and the reference page (docs/reference/options.md) read the table
:data:`OPTIONS`. To add an option, add a field, and read it as ``options.PART.NAME``;
CONTRIBUTING.md names what else belongs to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from impi.base import variables
from impi.base.errors import UsageError, unread
from impi.base.exit_codes import ExitCode
from impi.base.variables import PORTS, port_range
from impi.protocol.decisions import BY_SPECIFICATION, SPECIFICATION, Decisions
from impi.protocol.job import ACKMARK, ALTERNATIVES, DATALEN, HIWATER, REPRODUCIBLE
from impi.protocol.quirks import Quirks
from impi.protocol.settings import (
    AUTH_KEY,
    AUTH_NONE,
    AUTH_SECRET,
    AUTH_WEAK,
    NAMESERVER,
    SPIN,
    ZERO_COPY,
    Option,
    has_options,
    option,
    options_of,
    seconds,
)
from impi.protocol.wire import Label, OwnLabel

HostKind: TypeAlias = Literal["proc", "node", "client"]
HOSTS: Final[tuple[HostKind, ...]] = ("proc", "node", "client")
"""Owners of a client's channels to others: each proc, an agent on each node, or one agent."""
LAUNCHERS: Final = ("auto", "mpiexec", "pmi", "outer")
"""Values of ``--launcher``: the programs that can start the procs of a client."""
ABIS: Final = ("standard", "mpich", "openmpi")
"""ABIs of MPI libraries, as ``--abi`` and ``--handles`` name them."""
MIN_TAG_UB: Final = 32767
MAX_INT4: Final = 2**31 - 1
MAX_UINT4: Final = 2**32 - 1
GRACE_S: Final = 2.0
"""Default of ``--grace``: seconds from SIGTERM to SIGKILL for a proc."""
LEAST_SILENCE_S: Final = 5.0
"""Least ``--heartbeat-timeout`` in seconds: more than two heartbeats, which come every 2 s."""


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
        raise UsageError(
            f"{text!r} is too short: give 0 for no limit, or at least {LEAST_SILENCE_S:g} s"
        )
    return value


def _collectives(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in chosen:
        if name not in ALTERNATIVES:
            raise UsageError(
                f"there is no {name!r}; the choices are {', '.join(ALTERNATIVES)}"
            )
    return chosen


def _export(text: str) -> tuple[str, ...]:
    name = text.partition("=")[0]
    if not name.replace("_", "a").isalnum():
        raise UsageError(f"{text!r} is not a variable: write NAME or NAME=VALUE")
    return (text,)


def _abi(text: str) -> str:
    if text not in ABIS:
        raise UsageError(f"there is no ABI {text!r}; the choices are {', '.join(ABIS)}")
    return text


def _quirks(text: str) -> Quirks:
    return Quirks.parse(text.split(","))


def _decisions(path: str) -> Decisions:
    if path == SPECIFICATION:
        return BY_SPECIFICATION
    try:
        return Decisions.parse(Path(path).read_bytes())
    except OSError as error:
        raise unread(path, error) from None
    except UsageError as error:
        raise UsageError(
            f"{path} is not a table of decisions: {error.message}"
        ) from None


_SILENCE_S: Final = 10.0


@has_options
class Common:
    """Options that both the server and the clients have."""

    interface: str = option(
        flags="--interface",
        side="both",
        metavar="ADDRESS",
        parse=str,
        default="",
        help="address to listen on; a client also takes an interface or a network",
    )

    ports: range = option(
        flags="--ports",
        side="both",
        metavar="FIRST-LAST",
        parse=port_range,
        default=range(0),
        help="ports on which server and procs listen for other clients, such as 20000-20100. A client "
        "needs one port for each proc of a node, or one in all with --hosts client",
        shown="any free ones",
        variable=PORTS,
    )

    auth: str | None = option(
        flags="-auth --auth",
        side="both",
        metavar="LIST",
        parse=str,
        default=None,
        help="authentication methods, best first, such as 31,1. 31 is impi's challenge, 30 the same with "
        "TLS, 1 a key that a client sends in clear, 0 none",
    )

    heartbeat_timeout_s: float = option(
        flags="--heartbeat-timeout",
        side="both",
        metavar="S",
        parse=_silence,
        default=_SILENCE_S,
        help="seconds after which a process of the job that is stopped or cut off counts as lost; 0: never",
        variable="IMPI_HEARTBEAT_TIMEOUT",
    )

    grace_s: float = option(
        flags="--grace",
        side="both",
        metavar="S",
        parse=_some_seconds,
        default=GRACE_S,
        help="seconds between SIGTERM and SIGKILL, in which procs can save their state. Give it to the "
        "server, too, if the server starts clients",
        variable="IMPI_GRACE",
    )

    resilient: bool = option(
        flags="--resilient",
        side="both",
        parse=bool,
        default=False,
        help="go on without a client that is lost, or without a lost proc of a client that has no MPI "
        "library. Give it to all clients",
    )


@has_options
class ServerOptions:
    """The options of ``impirun -server``, and of ``impirun -relay``."""

    common: Common = Common()

    count: int = option(
        flags="-server --server",
        side="server",
        metavar="COUNT",
        parse=_number,
        default=0,
        help="serve a job of COUNT clients",
        # A client has one bit of the 32 of client_mask (2.3.5).
        range=(1, 32),
        clause="2.3.5",
    )

    port: int = option(
        flags="-port --port",
        side="server",
        metavar="PORT",
        parse=_number,
        default=0,
        help="TCP port",
        shown="any free one",
        range=(0, 65535),
    )

    tls: bool = option(
        flags="--tls",
        side="server",
        parse=bool,
        default=False,
        help="encrypt the traffic between server, clients and their hosts, by TLS 1.3 under the secret "
        "(authentication method 30 alone)",
    )

    file: str = option(
        flags="-file --file",
        side="server",
        metavar="APPFILE",
        parse=str,
        default="",
        help="also start the clients that this file lists",
    )
    """See :mod:`impi.launch.server.appfile` (IMPI 2.2.3)."""

    slurm: bool = option(
        flags="-slurm --slurm",
        side="server",
        parse=bool,
        default=False,
        help="inside a job of Slurm, start the server and one client per component. Then give the "
        "arguments of each client, with a colon between, or one set for all",
    )
    """See :mod:`impi.launch.server.slurm`."""

    is_relay: bool = option(
        flags="-relay",
        side="relay",
        parse=bool,
        default=False,
        help="accept connections for clients, until a signal ends it. Start these clients with --relay "
        "and the address that this command prints. It needs the job's secret, and takes --interface, "
        "-port, --ports (for the clients), --heartbeat-timeout and -v",
    )
    """See :mod:`impi.launch.relay.far_end`."""

    verbose: bool = option(
        flags="-v --verbose",
        side="server",
        parse=bool,
        default=False,
        help="report each client that joins or ends",
    )


@has_options
class Offer:
    """The values that a client offers to the job; the constructor checks them.

    Raises:
        UsageError: a value is out of its range.
    """

    datalen: int = option(
        flags="--datalen",
        side="offer",
        metavar="OCTETS",
        parse=_number,
        default=DATALEN,
        help="most user data in a packet",
        range=(1, MAX_UINT4),
        clause="2.3.5",
        label=Label.C_DATALEN,
    )

    ackmark: int = option(
        flags="--ackmark",
        side="offer",
        metavar="N",
        parse=_number,
        default=ACKMARK,
        help="number of packets that one acknowledgement covers",
        shown="32, or hiwater",
        range=(1, MAX_UINT4),
        clause="3.9",
        label=Label.H_ACKMARK,
    )

    hiwater: int = option(
        flags="--hiwater",
        side="offer",
        metavar="N",
        parse=_number,
        default=HIWATER,
        help="most packets not acknowledged",
        range=(1, MAX_UINT4),
        clause="3.9",
        label=Label.H_HIWATER,
    )

    tag_ub: int | None = option(
        flags="--tag-ub",
        side="offer",
        metavar="TAG",
        parse=_number,
        default=None,
        help="highest tag",
        # Known only once a proc has loaded its MPI library, long after the command line was read.
        shown="the vendor's",
        range=(MIN_TAG_UB, MAX_INT4),
        clause="3.9",
        label=Label.C_TAGUB,
    )

    xsize: int = option(
        flags="--xsize",
        side="offer",
        metavar="OCTETS",
        parse=_number,
        # 2.3.5: -1 tells that the user has chosen nothing, and agrees with a 1024 of others.
        default=-1,
        help="size from which collectives take the algorithm for long data; give all clients the "
        "same",
        shown="1024",
        range=(-1, MAX_INT4),
        clause="2.3.5",
        label=Label.C_COLL_XSIZE,
    )

    maxlinear: int = option(
        flags="--maxlinear",
        side="offer",
        metavar="N",
        parse=_number,
        default=-1,
        help="most clients with which collectives are linear; give all clients the same",
        shown="4",
        range=(-1, MAX_INT4),
        clause="2.3.5",
        label=Label.C_COLL_MAXLINEAR,
    )

    collectives: tuple[str, ...] = option(
        flags="--collectives",
        side="offer",
        metavar="LIST",
        parse=_collectives,
        default=(),
        help="other readings where the specification's text is lost, from "
        f"{','.join(ALTERNATIVES[:-1])}. The word {REPRODUCIBLE} makes the bits of reductions depend on "
        "nothing but the ranks, which takes longer. Give all clients the same",
        label=OwnLabel.C_COLLECTIVES,
    )

    decisions: Decisions | None = option(
        flags="--tuning",
        side="offer",
        metavar="FILE",
        parse=_decisions,
        default=None,
        help=f"file of impi tune that chooses the algorithms of collectives. The word {SPECIFICATION} takes "
        "those of IMPI's chapter 4. The choice of one client holds for all",
        label=OwnLabel.C_TUNING,
        variable="IMPI_TUNING",
    )

    verify: int = option(
        side="offer",
        metavar="LEVEL",
        parse=_number,
        default=0,
        help="check the calls of every collective against each other: 1 names calls that do not fit, "
        "2 explains, 3 also compares Info arguments. 4 is for assertions, which these operations do "
        "not have. Give all clients the same",
        shown="0, off",
        range=(0, 4),
        label=OwnLabel.C_VERIFY,
        variable="IMPI_VERIFY",
    )

    def __post_init__(self) -> None:
        for each in options_of(self):
            each.check(getattr(self, each.name))
        if self.ackmark > self.hiwater:
            raise UsageError(
                f"--ackmark is {self.ackmark}, but must be 1 to {self.hiwater}",
                clause="3.9",
            )


@has_options
class Placement:
    """Options for the procs: how many, on which nodes, and what starts them."""

    procs: int | None = option(
        flags="-np -n --np",
        side="client",
        metavar="N",
        parse=_number,
        default=None,
        help="number of procs",
        shown="all slots, or 1",
        range=(1, MAX_INT4),
    )

    vendor: str = option(
        flags="--vendor",
        side="client",
        metavar="NAME",
        parse=str,
        default="pure",
        help="MPI library that moves messages inside the client; 'impilab ls vendors' lists them",
        shown="pure, which needs no library",
    )

    prefix: str = option(
        flags="--prefix",
        side="client",
        metavar="DIR",
        parse=str,
        default="",
        help="folder where that MPI library is installed",
    )

    nodes: str = option(
        flags="--nodes",
        side="client",
        metavar="LIST",
        parse=str,
        default="",
        help="nodes of the procs, as NODE:SLOTS,NODE:SLOTS,...",
        shown="this machine",
    )

    hostfile: str = option(
        flags="--hostfile",
        side="client",
        metavar="FILE",
        parse=str,
        default="",
        help="file with a line for each node, instead of --nodes: 'NODE slots=N' as for Open MPI, or "
        "'NODE:N' as for MPICH",
    )

    host: str = option(
        flags="-host --host -H",
        side="part",
        metavar="LIST",
        parse=str,
        default="",
        help="machine where this client runs, by ssh in the same folder. With NODE:SLOTS,NODE:SLOTS,... "
        "it runs on the first node, and its procs on all; --nodes places procs alone",
        shown="this machine",
    )

    launcher: str = option(
        flags="--launcher",
        side="client",
        parse=str,
        default="auto",
        help="program that starts the procs of an MPI library. mpiexec: the library's own. pmi: impirun "
        "itself, as process manager of libraries that speak PMI-1, such as MPICH. auto: impirun if it "
        "can and all procs are on this machine, otherwise mpiexec. outer: srun --mpi=pmi2 or mpiexec "
        "has started impirun once for each proc (only with --vendor pure)",
        shown="auto",
        choices=LAUNCHERS,
    )


@has_options
class Reach:
    """Options for the connections between hosts of this client and of other clients."""

    hosts: str = option(
        flags="--hosts",
        side="client",
        parse=str,
        default="proc",
        help="processes that connect to other clients: each proc, an agent on every node, or one agent "
        "for the whole client",
        shown="proc",
        choices=HOSTS,
    )

    relay: str = option(
        flags="--relay",
        side="client",
        metavar="ADDRESS:PORT",
        parse=str,
        default="",
        help="line that impirun -relay has printed. Use it behind NAT or a firewall that lets no "
        "connection in: the relay accepts for this client's hosts, which fetch the connections there",
        shown="hosts accept connections themselves",
        variable=variables.RELAY,
    )

    source: str = option(
        flags="--source",
        side="client",
        metavar="ADDRESS",
        parse=str,
        default="",
        help="address, interface or network from which this client's hosts connect to other clients, if "
        "it differs from the one that they advertise",
        shown="the one of --interface",
    )

    strict_addresses: bool = option(
        flags="--strict-addresses",
        side="client",
        parse=bool,
        default=False,
        help="end the job, and do not only warn, if a host of IMPI 0.0 connects from an address "
        "not known as its client's",
    )

    own_network: bool = option(
        flags="--own-network",
        side="client",
        parse=bool,
        default=False,
        help="let the MPI library, its mpiexec and srun send in clear between this client's nodes, "
        "even with --tls. Give it only if no stranger reads that network",
    )

    impi_version: str = option(
        flags="--impi-version",
        side="client",
        parse=str,
        default="",
        help="offer this version of IMPI only, even to clients of impi, which have a later one",
        choices=("0.0",),
    )

    external32: bool = option(
        flags="--external32",
        side="client",
        parse=bool,
        default=False,
        help="send user data between clients as external32, even if all clients store it in the same "
        "form",
    )

    lazy: bool = option(
        flags="--lazy",
        side="client",
        parse=bool,
        default=False,
        help="connect procs of two clients at their first message, and not at the start. It takes "
        "effect if all clients have this option",
    )

    quirks: Quirks = option(
        flags="--peer-quirks",
        side="peers",
        metavar="LIST",
        parse=_quirks,
        default=Quirks(),
        help="deviations of other clients. little-endian: user data is native, not external32. "
        "reduce-on-p2p: Reduce uses the point-to-point context id, and tag 190 is its own. For "
        "LAM/MPI, give little-endian,reduce-on-p2p",
    )


@has_options
class Running:
    """Options for how the program runs, and for how long."""

    handles: str = option(
        flags="--handles",
        side="client",
        metavar="ABI",
        parse=_abi,
        default="",
        help="give programs mpi4py itself. Extension modules compiled for this ABI of MPI can then take "
        "handles of C from its objects",
        shown="impi.MPI, which has no such handles",
        choices=ABIS,
        variable="IMPI_HANDLES",
    )

    abi: str = option(
        flags="--abi",
        side="client",
        metavar="ABI",
        parse=_abi,
        default="",
        help="load impi's library of this ABI of MPI into all processes of the program. A program that "
        "opens libmpi while it runs needs it",
        shown="the ABI of each program that is linked with libmpi",
        choices=ABIS,
        variable="IMPI_ABI",
    )

    stand_in: bool = option(
        flags="--stand-in",
        side="client",
        parse=bool,
        default=False,
        help="give a compiled program impi's library alone, even if it was compiled for the library of "
        "this client",
    )

    explain: bool = option(
        flags="--explain",
        side="client",
        parse=bool,
        default=False,
        help="print how the program reaches MPI, start it, and print which processes connect, and to "
        "which ports",
    )

    label: bool = option(
        flags="-l --label",
        side="client",
        parse=bool,
        default=False,
        help="put the numbers of client and rank before each line of output",
    )

    exports: tuple[str, ...] = option(
        flags="-x",
        side="client",
        metavar="VAR[=VALUE]",
        parse=_export,
        default=(),
        help="give procs on all nodes this variable, with its value here or with VALUE; you may repeat "
        "the option",
        many=True,
    )

    timeout_s: float = option(
        flags="--timeout",
        side="client",
        metavar="S",
        parse=_some_seconds,
        default=0.0,
        help=f"seconds after which the job is ended, with exit code {int(ExitCode.TIMEOUT)}",
        shown="never",
    )

    start_timeout_s: float = option(
        flags="--start-timeout",
        side="client",
        metavar="S",
        parse=_some_seconds,
        default=60.0,
        help="seconds after the start of the first proc in which all others must start",
    )


@has_options
class ClientOptions:
    """The options of ``impirun -client``, and its program with arguments."""

    rank: int
    """The number of this client."""
    server: str
    """HOST:PORT, as ``impirun -server`` has printed it."""
    argv: tuple[str, ...]
    """The program and its arguments."""
    common: Common = Common()
    placement: Placement = Placement()
    reach: Reach = Reach()
    running: Running = Running()
    offer: Offer = Offer()


VENDORS: Final = Option(
    side="procs",
    metavar="DIR",
    parse=str,
    default="",
    help="folder that has a folder for each vendor, as images/ of a checkout has",
    variable=variables.VENDORS,
)
PREFIX: Final = Option(
    side="procs",
    metavar="DIR",
    parse=str,
    default="",
    help="folder where a vendor's library is installed; the variable ends in the vendor's name, as in "
    "_MPICH",
    variable=variables.PREFIX,
)

OPTIONS: Final[dict[str, Option[object]]] = {
    each.name: each
    for each in (
        SPIN,
        ZERO_COPY,
        AUTH_KEY,
        AUTH_SECRET,
        AUTH_WEAK,
        AUTH_NONE,
        NAMESERVER,
        *options_of(ServerOptions),
        *options_of(Offer),
        *options_of(ClientOptions),
        VENDORS,
        PREFIX,
    )
}
"""All options by their names, in the order of the help."""
