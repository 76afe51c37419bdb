"""The options of impirun, each declared once: flags, type, range, default, help and label.

A field of :class:`ClientOptions`, :class:`ServerOptions`, or of a part of theirs, is an option if
:func:`~impi.protocol.settings.option` declares it; :func:`~impi.protocol.settings.made` makes both.
The parser (``impi.cli.impirun``), the checks of ranges, the labels for other clients
(``impi.protocol.startup.facts``) and the reference page (docs/reference/options.md) read the table
:data:`OPTIONS`. To add an option, add a field, and read it as ``options.PART.NAME``;
CONTRIBUTING.md names what else belongs to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

from impi.base import variables
from impi.base.errors import UsageError
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
"""Owner of the channels to other clients: each proc, an agent on each node, or one agent."""
LAUNCHERS: Final = ("auto", "mpiexec", "pmi", "outer")
"""What starts the procs of a client."""
ABIS: Final = ("standard", "mpich", "openmpi")
"""Binary interfaces of MPI libraries."""
MIN_TAG_UB: Final = 32767
MAX_INT4: Final = 2**31 - 1
MAX_UINT4: Final = 2**32 - 1
GRACE_S: Final = 2.0
"""Seconds from SIGTERM to SIGKILL for a proc, if the user says nothing."""
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
    if path == SPECIFICATION:
        return BY_SPECIFICATION
    try:
        return Decisions.parse(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{path} is no table of decisions: {error.message}") from None


_SILENCE_S: Final = 10.0


@has_options
class Common:
    """What server and clients have alike."""

    interface: str = option(
        flags="--interface",
        side="both",
        metavar="ADDRESS",
        parse=str,
        default="",
        help="address (client: or interface, or network) to listen on",
    )

    ports: range = option(
        flags="--ports",
        side="both",
        metavar="FIRST-LAST",
        parse=port_range,
        default=range(0),
        help="where server and procs listen for other clients, such as 20000-20100, or one port: a client "
        "needs one for each proc of a node, with --hosts client one",
        shown="any free ones",
        variable=PORTS,
    )

    auth: str | None = option(
        flags="-auth --auth",
        side="both",
        metavar="LIST",
        parse=str,
        default=None,
        help="authentication methods, best first, such as 31,1: 31 is impi's challenge, 30 that with TLS, "
        "1 a key, which a client sends in clear, 0 none",
    )

    heartbeat_timeout_s: float = option(
        flags="--heartbeat-timeout",
        side="both",
        metavar="S",
        parse=_silence,
        default=_SILENCE_S,
        help="seconds of silence after which a process of the job that is stopped or cut off is lost; 0: never",
        variable="IMPI_HEARTBEAT_TIMEOUT",
    )

    grace_s: float = option(
        flags="--grace",
        side="both",
        metavar="S",
        parse=_some_seconds,
        default=GRACE_S,
        help="seconds that procs have after SIGTERM, as to save their state, before they are killed; the server needs "
        "it where it starts clients, too",
        variable="IMPI_GRACE",
    )

    resilient: bool = option(
        flags="--resilient",
        side="both",
        parse=bool,
        default=False,
        help="the job goes on without a client, or a proc of a client without an MPI library, that is "
        "lost; all clients alike",
    )


@has_options
class ServerOptions:
    """The command line of ``impirun -server``, and of ``impirun -relay``."""

    common: Common = Common()

    count: int = option(
        flags="-server --server",
        side="server",
        metavar="COUNT",
        parse=_number,
        default=0,
        help="serve a job of COUNT clients",
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
        help="encrypt what server, clients and their hosts send each other, by TLS 1.3 under the secret: "
        "method 30 alone",
    )

    file: str = option(
        flags="-file --file",
        side="server",
        metavar="APPFILE",
        parse=str,
        default="",
        help="start the clients that this file lists, too",
    )
    """See :mod:`impi.launch.server.appfile` (IMPI 2.2.3)."""

    slurm: bool = option(
        flags="-slurm --slurm",
        side="server",
        parse=bool,
        default=False,
        help="inside a job of Slurm: start server and one client per component; then follow the arguments "
        "of each client, with a colon between, or those of all",
    )
    """See :mod:`impi.launch.server.slurm`."""

    is_relay: bool = option(
        flags="-relay",
        side="relay",
        parse=bool,
        default=False,
        help="accept for clients that have --relay with the address that this prints, until a signal ends it; it takes "
        "--interface, -port, --ports for them, --heartbeat-timeout and -v, and needs the job's secret",
    )
    """See :mod:`impi.launch.relay.far_end`."""

    verbose: bool = option(
        flags="-v --verbose",
        side="server",
        parse=bool,
        default=False,
        help="tell who joins and ends",
    )


@has_options
class Offer:
    """A client's offer to the job; checked when made.

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
        help="packets per acknowledgement",
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
        default=-1,
        help="from here a collective is long; all clients alike",
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
        help="most clients of a linear collective; all clients alike",
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
        help=f"other readings where the specification is lost, of {','.join(ALTERNATIVES[:-1])}; {REPRODUCIBLE}: the "
        "bits of reductions depend on nothing but the ranks, which takes longer; all clients alike",
        label=OwnLabel.C_COLLECTIVES,
    )

    decisions: Decisions | None = option(
        flags="--tuning",
        side="offer",
        metavar="FILE",
        parse=_decisions,
        default=None,
        help=f"algorithms of collectives, by impi tune; {SPECIFICATION}: those of IMPI's chapter 4; one client's is "
        "that of all",
        label=OwnLabel.C_TUNING,
        variable="IMPI_TUNING",
    )

    verify: int = option(
        side="offer",
        metavar="LEVEL",
        parse=_number,
        default=0,
        help="the calls of every collective are checked against each other: 1 says which do not fit, 2 explains, 3 "
        "compares Info arguments, too, 4 is for assertions, of which these operations have none; all clients "
        "alike",
        shown="0, off",
        range=(0, 4),
        label=OwnLabel.C_VERIFY,
        variable="IMPI_VERIFY",
    )

    def __post_init__(self) -> None:
        for each in options_of(self):
            each.check(getattr(self, each.name))
        if self.ackmark > self.hiwater:
            raise UsageError(f"--ackmark is {self.ackmark}, but must be 1 to {self.hiwater}", clause="3.9")


