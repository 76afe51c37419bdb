"""Check a client's options before any proc starts, and make the plan of its start.

How it works: :func:`make_plan` checks nodes, MPI library, program and interface, in the order in
which each answer depends on the one before, and returns a :class:`Plan`. The plan says which
launcher starts the procs, and with which command. All of that happens before the client joins: a
mistake found later would end the job at all clients, and one found now costs this user one
sentence.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from impi.base.errors import UsageError, refuse, unread
from impi.base.manifests import Manifest, backed
from impi.base.records import record
from impi.base.remote.starter_lines import Leaves
from impi.base.variables import PORTS
from impi.launch.client.outer import Tasks, check
from impi.launch.start import nodes as placing
from impi.launch.start.compiled import handles_environment, served, usher_environment
from impi.launch.start.launchers import (
    HydraLauncher,
    PmiLauncher,
    PrteLauncher,
    PureLauncher,
    SrunLauncher,
    leaves_of,
)
from impi.launch.start.prefix import Installation, find
from impi.launch.start.program import Launcher, exported
from impi.launch.start.remote_shell import in_slurm
from impi.protocol.options import ClientOptions
from impi.rank.vendors import interfaces
from impi.rank.vendors.binding import is_missing, no_mpi4py
from impi.rank.vendors.dial import plain


@record
class Plan:
    """A client's nodes, launcher, program and addresses, all checked."""

    placed: tuple[placing.Node, ...]
    launcher: Launcher
    argv: tuple[str, ...]
    way: str
    variables: Mapping[str, str]
    leaves: Leaves
    one_node: bool
    # Whether procs need no address that other clients reach: an agent here has one
    inside: bool
    interface: str
    # --interface for procs: an address, or a name or network to look up on each node
    advertised: str

    @property
    def manages(self) -> bool:
        """Whether impirun is the process manager of the library."""
        return isinstance(self.launcher, PmiLauncher)

    @property
    def is_carried(self) -> bool:
        """Whether an mpiexec carries the environment of procs to other nodes."""
        return bool(self.launcher.library) and not self.manages and not self.one_node

    def hosts(self, kind: str) -> int:
        """Return the number of hosts for a kind from :data:`impi.protocol.options.HOSTS`."""
        return {
            "proc": sum(node.slots for node in self.placed),
            "node": len(self.placed),
            "client": 1,
        }[kind]


def plan_client(
    options: ClientOptions,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    stack: ExitStack,
) -> tuple[Tasks | None, Plan]:
    """Return the tasks of an outer process manager (``--launcher outer``), and the plan.

    Args:
        stack: closes the tasks at its end.

    Raises:
        UsageError: as in :func:`make_plan`.
        StartupError: the outer process manager has ended.
    """
    tasks = (
        stack.enter_context(closing(Tasks(environ)))
        if options.placement.launcher == "outer"
        else None
    )
    return tasks, make_plan(options, environ, warn, tasks)


def make_plan(
    options: ClientOptions,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    tasks: Tasks | None = None,
) -> Plan:
    """Check nodes, library, program and interface, and return the plan.

    Args:
        tasks: the tasks of an outer process manager, which has placed the procs; None: there is
            none.

    Raises:
        UsageError: a node, library, program or interface does not exist, or options contradict
            each other.
        LaunchError: no MPI library was found, or a library for the program cannot be compiled.
    """

    _check_version(options)
    if tasks is not None:
        check(
            options,
            tasks,
            library=backed(options.placement.vendor).library.launcher != "none",
        )
        placed = tasks.placed
    else:
        nodes = _nodes(options)
        placed = placing.place(
            options.placement.procs or sum(node.slots for node in nodes) or 1, nodes
        )

    one_node = len(placed) == 1 and placing.is_here(placed[0].name)
    inside = not one_node and options.reach.hosts == "client"
    launcher = _launcher(options, environ, one_node=one_node)
    argv = _resolve(options.argv, any(placing.is_here(node.name) for node in placed))
    # Otherwise all ranks report it, and each consequence adds a different report.
    refuse((one_node and launcher.library and _lacks_mpi4py(argv), no_mpi4py()))
    exports = exported(options.running.exports, environ)
    library = "" if options.running.stand_in else launcher.library
    # The variables of -x count, too: one may be LD_PRELOAD, which names a profiler.
    argv, way = served(argv, {**environ, **exports}, library, options.running.abi, warn)

    return Plan(
        placed=placed,
        launcher=launcher,
        argv=argv,
        way=way,
        variables={
            **exports,
            **(
                {PORTS: f"{ports[0]}-{ports[-1]}"}
                if (ports := options.common.ports)
                else {}
            ),
            **usher_environment(argv, environ, library),
            **handles_environment(
                options.running.handles, argv, {**environ, **exports}, warn
            ),
        },
        leaves=leaves_of(backed(options.placement.vendor)),
        one_node=one_node,
        inside=inside,
        interface="" if inside else options.common.interface,
        advertised=_advertised(options.common.interface, one_node or inside),
    )


