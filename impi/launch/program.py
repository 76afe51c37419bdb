"""What a launcher is given, a program with its places and environment, and what it makes of it: commands."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from impi.launch.nodes import Node, is_here
from impi.records import record
from impi.remote.starter import Spec
from impi.vendors import interfaces

__all__ = ["ROOT", "SSH_OPTIONS", "Command", "Launcher", "Program", "base_environment", "command_on", "forwarded"]

SSH_OPTIONS: Final = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ConnectionAttempts=3")
"""No question is ever asked: there is nobody to answer it."""

ROOT: Final = str(Path(__file__).absolute().parents[2])
"""The folder that this package is in."""
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
"""Variables that procs must not see: of an mpiexec that started impirun itself, and the key of the job."""
_OUTER_KEPT: Final = ("PRTE_MCA_", "PMIX_MCA_")

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
"""Beginnings of the names that go to other nodes too, where SSH drops all others."""


@record(kw_only=True)
class Program:
    """One client's procs."""

    argv: tuple[str, ...]
    nodes: tuple[Node, ...]
    """Where they run; ``slots`` is the number of procs on each."""
    environ: Mapping[str, str]
    """The whole environment of procs on this machine, without ``IMPI_JOIN``; see :func:`base_environment`."""
    join: Mapping[str, object]
    """The invitation, as all procs of the client get it."""
    interface: str = ""
    """Address or name of the network interface that was asked for."""

    @property
    def size(self) -> int:
        """How many procs."""
        return sum(node.slots for node in self.nodes)

    @property
    def one_node(self) -> bool:
        """Whether all run on this machine."""
        return len(self.nodes) == 1 and is_here(self.nodes[0].name)

    @property
    def crowded(self) -> bool:
        """Whether procs of a node must share a core, as far as this machine is like the others."""
        return max(node.slots for node in self.nodes) > len(os.sched_getaffinity(0))

    def interface_name(self) -> str:
        """The system's name of the interface that was asked for, such as eth0; empty if none was."""
        return interfaces.name_of(self.interface) if self.interface else ""

    def invitation(self, **more: object) -> str:
        """The value of ``IMPI_JOIN``."""
        return json.dumps({**self.join, **more})


@record(kw_only=True)
class Command:
    """One starter (:mod:`impi.remote.starter`), and what it is to start on its node."""

    argv: tuple[str, ...]
    """How the starter itself is started, where a fork cannot be one."""
    here: bool
    """Whether a fork can be one: on this machine."""
    spec: Spec
    """Its first line of input."""
    titles: Mapping[int, str]
    """Who its processes are, in the user's words, by their numbers in ``spec``."""
    name: str
    """What the starter is called, in the user's words."""
    ranks: bool = False
    """Whether its processes are procs, numbered by rank."""
    serves: bool = False
    """Whether they serve procs that others start, and end after them."""


def command_on(
    node: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    titles: Mapping[int, str],
    *,
    ranks: bool = False,
    serves: bool = False,
) -> Command:
    """A starter on ``node`` that starts ``argv`` once for each number in ``own``, which has their own variables.

    Here processes get just ``environ``, elsewhere what SSH gives and the variables that :func:`forwarded` names.
    """
    here = is_here(node)
    names = sorted(environ) if here else forwarded(environ)
    spec = Spec(
        argv=list(argv),
        procs={str(number): dict(env) for number, env in own.items()},
        env={name: environ[name] for name in names},
        only=here,
        cwd=str(Path.cwd()),
        stdin=None,
        grace_s=_GRACE_S,
        settle_s=None,
    )
    start = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-S", "-m", "impi.remote.starter"]
    if not here:
        start = ["ssh", *SSH_OPTIONS, node, shlex.join(start)]
    name = f"the starter of node {node}"
    return Command(argv=tuple(start), here=here, spec=spec, titles=titles, name=name, ranks=ranks, serves=serves)


class Launcher(Protocol):
    """How one vendor's procs are started."""

    def commands(self, program: Program) -> list[Command]:
        """What to run so that every proc of the program runs."""
        ...


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """impirun's environment for its procs: the hook first on PYTHONPATH, without what is none of their business."""
    result = {
        name: value
        for name, value in environ.items()
        if name != "IMPI_JOIN" and (not name.startswith(_OUTER) or name.startswith(_OUTER_KEPT))
    }
    rest = [item for item in result.get("PYTHONPATH", "").split(os.pathsep) if item and item != _HOOK]
    result["PYTHONPATH"] = os.pathsep.join([_HOOK, *rest])
    return result


def forwarded(environ: Mapping[str, str]) -> list[str]:
    """The names of an environment that go to other nodes as well."""
    return sorted(name for name in environ if name.startswith(_FORWARDED))
