"""A client's program with its nodes and environment, and the commands that start it.

Three rules for environments. Procs on this machine get the user's whole environment, as with
mpiexec. Procs elsewhere get the variables of :func:`forwarded`, since ssh carries none. No proc
gets impirun's private variables, or those of an outer mpiexec: a library would take them for its
own start.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Unpack

from impi.base.errors import refuse
from impi.base.manifests import outer_variables
from impi.base.records import record
from impi.base.remote.starter_lines import NOTHING, Leaves, Spec
from impi.base.variables import (
    BEHIND,
    EXPORT,
    HANDLES_FROM,
    MPI4PY_FROM,
    OF_SERVER,
    PRELOAD,
    RELAY,
    STANDS_IN,
    USHERED,
)
from impi.launch.start import remote_shell
from impi.launch.start.nodes import Node, is_here
from impi.protocol.options import GRACE_S
from impi.rank.engine.job.fetched_input import VARIABLE as INPUT
from impi.rank.engine.job.join import PARENT, VARIABLE
from impi.rank.vendors import interfaces
from impi.rank.vendors.invitation import Invitation, Place

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

ROOT: Final = str(Path(__file__).absolute().parents[3])
"""The folder that has the package ``impi``."""
HOOK: Final = str(Path(__file__).absolute().parent.parent / "hook")

_KEYS: Final = "IMPI_AUTH_"
_PRIVATE: Final = (
    VARIABLE,
    PARENT,
    INPUT,
    HANDLES_FROM,
    MPI4PY_FROM,
    STANDS_IN,
    BEHIND,
    USHERED,
    PRELOAD,
    EXPORT,
    OF_SERVER,
    RELAY,
)

# Prefixes of variables that go to other nodes; ssh drops all others.
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


@record(kw_only=True)
class Program:
    """The procs of one client."""

    argv: tuple[str, ...]
    nodes: tuple[Node, ...]
    # Environment of procs here, without IMPI_JOIN; see base_environment()
    environ: Mapping[str, str]
    join: Invitation
    interface: str = ""  # as in --interface
    # Endpoint and token with which rank 0 fetches standard input; empty: there is none
    input: str = ""
    # Whether an mpiexec must mark the output of each rank (impi.launch.labels)
    labelled: bool = False
    # impirun's endpoint as process manager, address:port; empty: an mpiexec is it
    manager: str = ""
    # The number of each rank for PMI_ID, if impirun is the process manager
    ids: tuple[int, ...] = ()
    # The name of the keepers that have the secrets of the invitation; empty: it has them itself
    kept: str = ""
    leaves: Leaves = NOTHING  # names of files that killed processes leave

    @property
    def size(self) -> int:
        return sum(node.slots for node in self.nodes)

    @property
    def one_node(self) -> bool:
        return len(self.nodes) == 1 and is_here(self.nodes[0].name)

    @property
    def crowded(self) -> bool:
        """Whether procs of a node share cores, supposing that all nodes are like this machine."""
        return max(node.slots for node in self.nodes) > len(os.sched_getaffinity(0))

    def interface_name(self) -> str:
        """Return the system's name of the chosen interface, such as eth0; empty: none is chosen."""
        return interfaces.name_of(self.interface) if self.interface else ""

    def invitation(self, **more: Unpack[Place]) -> str:
        """Return the value of IMPI_JOIN for a proc, or for all procs of an mpiexec."""
        if not self.kept:
            return json.dumps({**self.join, **more})

        from impi.rank.vendors import keeper  # few clients have one

        return json.dumps({**keeper.veiled(self.join, self.kept), **more})


@record
class TaskLink:
    """The connection with a task (:mod:`impi.launch.client.outer`), in a TLS session that both ends
    have proved."""

    sock: socket.socket
    stream: Stream

    def close(self) -> None:
        self.sock.close()