def check_here(options: ClientOptions, environ: Mapping[str, str]) -> None:
    """Check library and program of a client on this machine, before the server starts any client.

    Raises:
        UsageError: the program does not exist, or the named folder has no MPI library.
        LaunchError: no MPI library was found.
    """
    _launcher(options, environ, one_node=False)
    _resolve(
        options.argv, here=not (options.placement.nodes or options.placement.hostfile)
    )


def _check_version(options: ClientOptions) -> None:
    """Raise UsageError if an option needs a version of ours and another option excludes it."""

    # Resilience and lazy channels are versions of ours, each with a number of its own (IMPI 2.3.5):
    # the highest common one is in force.
    reach, resilient = options.reach, options.common.resilient
    version, hosts = bool(reach.impi_version), reach.hosts != "proc"
    told = f"--hosts {reach.hosts}"
    refuse(
        (
            resilient and version,
            "--resilient needs a version of our own: leave out --impi-version 0.0",
        ),
        (
            resilient and hosts,
            f"--resilient needs a host for each proc: leave out {told}",
        ),
        *(
            (
                reach.lazy and given,
                f"--lazy and {other} exclude each other: leave out one of them",
            )
            for other, given in (
                ("--impi-version 0.0", version),
                ("--resilient", resilient),
                (told, hosts),
            )
        ),
    )


def _nodes(options: ClientOptions) -> tuple[placing.Node, ...]:
    if not options.placement.hostfile:
        return placing.parse(options.placement.nodes) if options.placement.nodes else ()

    if options.placement.nodes:
        raise UsageError(
            "--hostfile and --nodes both name nodes: leave one of them out"
        )

    try:
        text = Path(options.placement.hostfile).read_text("utf-8")
    except OSError as error:
        raise unread(f"--hostfile {options.placement.hostfile}", error) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"--hostfile {options.placement.hostfile} is not text"
        ) from None

    return placing.parse_hostfile(text, options.placement.hostfile)


def _launcher(
    options: ClientOptions, environ: Mapping[str, str], *, one_node: bool
) -> Launcher:
    placement, vendor = options.placement, backed(options.placement.vendor)
    kind, asked = vendor.library.launcher, placement.launcher
    what = "has no library" if kind == "none" else "does not speak PMI-1"

    refuse(
        (
            asked == "pmi" and kind != "hydra",
            f"--launcher pmi is for libraries such as MPICH: {placement.vendor} {what}",
        )
    )
    if kind == "none":
        return PureLauncher()

    under = _launcher_for(kind, asked, environ, one_node=one_node)

    return under(vendor, find(placement.vendor, placement.prefix, environ))


def _launcher_for(
    kind: str, asked: str, environ: Mapping[str, str], *, one_node: bool
) -> Callable[[Manifest, Installation], Launcher]:
    """Return the launcher for a kind of library, as ``--launcher`` asks."""

    if kind == "prte":
        return PrteLauncher

    slurm = in_slurm(environ)
    # On one node mpiexec would only add processes, and keep procs in Python from being forks.
    if asked == "pmi" or (asked == "auto" and one_node and not slurm):
        return PmiLauncher

    return SrunLauncher if slurm else HydraLauncher


