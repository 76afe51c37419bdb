"""``impirun -slurm``: an IMPI job in a heterogeneous job of Slurm, one client for each component.

In a heterogeneous job of N components Slurm sets SLURM_HET_SIZE=N and, for each component,
variables that end with ``_HET_GROUP_n`` (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"). An allocation
without components has the same variables without that end, and becomes a job of one client.

The server runs in this process, as with ``-file``. Client n runs on the first node of component n:
as a fork if that is this node, else in a step of srun. A step sees the whole job, so a client uses
srun again for its further nodes (:mod:`impi.launch.start.remote_shell`).
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
from impi.base.variables import OF_SERVER
from impi.launch.command_line import split
from impi.launch.server.appfile import where_from
from impi.launch.standard_input import has_input
from impi.launch.start.launchers import leaves_of
from impi.launch.start.nodes import Node
from impi.launch.start.program import ROOT, Command, command_on
from impi.launch.start.remote_shell import STEP

_SIZE: Final = "SLURM_HET_SIZE"
_JOB: Final = "SLURM_JOB_ID"
# Parts of a node list such as rack[1-2]n[01-04]: plain text and brackets.
_GROUP: Final = re.compile(r"([^\[\],]+|\[[^\[\]]*\])")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_COUNT: Final = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@record
class Component:
    """One component of the allocation."""

    step: str  # srun's option that names it; empty: the allocation has no components
    nodes: tuple[Node, ...]


def components(environ: Mapping[str, str]) -> tuple[Component, ...]:
    """Return the components of the allocation that this process runs in.

    Raises:
        UsageError: there is no allocation, a component has no task, or its variables disagree.
    """

    if not environ.get(_JOB):
        raise UsageError(
            f"-slurm needs an allocation of Slurm, and {_JOB} is not set: start this by sbatch or salloc"
        )

    size = environ.get(_SIZE, "")
    if not size:
        return (Component("", _nodes(environ, "", "the allocation")),)

    if not parse_count(size):
        raise UsageError(f"{_SIZE} is {size!r}, and not a number of components")

    return tuple(
        Component(
            f"--het-group={number}",
            _nodes(environ, f"_HET_GROUP_{number}", f"component {number}"),
        )
        for number in range(int(size))
    )


def _nodes(environ: Mapping[str, str], end: str, what: str) -> tuple[Node, ...]:
    names = expand(environ.get(f"SLURM_JOB_NODELIST{end}", ""))
    if not names:
        raise UsageError(
            f"{what} of the Slurm job has no node: SLURM_JOB_NODELIST{end} is not set"
        )

    told = environ.get(f"SLURM_TASKS_PER_NODE{end}", "")
    counts = tasks(told)
    refuse(
        (
            not any(counts),
            f"{what} of the Slurm job has no tasks: give it some with -n or --ntasks-per-node",
        ),
        (
            len(counts) != len(names),
            f"{what} of the Slurm job has {len(names)} nodes, but SLURM_TASKS_PER_NODE{end} is {told!r}",
        ),
    )

    return tuple(
        Node(name, count) for name, count in zip(names, counts, strict=True) if count
    )


def expand(nodelist: str) -> tuple[str, ...]:
    """Return the node names in a list such as ``a[1-2,07],b``, as ``scontrol show hostnames`` does.

    Raises:
        UsageError: the list is malformed.
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
            # Leading zeros belong to the name: n[08-10] are n08, n09 and n10.
            yield f"{number:0{len(first)}d}"


def _malformed(nodelist: str) -> UsageError:
    return UsageError(
        f"{nodelist!r} is not a list of nodes of Slurm, such as a[1-4,7],b"
    )


def tasks(text: str) -> tuple[int, ...]:
    """Return the number of tasks on each node: 2, 2, 2, 1 for ``2(x3),1``; none for an empty text.

    Raises:
        UsageError: the text is malformed.
    """
    counts: list[int] = []
    for item in filter(None, text.split(",")):
        matched = _COUNT.fullmatch(item)
        if matched is None:
            raise UsageError(
                f"{text!r} is not a list of tasks per node of Slurm, such as 2(x3),1"
            )

        counts += [int(matched[1])] * int(matched[2] or 1)

    return tuple(counts)


def segments(
    arguments: Sequence[str], found: Sequence[Component]
) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of each client: its words between colons; without a colon, all words.

    Raises:
        UsageError: the numbers of segments and of components differ.
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
    """Return options and program of a component's client; the user's options come last and win."""
    nodes = ",".join(f"{node.name}:{node.slots}" for node in component.nodes)
    return ["--nodes", nodes, *segment]


def make_commands(
    found: Sequence[Component],
    parts: Sequence[Sequence[str]],
    endpoint: str,
    environ: Mapping[str, str],
) -> list[Command]:
    """Return a command for each client, to start it at the server's ``endpoint``.

    IMPI's variables go to the starter by standard input: arguments are visible to all users of a
    machine, and one of the variables is the key.
    """

    path = os.pathsep.join([ROOT, *filter(None, [environ.get("PYTHONPATH", "")])])

    commands = []
    for number, (component, segment) in enumerate(zip(found, parts, strict=True)):
        node = component.nodes[0].name
        argv = [
            sys.executable,
            "-m",
            "impi.cli.impirun",
            "-client",
            str(number),
            endpoint,
        ]
        argv += client_arguments(component, segment)
        # The variable also says that this is Slurm. Without components it has an
        # option that each step has anyway.
        inside = {**environ, STEP: component.step or "--overlap"}
        fed = 0 if number == 0 and has_input() else None
        own, titles = (
            {number: {"PYTHONPATH": path, OF_SERVER: where_from(node)}},
            {number: f"client {number} on {node}"},
        )
        commands.append(
            command_on(
                node,
                argv,
                inside,
                own,
                titles,
                fed=fed,
                leaves=leaves_of(*named_in(argv)),
            )
        )

    return commands