@record(kw_only=True)
class Command:
    """One starter (:mod:`impi.base.remote.starter`) with the processes that it starts."""

    argv: tuple[str, ...]  # the command of the starter
    here: bool  # whether it runs on this machine, where it can be a fork
    spec: Spec  # its first line of input: the processes to start
    # Names of its processes for the user, by their numbers in `spec`
    titles: Mapping[int, str]
    name: str  # name of the starter for the user
    ranks: bool = False  # whether its processes are procs, numbered by rank
    # Whether its processes serve procs of other starters, and end after them
    serves: bool = False
    # How its processes begin a line of a rank; empty: in no way that has to be changed
    tags: bytes = b""
    # Whether its process never ends by itself: it keeps a starter where mpiexec starts procs
    lasts: bool = False
    # The connection of a starter that runs already (impi.launch.client.outer); None: none does.
    task: TaskLink | None = None


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
    task: TaskLink | None = None,
    leaves: Leaves = NOTHING,
) -> Command:
    """Return the command of a starter on ``node``, with a process for each number in ``own``.

    Args:
        node: name of the machine.
        argv: the program that each process runs.
        environ: on this machine the whole environment; elsewhere, and for a ``task``, only the
            variables of :func:`forwarded` are added to the environment there.
        own: variables of each process alone, by number.
        titles: names of the processes for the user, by number.
        fed: number of the process that gets our standard input; None: none.

    The other arguments are fields of :class:`Command`.
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
        grace_s=GRACE_S,
        settle_s=None,
        silence_s=None,
        leaves=leaves,
    )

    # ssh carries no variables, so env sets this one. The starter needs this package and Python's
    # library only; -S saves the rest of Python's start.
    start = [
        "env",
        f"PYTHONPATH={ROOT}",
        sys.executable,
        "-S",
        "-m",
        "impi.base.remote.starter",
    ]
    if not here and task is None:
        start = remote_shell.command(node, start, environ)

    name = (
        f"the starter of node {node}"
        if task is None
        else f"the task of {titles[min(titles)]} on node {node}"
    )
    kind = {"ranks": ranks, "serves": serves, "lasts": lasts}

    return Command(
        argv=tuple(start),
        here=here,
        spec=spec,
        titles=titles,
        name=name,
        tags=tags,
        task=task,
        **kind,
    )


class Launcher(Protocol):
    """Makes the commands that start one vendor's procs."""

    # Path of the vendor's library; empty: mpi4py finds it, or there is no library
    library: str

    def commands(self, program: Program) -> list[Command]:
        """Return commands that together start every proc of the program."""


def without_input(
    rank: str, argv: Sequence[str], hidden: Sequence[str] = ()
) -> list[str]:
    """Return a command with an empty standard input instead of the one from mpiexec.

    Hydra loses the user's input, and PRRTE never ends it; rank 0 fetches it
    (:mod:`impi.launch.standard_input`).

    Args:
        rank: name of the variable with the rank. Only rank 0 keeps the address of the input.
        argv: the command.
        hidden: variables of mpiexec that procs must not get.
    """
    # By exec: a shell that stayed would get the signals that are meant for the proc.
    unset = f"unset {' '.join(hidden)}; " if hidden else ""
    return [
        "/bin/sh",
        "-c",
        f'{unset}[ "${rank}" = 0 ] || unset {INPUT}; exec "$@" </dev/null',
        "sh",
        *argv,
    ]


def _is_hidden(name: str) -> bool:
    """Return whether procs must not see a variable: impirun's own, or an outer mpiexec's."""
    outer, kept = outer_variables()
    return name in _PRIVATE or (
        name.startswith((_KEYS, *outer)) and not name.startswith(kept)
    )


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for procs: the hook first on PYTHONPATH, no private variables."""

    result = {name: value for name, value in environ.items() if not _is_hidden(name)}
    rest = [
        item
        for item in result.get("PYTHONPATH", "").split(os.pathsep)
        if item and item != HOOK
    ]
    result["PYTHONPATH"] = os.pathsep.join([HOOK, *rest])

    return result


def exported(wanted: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``-x`` options, and one more with the list of their names.

    Args:
        wanted: the options' values, NAME or NAME=VALUE.
        environ: the user's variables.

    Raises:
        UsageError: a variable is not set here, or impirun sets it itself.
    """
    found: dict[str, str] = {}
    for text in wanted:
        name, equals, value = text.partition("=")
        refuse(
            (
                _is_hidden(name),
                f"-x {name}: impirun and the MPI library set this variable themselves",
            ),
            (
                not equals and name not in environ,
                f"-x {name}: there is no such variable here; export it, or write {name}=VALUE",
            ),
        )
        found[name] = value if equals else environ[name]

    return {**found, EXPORT: ",".join(found)} if found else {}


def forwarded(environ: Mapping[str, str]) -> list[str]:
    """Return the variables of an environment that go to other nodes, by name."""
    exported = environ.get(EXPORT, "").split(",")
    return sorted(
        name for name in environ if name.startswith(_FORWARDED) or name in exported
    )
