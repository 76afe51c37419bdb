"""The program of a client, with its nodes and environment, and the commands that start it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Unpack

from impi.base.errors import refuse
from impi.base.manifests import outer_variables
from impi.base.records import record
from impi.base.remote.starter_lines import NOTHING, Leaves, Spec
from impi.base.variables import BEHIND, EXPORT, HANDLES_FROM, PRELOAD, RELAY, STANDS_IN, USHERED
from impi.launch.start import remote_shell
from impi.launch.start.nodes import Node, is_here
from impi.protocol.options import GRACE_S
from impi.rank.engine.job.fetched_input import VARIABLE as INPUT
from impi.rank.engine.job.join import PARENT, VARIABLE
from impi.rank.vendors import interfaces
from impi.rank.vendors.invitation import Invitation, Place

ROOT: Final = str(Path(__file__).absolute().parents[3])
"""The folder of this package."""
HOOK: Final = str(Path(__file__).absolute().parent.parent / "hook")

_KEYS: Final = "IMPI_AUTH_"
_PRIVATE: Final = (VARIABLE, PARENT, INPUT, HANDLES_FROM, STANDS_IN, BEHIND, USHERED, PRELOAD, EXPORT, RELAY)

# Prefixes of the names that go to other nodes; SSH drops all others.
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
    environ: Mapping[str, str]  # the environment of procs here, without IMPI_JOIN; see base_environment()
    join: Invitation
    interface: str = ""
    input: str = ""  # where rank 0 fetches standard input (impi.rank.engine.job.fetched_input); empty: none
    labelled: bool = False  # whether an mpiexec marks the output of each rank (impi.launch.labels)
    manager: str = ""  # where the procs reach their process manager, address:port; empty: it is an mpiexec
    ids: tuple[int, ...] = ()
    leaves: Leaves = NOTHING

    @property
    def size(self) -> int:
        return sum(node.slots for node in self.nodes)

    @property
    def one_node(self) -> bool:
        return len(self.nodes) == 1 and is_here(self.nodes[0].name)

    @property
    def crowded(self) -> bool:
        """Whether procs of a node must share cores, if all nodes are like this machine."""
        return max(node.slots for node in self.nodes) > len(os.sched_getaffinity(0))

    def interface_name(self) -> str:
        """System name of the chosen interface, such as eth0; empty: none chosen."""
        return interfaces.name_of(self.interface) if self.interface else ""

    def invitation(self, **more: Unpack[Place]) -> str:
        return json.dumps({**self.join, **more})


@record(kw_only=True)
class Command:
    """One starter (:mod:`impi.base.remote.starter`), and the processes that it starts on its
    node."""

    argv: tuple[str, ...]
    here: bool
    spec: Spec
    titles: Mapping[int, str]  # names of its processes for the user, by their numbers in `spec`
    name: str
    ranks: bool = False
    serves: bool = False  # whether its processes serve procs of other starters, and end after them
    tags: bytes = b""  # how its processes begin a line of a rank; empty: in no way that has to be changed
    lasts: bool = False  # whether its process never ends by itself: it keeps a starter where mpiexec starts procs
    # The connection of a starter that runs already (impi.launch.client.outer); None: none does.
    task: socket.socket | None = None


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
    leaves: Leaves = NOTHING,
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
        grace_s=GRACE_S,
        settle_s=None,
        silence_s=None,
        leaves=leaves,
    )
    start = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-S", "-m", "impi.base.remote.starter"]
    if not here and task is None:
        start = remote_shell.command(node, start, environ)
    name = f"the starter of node {node}" if task is None else f"the task of {titles[min(titles)]} on node {node}"
    kind = {"ranks": ranks, "serves": serves, "lasts": lasts}
    return Command(argv=tuple(start), here=here, spec=spec, titles=titles, name=name, tags=tags, task=task, **kind)


class Launcher(Protocol):
    """The way to start one vendor's procs."""

    library: str  # path of the vendor's library; empty: mpi4py finds it, or there is none

    def commands(self, program: Program) -> list[Command]:
        """Return commands that together start every proc of the program."""


def without_input(rank: str, argv: Sequence[str], hidden: Sequence[str] = ()) -> list[str]:
    """Return a command with an empty standard input, in place of what mpiexec gives it.

    Variable ``rank`` has the rank of the proc; only rank 0 keeps the address of the user's input.
    ``hidden``: variables of mpiexec that no proc gets.
    """
    unset = f"unset {' '.join(hidden)}; " if hidden else ""
    return ["/bin/sh", "-c", f'{unset}[ "${rank}" = 0 ] || unset {INPUT}; exec "$@" </dev/null', "sh", *argv]


def _is_hidden(name: str) -> bool:
    """Whether procs must not see a variable: impirun's own, and those of an outer mpiexec."""
    outer, kept = outer_variables()
    return name in _PRIVATE or (name.startswith((_KEYS, *outer)) and not name.startswith(kept))


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of procs: the hook first on PYTHONPATH, private variables removed."""
    result = {name: value for name, value in environ.items() if not _is_hidden(name)}
    rest = [item for item in result.get("PYTHONPATH", "").split(os.pathsep) if item and item != HOOK]
    result["PYTHONPATH"] = os.pathsep.join([HOOK, *rest])
    return result


def exported(wanted: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``-x``, NAME or NAME=VALUE, and the list of their names.

    Raises:
        UsageError: one is not set here, or is none that a user may set.
    """
    found: dict[str, str] = {}
    for text in wanted:
        name, equals, value = text.partition("=")
        refuse(
            (_is_hidden(name), f"-x {name}: impirun and the MPI library set this variable themselves"),
            (
                not equals and name not in environ,
                f"-x {name}: there is no such variable here; export it, or write {name}=VALUE",
            ),
        )
        found[name] = value if equals else environ[name]
    return {**found, EXPORT: ",".join(found)} if found else {}


def forwarded(environ: Mapping[str, str]) -> list[str]:
    """Return the names of an environment that go to other nodes."""
    exported = environ.get(EXPORT, "").split(",")
    return sorted(name for name in environ if name.startswith(_FORWARDED) or name in exported)
