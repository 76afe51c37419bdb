"""``impirun -slurm``: a job of IMPI in a heterogeneous job of Slurm, one client per component.

Slurm tells a heterogeneous job of N components by SLURM_HET_SIZE=N and, for each, variables that
end in ``_HET_GROUP_n`` (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"). An allocation without
components has the same variables without that end: a job of one client.

The server runs in this process, as with ``-file``. Client n runs on the first node of component n:
here by a fork, elsewhere in a step of srun. A step sees the whole job, so a client starts what it
needs on further nodes by srun, too (:mod:`impi.launch.start.remote_shell`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from impi.base.errors import UsageError, refuse
from impi.base.manifests import named_in
from impi.base.records import record
from impi.base.units import parse_count
from impi.launch.command_line import split
from impi.launch.standard_input import has_input
from impi.launch.start.launchers import leaves_of
from impi.launch.start.nodes import Node
from impi.launch.start.program import ROOT, Command, command_on
from impi.launch.start.remote_shell import STEP

_SIZE: Final = "SLURM_HET_SIZE"
_JOB: Final = "SLURM_JOB_ID"
_GROUP: Final = re.compile(r"([^\[\],]+|\[[^\[\]]*\])")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_COUNT: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@record
class Component:
    """One component of the allocation."""

    step: str  # the option of srun that names it; empty: the allocation has no components
    nodes: tuple[Node, ...]


def components(environ: Mapping[str, str]) -> tuple[Component, ...]:
    """Return the components of the allocation that this process is in.

    Raises:
        UsageError: there is none, or a component has no task, or its variables do not fit.
    """
    if not environ.get(_JOB):
        raise UsageError(f"-slurm needs an allocation of Slurm, and {_JOB} is not set: start this by sbatch or salloc")
    size = environ.get(_SIZE, "")
    if not size:
        return (Component("", _nodes(environ, "", "the allocation")),)
    if not parse_count(size):
        raise UsageError(f"{_SIZE} is {size!r}, and not a number of components")
    return tuple(
        Component(f"--het-group={number}", _nodes(environ, f"_HET_GROUP_{number}", f"component {number}"))
        for number in range(int(size))
    )


def _nodes(environ: Mapping[str, str], end: str, what: str) -> tuple[Node, ...]:
    names = expand(environ.get(f"SLURM_JOB_NODELIST{end}", ""))
    if not names:
        raise UsageError(f"{what} of the Slurm job has no node: SLURM_JOB_NODELIST{end} is not set")
    told = environ.get(f"SLURM_TASKS_PER_NODE{end}", "")
    counts = tasks(told)
    refuse(
        (not any(counts), f"{what} of the Slurm job has no tasks: give it some with -n or --ntasks-per-node"),
        (
            len(counts) != len(names),
            f"{what} of the Slurm job has {len(names)} nodes, but SLURM_TASKS_PER_NODE{end} is {told!r}",
        ),
    )
    return tuple(Node(name, count) for name, count in zip(names, counts, strict=True) if count)


def expand(nodelist: str) -> tuple[str, ...]:
    """Return the names of a list such as ``a[1-2,07],b``: what ``scontrol show hostnames`` prints.

    Raises:
        UsageError: malformed.
    """
    names: list[str] = []
    for item in _split(nodelist):
        found = [""]
        for part in _GROUP.findall(item):
            more = list(_members(part, nodelist))
            found = [name + end for name in found for end in more]
        names += found
    return tuple(names)


def _split(nodelist: str) -> list[str]:
    items = re.findall(r"(?:[^\[\],]|\[[^\[\]]*\])+", nodelist)
    if ",".join(items) != nodelist:
        raise _malformed(nodelist)
    return items


def _members(part: str, nodelist: str) -> Iterator[str]:
    if not part.startswith("["):
        yield part
        return
    for piece in part[1:-1].split(","):
        matched = _RANGE.fullmatch(piece)
        if matched is None:
            raise _malformed(nodelist)
        first, last = matched[1], matched[2] or matched[1]
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def _malformed(nodelist: str) -> UsageError:
    return UsageError(f"{nodelist!r} is no list of nodes of Slurm, such as a[1-4,7],b")


def tasks(text: str) -> tuple[int, ...]:
    """Return the tasks of each node that ``2(x3),1`` stands for; empty text: none.

    Raises:
        UsageError: malformed.
    """
    counts: list[int] = []
    for item in filter(None, text.split(",")):
        matched = _COUNT.fullmatch(item)
        if matched is None:
            raise UsageError(f"{text!r} is no list of tasks per node of Slurm, such as 2(x3),1")
        counts += [int(matched[1])] * int(matched[2] or 1)
    return tuple(counts)


def segments(arguments: Sequence[str], found: Sequence[Component]) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of each client: one segment between colons each, or one for all.

    Raises:
        UsageError: another number of segments than of components.
    """
    parts = split(arguments)
    if len(parts) == 1:
        parts *= len(found)
    if len(parts) != len(found):
        raise UsageError(
            f"{len(parts)} programs are named between colons, but the Slurm job has {len(found)} "
            f"component{'s' if len(found) > 1 else ''}"
        )
    return parts


def client_arguments(component: Component, segment: Sequence[str]) -> list[str]:
    """Return the options and the program of the component's client; options of the user win."""
    nodes = ",".join(f"{node.name}:{node.slots}" for node in component.nodes)
    return ["--nodes", nodes, *segment]


def make_commands(
    found: Sequence[Component], parts: Sequence[Sequence[str]], endpoint: str, environ: Mapping[str, str]
) -> list[Command]:
    """Return the commands of the clients; ``endpoint``: address of the server.

    Variables of IMPI, the key included, go by standard input, not as arguments.
    """
    path = os.pathsep.join([ROOT, *filter(None, [environ.get("PYTHONPATH", "")])])
    commands = []
    for number, (component, segment) in enumerate(zip(found, parts, strict=True)):
        node = component.nodes[0].name
        argv = [sys.executable, "-m", "impi.cli.impirun", "-client", str(number), endpoint]
        argv += client_arguments(component, segment)
        inside = {**environ, STEP: component.step or "--overlap"}
        fed = 0 if number == 0 and has_input() else None
        own, titles = {number: {"PYTHONPATH": path}}, {number: f"client {number} on {node}"}
        commands.append(command_on(node, argv, inside, own, titles, fed=fed, leaves=leaves_of(*named_in(argv))))
    return commands