@has_options
class Placement:
    """Which procs there are, where, and what starts them."""

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
        help="what moves messages inside the client; 'impilab ls vendors' shows all",
        shown="pure, which needs no library",
    )

    prefix: str = option(
        flags="--prefix",
        side="client",
        metavar="DIR",
        parse=str,
        default="",
        help="where that MPI library is installed",
    )

    nodes: str = option(
        flags="--nodes",
        side="client",
        metavar="LIST",
        parse=str,
        default="",
        help="NODE:SLOTS,NODE:SLOTS,...",
        shown="this machine",
    )

    hostfile: str = option(
        flags="--hostfile",
        side="client",
        metavar="FILE",
        parse=str,
        default="",
        help="a line for each node in place of --nodes: 'NODE slots=N', as Open MPI has it, or 'NODE:N', as MPICH does",
    )

    host: str = option(
        flags="-host --host -H",
        side="part",
        metavar="LIST",
        parse=str,
        default="",
        help="the machine where this client runs, by ssh in the same folder, or NODE:SLOTS,NODE:SLOTS,...: then it "
        "runs on the first one, and its procs on all; --nodes places procs alone",
        shown="this machine",
    )

    launcher: str = option(
        flags="--launcher",
        side="client",
        parse=str,
        default="auto",
        help="what starts the procs of an MPI library: its own mpiexec, or (pmi) impirun itself, as the process "
        "manager of libraries that speak PMI-1, such as MPICH; auto: impirun where it can and all procs are on this "
        "machine, else mpiexec; outer: srun --mpi=pmi2 or mpiexec has started impirun once for each proc (pure only)",
        shown="auto",
        choices=LAUNCHERS,
    )


