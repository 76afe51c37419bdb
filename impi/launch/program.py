"""The program of a client, with its nodes and environment, and the commands that start it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from impi.engine.fetched_input import VARIABLE as INPUT
from impi.engine.join import PARENT, VARIABLE
from impi.errors import UsageError
from impi.launch import remote_shell
from impi.launch.nodes import Node, is_here
from impi.records import record
from impi.remote.starter import Spec
from impi.variables import EXPORT, HANDLES_FROM, RELAY, STANDS_IN
from impi.vendors import interfaces

ROOT: Final = str(Path(__file__).absolute().parents[2])
"""The folder of this package."""
_HOOK: Final = str(Path(__file__).absolute().parent / "hook")

_GRACE_S: Final = 2.0

_OUTER: Final = (
    "PMI_",
    "PMIX_",
    "PRTE_",
    "OMPI_COMM_",
    "OMPI_UNIVERSE",
    "HYDI_",
    "MPI_LOCALN",
    "MPI_LOCALR",
    "IMPI_AUTH_",
)
"""Variables that procs must not see: of an outer mpiexec, and the key of the job."""
_OUTER_KEPT: Final = ("PRTE_MCA_", "PMIX_MCA_")

_PRIVATE: Final = (VARIABLE, PARENT, INPUT, HANDLES_FROM, STANDS_IN, EXPORT, RELAY)

_FORWARDED: Final = (
    "IMPI",
    "PYTHON",
    "MPI4PY_",
    "MPIR_CVAR_",
    "OMPI_MCA_",
    "FI_",
    "UCX_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "LD_LIBRARY_PATH",
)
"""Prefixes of the names that go to other nodes; SSH drops all others."""


@record(kw_only=True)
class Program:
    """The procs of one client."""

    argv: tuple[str, ...]
    nodes: tuple[Node, ...]
    """Their nodes; ``slots`` is the number of procs on each."""
    environ: Mapping[str, str]
    """The environment of procs here, without ``IMPI_JOIN``; see :func:`base_environment`."""
    join: Mapping[str, object]
    """The common part of the procs' invitation."""
    interface: str = ""
    """Address or name of the chosen network interface."""
    input: str = ""
    """Where rank 0 fetches standard input (:mod:`impi.engine.fetched_input`); empty: none."""
    labelled: bool = False
    """Whether an mpiexec marks the output of each rank (:mod:`impi.launch.labels`)."""
    manager: str = ""
    """Where the procs reach their process manager, ``address:port``; empty: it is an mpiexec."""
    ids: tuple[int, ...] = ()
    """The number by which the manager knows each rank."""

    @property
    def size(self) -> int:
        """Number of procs."""
        return sum(node.slots for node in self.nodes)

    @property
    def one_node(self) -> bool:
        """Whether all procs run on this machine."""
        return len(self.nodes) == 1 and is_here(self.nodes[0].name)

    @property
    def crowded(self) -> bool:
        """Whether procs of a node must share cores, if all nodes are like this machine."""
        return max(node.slots for node in self.nodes) > len(os.sched_getaffinity(0))

    def interface_name(self) -> str:
        """System name of the chosen interface, such as eth0; empty: none chosen."""
        return interfaces.name_of(self.interface) if self.interface else ""

    def invitation(self, **more: object) -> str:
        """Return the value of ``IMPI_JOIN``."""
        return json.dumps({**self.join, **more})


@record(kw_only=True)
class Command:
    """One starter (:mod:`impi.remote.starter`), and the processes that it starts on its node."""

    argv: tuple[str, ...]
    """Command of the starter, if a fork cannot be it."""
    here: bool
    """Whether a fork can be it: on this machine."""
    spec: Spec
    """Its first line of input."""
    titles: Mapping[int, str]
    """Names of its processes for the user, by their numbers in ``spec``."""
    name: str
    """Name of the starter for the user."""
    ranks: bool = False
    """Whether its processes are procs, numbered by rank."""
    serves: bool = False
    """Whether its processes serve procs of other starters, and end after them."""
    tags: bytes = b""
    """How its processes begin a line of a rank; empty: in no way that has to be changed."""
    lasts: bool = False
    """Whether its process never ends by itself: it keeps a starter where mpiexec starts procs."""
    task: socket.socket | None = None
    """The connection of a starter that runs already (:mod:`impi.launch.outer`); None: none does."""