def _lacks_mpi4py(argv: tuple[str, ...]) -> bool:
    """Whether a program of this Python would not find mpi4py."""
    return (
        argv[0] == sys.executable
        and len(argv) > 1
        and is_missing(os.path.dirname(argv[1]))  # noqa: PTH120
    )


def _resolve(argv: tuple[str, ...], here: bool) -> tuple[str, ...]:
    """Return the program's command: this Python for a Python file, else the full path."""

    if not argv:
        raise UsageError("no program was named: write it after all options")

    if argv[0].endswith(".py"):
        # A program for other nodes only need not exist on this one.
        if here and not Path(argv[0]).is_file():
            raise UsageError(
                f"there is no program {argv[0]} in {Path.cwd()}: write its path from there"
            )

        return (sys.executable, *argv)

    found = shutil.which(argv[0])
    if found is None and here:
        raise UsageError(
            f"there is no program {argv[0]!r} on the PATH, or it is not executable:"
            " write its path, as ./NAME, and let 'chmod +x' make it a program"
        )

    if found is not None and here:
        _check_interpreter(found)

    return (os.path.abspath(found) if found else argv[0], *argv[1:])  # noqa: PTH100  (resolving links would leave a venv)


def _check_interpreter(program: str) -> None:
    """UsageError: a script names an interpreter that is missing.

    The system says of such a script that it does not exist, although it does.
    """
    with suppress(OSError), Path(program).open("rb") as file:
        first = file.readline(4096)
        words = first[2:].split() if first[:2] == b"#!" else []
        if words and not Path(os.fsdecode(words[0])).exists():
            raise UsageError(
                f"{program} is a script for {os.fsdecode(words[0])}, which is not on this machine:"
                " correct its first line"
            )


def _advertised(interface: str, one_node: bool) -> str:
    """Return ``--interface`` for procs: an address on one node, else a name or network for all."""

    if not interface:
        return ""

    if one_node:
        address = interfaces.address_of(interface)
        if not placing.is_here(address):
            raise UsageError(
                f"--interface {interface} is not an address of this machine; 'ip address' shows them"
            )

        return address

    if "/" in interface:
        return interface

    name = interfaces.name_of(interface)
    if not name:
        raise UsageError(
            f"--interface {interface} is not an interface of this machine; for several nodes name one that all have, "
            "or their network"
        )

    return name


def in_clear(options: ClientOptions, environ: Mapping[str, str], plan: Plan) -> str:
    """Return the reason why a client cannot be in a job with TLS; empty: it can.

    impi cannot encrypt the traffic of an MPI library, its mpiexec, or srun between nodes.
    """

    away = [node.name for node in plan.placed if not placing.is_here(node.name)]
    library = backed(options.placement.vendor).title if plan.launcher.library else ""
    by = library or ("srun" if in_slurm(environ) else "")
    if not away or not by or options.reach.own_network:
        return ""

    return (
        f"this job has --tls, and what {by} sends between {socket.gethostname()} and {away[0]}, nodes of this client, "
        "would be in clear: start a client on each node, or use --vendor pure by ssh, or say --own-network where "
        "nobody else reads that network"
    )


def control_address(placed: tuple[placing.Node, ...], interface: str) -> str:
    """Return the address at which all procs reach impirun: loopback if all run here."""

    away = [node.name for node in placed if not placing.is_here(node.name)]
    if not away:
        return "127.0.0.1"

    if interface:
        return interfaces.address_of(interface)

    try:
        # The address where the route to that node begins: of several, only this
        # one may be reachable from there.
        return interfaces.outgoing_address(_address(away[0]))
    except UsageError:
        # A name that only SSH's configuration knows
        return interfaces.outgoing_address()


def numeric(host: str, one_node: bool) -> str:
    """Return the server's numeric address, which all nodes of this client can use."""
    address = _address(host)
    # Loopback means another machine on another node.
    if not one_node and (address == "::1" or address.startswith("127.")):
        return interfaces.outgoing_address()

    return address


def _address(name: str) -> str:
    try:
        return str(
            socket.getaddrinfo(plain(name), None, type=socket.SOCK_STREAM)[0][4][0]
        )
    except OSError as error:
        raise UsageError(f"{name} has no address: {error.strerror}") from None
