"""What can be wrong with a client without a job: nodes, library, program, interface."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from impi.errors import UsageError
from impi.launch import handles
from impi.launch import nodes as placing
from impi.launch.compiled import served
from impi.launch.hydra import HydraLauncher
from impi.launch.managed import PmiLauncher
from impi.launch.outer import Tasks, check
from impi.launch.prefix import find
from impi.launch.program import Launcher, exported
from impi.launch.prte import PrteLauncher
from impi.launch.pure import PureLauncher
from impi.launch.remote_shell import in_slurm
from impi.launch.srun import SrunLauncher
from impi.manifests import backed
from impi.options import ClientOptions
from impi.records import record
from impi.variables import PORTS
from impi.vendors import interfaces
from impi.vendors.dial import plain


@record
class Plan:
    """Everything that can be wrong without a job, checked."""

    placed: tuple[placing.Node, ...]
    launcher: Launcher
    argv: tuple[str, ...]
    way: str
    """How the program reaches MPI, in words."""
    variables: Mapping[str, str]
    """More of them for the procs."""
    one_node: bool
    inside: bool
    """Whether the nodes need no interface that others can reach."""
    interface: str
    advertised: str

    def hosts(self, kind: str) -> int:
        """Return the number of hosts of a kind; see :data:`impi.options.HOSTS`."""
        return {"proc": sum(node.slots for node in self.placed), "node": len(self.placed), "client": 1}[kind]


def plan_client(
    options: ClientOptions, environ: Mapping[str, str], warn: Callable[[str], None], stack: ExitStack
) -> tuple[Tasks | None, Plan]:
    """Return the tasks of an outer process manager, if there are any, and the plan.

    Raises:
        UsageError: see :func:`make_plan`.
        StartupError: the outer process manager has ended.
    """
    tasks = stack.enter_context(closing(Tasks(environ))) if options.launcher == "outer" else None
    return tasks, make_plan(options, environ, warn, tasks)


def make_plan(
    options: ClientOptions, environ: Mapping[str, str], warn: Callable[[str], None], tasks: Tasks | None = None
) -> Plan:
    """Check nodes, library, program and interface; UsageError: one of them is not there.

    ``tasks``: procs that an outer process manager has placed.
    """
    _check_version(options)
    if tasks is not None:
        check(options, tasks, library=backed(options.vendor).launcher != "none")
        placed = tasks.placed
    else:
        nodes = _nodes(options)
        placed = placing.place(options.procs or sum(node.slots for node in nodes) or 1, nodes)
    one_node = len(placed) == 1 and placing.is_here(placed[0].name)
    inside = not one_node and options.hosts == "client"
    launcher = _launcher(options, environ)
    argv = _resolve(options.argv, any(placing.is_here(node.name) for node in placed))
    argv, way = served(argv, environ, "" if options.stand_in else launcher.library)
    return Plan(
        placed=placed,
        launcher=launcher,
        argv=argv,
        way=way,
        variables={
            **exported(options.exports, environ),
            **_told(options.ports),
            **handles.environment(options.handles, argv, environ, warn),
        },
        one_node=one_node,
        inside=inside,
        interface="" if inside else options.interface,
        advertised=_advertised(options.interface, one_node or inside),
    )


def _check_version(options: ClientOptions) -> None:
    """Raise UsageError for what contradicts an option that stands for a version of ours."""
    if options.resilient and options.impi_version:
        raise UsageError("--resilient needs a version of our own: leave out --impi-version 0.0")
    if options.resilient and options.hosts != "proc":
        raise UsageError(f"--resilient needs a host for each proc: leave out --hosts {options.hosts}")
    others = (
        ("--impi-version 0.0", bool(options.impi_version)),
        ("--resilient", options.resilient),
        (f"--hosts {options.hosts}", options.hosts != "proc"),
    )
    for other, given in others if options.lazy else ():
        if given:
            raise UsageError(f"--lazy and {other} exclude each other: leave out one of them")


def _told(ports: range) -> dict[str, str]:
    """Return the variable by which hosts know where to listen."""
    return {PORTS: f"{ports[0]}-{ports[-1]}"} if ports else {}


def _nodes(options: ClientOptions) -> tuple[placing.Node, ...]:
    """Return the nodes that the user names; none: this machine."""
    if not options.hostfile:
        return placing.parse(options.nodes) if options.nodes else ()
    if options.nodes:
        raise UsageError("--hostfile and --nodes both name nodes: leave one of them out")
    try:
        text = Path(options.hostfile).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"--hostfile {options.hostfile} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--hostfile {options.hostfile} is no text") from None
    return placing.parse_hostfile(text, options.hostfile)


def _launcher(options: ClientOptions, environ: Mapping[str, str]) -> Launcher:
    vendor = backed(options.vendor)
    match vendor.launcher:
        case "hydra" if options.launcher == "pmi":
            return PmiLauncher(vendor, find(options.vendor, options.prefix, environ))
        case other if options.launcher == "pmi":
            what = "has no library" if other == "none" else "does not speak PMI-1"
            raise UsageError(f"--launcher pmi is for libraries such as MPICH: {options.vendor} {what}")
        case "hydra" if in_slurm(environ):
            return SrunLauncher(vendor, find(options.vendor, options.prefix, environ))
        case "hydra":
            return HydraLauncher(vendor, find(options.vendor, options.prefix, environ))
        case "prte":
            return PrteLauncher(vendor, find(options.vendor, options.prefix, environ))
        case _:
            return PureLauncher()


def _resolve(argv: tuple[str, ...], here: bool) -> tuple[str, ...]:
    """Return the command of the program: Python files by this Python, others by full path."""
    if not argv:
        raise UsageError("no program was named; it stands after all options")
    if argv[0].endswith(".py"):
        if here and not Path(argv[0]).is_file():
            raise UsageError(f"there is no program {argv[0]} in {Path.cwd()}")
        return (sys.executable, *argv)
    found = shutil.which(argv[0])
    if found is None and here:
        raise UsageError(f"there is no program {argv[0]!r} on the PATH, or it is not executable")
    return (os.path.abspath(found) if found else argv[0], *argv[1:])  # noqa: PTH100  (resolving links would leave a venv)


def _advertised(interface: str, one_node: bool) -> str:
    """Return the procs' ``--interface``: an address on one node, else what each node looks up."""
    if not interface:
        return ""
    if one_node:
        address = interfaces.address_of(interface)
        if not placing.is_here(address):
            raise UsageError(f"--interface {interface} is no address of this machine")
        return address
    if "/" in interface:
        return interface
    name = interfaces.name_of(interface)
    if not name:
        raise UsageError(
            f"--interface {interface} is no interface of this machine; for several nodes name one that all have, "
            "or their network"
        )
    return name


def control_address(placed: tuple[placing.Node, ...], interface: str) -> str:
    """Return the address at which all procs reach impirun; loopback if all are here."""
    away = [node.name for node in placed if not placing.is_here(node.name)]
    if not away:
        return "127.0.0.1"
    if interface:
        return interfaces.address_of(interface)
    try:
        return interfaces.outgoing_address(_address(away[0]))
    except UsageError:
        return interfaces.outgoing_address()  # known to SSH's configuration only


def numeric(host: str, one_node: bool) -> str:
    """Return the server's numeric address, valid on all nodes."""
    address = _address(host)
    if not one_node and (address == "::1" or address.startswith("127.")):
        return interfaces.outgoing_address()
    return address


def _address(name: str) -> str:
    try:
        return str(socket.getaddrinfo(plain(name), None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UsageError(f"{name} has no address: {error.strerror}") from None