def command_on(
    node: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    titles: Mapping[int, str],
    *,
    ranks: bool = False,
    serves: bool = False,
    lasts: bool = False,
    fed: int | None = None,
    tags: bytes = b"",
    task: socket.socket | None = None,
) -> Command:
    """Return the command of a starter on ``node``: one process for each number in ``own``.

    ``own`` has the variables of each, and process ``fed`` gets our standard input. Here ``environ``
    is the whole environment; elsewhere that of ssh or srun plus the variables of :func:`forwarded`,
    as for a ``task``, which has its own.
    """
    here = task is None and is_here(node)
    names = sorted(environ) if here else forwarded(environ)
    spec = Spec(
        argv=list(argv),
        procs={str(number): dict(env) for number, env in own.items()},
        env={name: environ[name] for name in names},
        only=here,
        cwd=str(Path.cwd()),
        stdin=None,
        fed=fed,
        grace_s=_GRACE_S,
        settle_s=None,
        silence_s=None,
    )
    start = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-S", "-m", "impi.remote.starter"]
    if not here and task is None:
        start = remote_shell.command(node, start, environ)
    name = f"the starter of node {node}" if task is None else f"the task of {titles[min(titles)]} on node {node}"
    kind = {"ranks": ranks, "serves": serves, "lasts": lasts}
    return Command(argv=tuple(start), here=here, spec=spec, titles=titles, name=name, tags=tags, task=task, **kind)


class Launcher(Protocol):
    """The way to start one vendor's procs."""

    library: str
    """Path of the vendor's library; empty: mpi4py finds it, or there is none."""

    def commands(self, program: Program) -> list[Command]:
        """Return commands that together start every proc of the program."""
        ...


def without_input(rank: str, argv: Sequence[str], hidden: Sequence[str] = ()) -> list[str]:
    """Return a command with an empty standard input, in place of what mpiexec gives it.

    Variable ``rank`` has the rank of the proc; only rank 0 keeps the address of the user's input.
    ``hidden``: variables of mpiexec that no proc gets.
    """
    unset = f"unset {' '.join(hidden)}; " if hidden else ""
    return ["/bin/sh", "-c", f'{unset}[ "${rank}" = 0 ] || unset {INPUT}; exec "$@" </dev/null', "sh", *argv]


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of procs: the hook first on PYTHONPATH, private variables removed."""
    result = {
        name: value
        for name, value in environ.items()
        if name not in _PRIVATE and (not name.startswith(_OUTER) or name.startswith(_OUTER_KEPT))
    }
    rest = [item for item in result.get("PYTHONPATH", "").split(os.pathsep) if item and item != _HOOK]
    result["PYTHONPATH"] = os.pathsep.join([_HOOK, *rest])
    return result


def exported(wanted: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``-x``, NAME or NAME=VALUE, and the list of their names.

    Raises:
        UsageError: one is not set here, or is none that a user may set.
    """
    found: dict[str, str] = {}
    for text in wanted:
        name, equals, value = text.partition("=")
        if name in _PRIVATE or (name.startswith(_OUTER) and not name.startswith(_OUTER_KEPT)):
            raise UsageError(f"-x {name}: impirun and the MPI library set this variable themselves")
        if not equals and name not in environ:
            raise UsageError(f"-x {name}: there is no such variable here; export it, or write {name}=VALUE")
        found[name] = value if equals else environ[name]
    return {**found, EXPORT: ",".join(found)} if found else {}


def forwarded(environ: Mapping[str, str]) -> list[str]:
    """Return the names of an environment that go to other nodes."""
    exported = environ.get(EXPORT, "").split(",")
    return sorted(name for name in environ if name.startswith(_FORWARDED) or name in exported)