@has_options
class Reach:
    """How the hosts of this client and those of others meet."""

    hosts: str = option(
        flags="--hosts",
        side="client",
        parse=str,
        default="proc",
        help="what connects to other clients: each proc, an agent on every node, or one agent for all procs",
        shown="proc",
        choices=HOSTS,
    )

    relay: str = option(
        flags="--relay",
        side="client",
        metavar="ADDRESS:PORT",
        parse=str,
        default="",
        help="the line of an impirun -relay, where this client's hosts take the connections of others, which they only "
        "fetch from there: behind NAT or a firewall that lets none in",
        shown="they are reached themselves",
        variable=variables.RELAY,
    )

    source: str = option(
        flags="--source",
        side="client",
        metavar="ADDRESS",
        parse=str,
        default="",
        help="address, interface or network of the nodes that hosts connect to those of other clients from, where that "
        "is not the one that they advertise",
        shown="the one of --interface",
    )

    strict_addresses: bool = option(
        flags="--strict-addresses",
        side="client",
        parse=bool,
        default=False,
        help="refuse hosts of IMPI 0.0 that connect from another address than their client is known by, and end the "
        "job, in place of a warning",
    )

    impi_version: str = option(
        flags="--impi-version",
        side="client",
        parse=str,
        default="",
        help="offer this version only, even to clients that have ours",
        choices=("0.0",),
    )

    external32: bool = option(
        flags="--external32",
        side="client",
        parse=bool,
        default=False,
        help="user data between clients is external32, even where all of them have it alike in memory",
    )

    lazy: bool = option(
        flags="--lazy",
        side="client",
        parse=bool,
        default=False,
        help="procs of two clients connect when the first message needs it, and not at the start; where "
        "all clients have this option",
    )

    quirks: Quirks = option(
        flags="--peer-quirks",
        side="peers",
        metavar="LIST",
        parse=_quirks,
        default=Quirks(),
        help="little-endian: user data is native, not external32; reduce-on-p2p: Reduce uses the point-to-point "
        "context id, and tag 190 is its own. LAM/MPI: little-endian,reduce-on-p2p",
    )


@has_options
class Running:
    """How the program runs, and for how long."""

    handles: str = option(
        flags="--handles",
        side="client",
        metavar="ABI",
        parse=_abi,
        default="",
        help="programs get mpi4py itself, so that extension modules compiled for this ABI of MPI can take handles of C "
        "from its objects",
        shown="impi.MPI, which has none",
        choices=ABIS,
        variable="IMPI_HANDLES",
    )

    abi: str = option(
        flags="--abi",
        side="client",
        metavar="ABI",
        parse=_abi,
        default="",
        help="impi's library of this ABI of MPI is in all processes of the program, which opens libmpi while it runs",
        shown="that of each program that is linked with libmpi",
        choices=ABIS,
        variable="IMPI_ABI",
    )

    stand_in: bool = option(
        flags="--stand-in",
        side="client",
        parse=bool,
        default=False,
        help="a compiled program has impi's library alone, even if it was compiled for this client's",
    )

    explain: bool = option(
        flags="--explain",
        side="client",
        parse=bool,
        default=False,
        help="say how the program reaches MPI, start it, and say who connects to whom, and to which ports",
    )

    label: bool = option(
        flags="-l --label",
        side="client",
        parse=bool,
        default=False,
        help="before each line of output stand the numbers of client and rank",
    )

    exports: tuple[str, ...] = option(
        flags="-x",
        side="client",
        metavar="VAR[=VALUE]",
        parse=_export,
        default=(),
        help="procs on all nodes get this variable, as it is here or with that value; may come several times",
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
        help="seconds that procs may start after the first",
    )


@has_options
class ClientOptions:
    """The command line of ``impirun -client``."""

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
    help="has a folder for each vendor, as images/ of a checkout has",
    variable=variables.VENDORS,
)
PREFIX: Final = Option(
    side="procs",
    metavar="DIR",
    parse=str,
    default="",
    help="ends in the vendor's name, as in _MPICH: where that library is installed",
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
