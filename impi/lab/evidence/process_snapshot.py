"""A last look at a cell that does not end: processes, sockets and stacks, before anything is ended.

``programs/look.py`` on each node reads /proc; then the lab's backend takes the stacks from outside,
by py-spy. Gaps become notes: nothing here fails, because the cell has failed already, and half a
look explains more than none. :func:`own_frame` reads from a stack where a rank stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from impi.base.errors import ImpiError
from impi.lab.evidence.gathered import Look, Share
from impi.lab.nodes.interface import Lab, Node, Stacks

_LOOK_S: Final = 10.0


def take_look(lab: Lab, folders: Mapping[str, str], why: str) -> Look:
    """Look at the ranks on all nodes of the lab.

    Args:
        lab: where the cell runs.
        folders: by node, the cell's folder.
        why: what ended the cell's time.
    """

    notes: list[str] = []
    said = _ask(lab, folders, notes)
    # The stacks by py-spy need the pids, so the look of the nodes comes first.
    pids = {
        node: [int(pid) for pid in value.get("ranks", {})]
        for node, value in said.items()
    }
    stacks = _stacks(lab, {node: mine for node, mine in pids.items() if mine})

    return Look(
        # The nodes look within moments of each other: the last of these is that of the graph.
        at=max(
            (float(value.get("at", 0)) for value in said.values()), default=time.time()
        ),
        why=why,
        processes={
            n: {int(p): _process(s) for p, s in v.get("ranks", {}).items()}
            for n, v in said.items()
        },
        starved={n: _runnable(v.get("ranks", {})) for n, v in said.items()},
        sockets={
            node: tuple(map(_socket, value.get("sockets", [])))
            for node, value in said.items()
        },
        stacks=stacks.frames,
        notes=(*notes, *stacks.notes),
    )


def _ask(
    lab: Lab, folders: Mapping[str, str], notes: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the output of ``programs/look.py`` on every node; all are asked at once."""

    asked = []
    for nodes in lab.clients:
        for node in nodes:
            folder = folders[node.name]

            argv = [
                lab.access.python,
                "-I",
                "-S",
                f"{folder.rpartition('/')[0]}/programs/look.py",
                folder,
            ]
            try:
                # All at once: ranks go on meanwhile, and a graph of waits needs one moment.
                asked.append((node, node.start(argv)))
            except ImpiError as error:
                notes.append(str(error))

    found = {}
    # A node that does not answer costs the limit, and leaves a note.
    # The others still count.
    for node, remote in asked:
        try:
            done = remote.wait(_LOOK_S)
            found[node.name] = json.loads(done.stdout)
        except ImpiError as error:
            notes.append(str(error))
        except ValueError:
            notes.append(_mute(node, done.stderr))

    return found


def _mute(node: Node, stderr: bytes) -> str:
    last = (
        stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
    )[-1]
    return f"{node.name}: no look at its processes and sockets: {last}"


def _stacks(lab: Lab, pids: Mapping[str, Sequence[int]]) -> Stacks:
    try:
        # Stacks need rights that a lab may not have (ptrace). A graph
        # without them is still one.
        return lab.stacks(pids)
    except ImpiError as error:
        return Stacks(notes=(f"no stacks from outside: {error}",))


def _process(value: Mapping[str, Any]) -> str:
    cpu = f", {value['cpu_s']:.1f} s of a processor" if "cpu_s" in value else ""
    threads = f", {value['threads']} threads" if value.get("threads", 1) > 1 else ""
    return f"{value.get('state', '?')}{cpu}{threads}" + (
        "" if value.get("initialised") else "; MPI not initialised"
    )


def _runnable(ranks: Mapping[str, Mapping[str, object]]) -> dict[int, Share]:
    # Only of ranks that want a processor (state R): a sleeping one is not starved.
    running = {
        int(pid): value
        for pid, value in ranks.items()
        # Linux calls both running and runnable state R; waited_s tells the two apart.
        if str(value.get("state"))[:1] == "R"
    }
    return {
        pid: Share(had_s=had, waited_s=_number(value.get("waited_s")))
        for pid, value in running.items()
        if (had := _number(value.get("cpu_s"))) is not None
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _socket(value: Mapping[str, Any]) -> str:
    # Octets that no process reads, or that the peer does not take, show
    # where a job stands still.
    waits = [
        f"{value[name]} octets {name}"
        for name in ("unsent", "unread")
        if value.get(name)
    ]

    state = value.get("state", "?")
    if state == "LISTEN":
        return f"pid {value.get('pid')}: listens on {value.get('local')}"

    return ", ".join(
        [
            f"pid {value.get('pid')}: {value.get('local')} -> {value.get('remote')} {state}",
            *waits,
        ]
    )


# The log of MPI calls stands between the program and every call
_LOGGER = "/programs/calls.py"


def own_frame(stack: tuple[str, ...]) -> str:
    """The innermost frame of the program itself."""
    return next(
        (frame for frame in stack if not in_impi(frame) and _LOGGER not in frame),
        stack[0],
    )


def in_impi(frame: str) -> bool:
    """Whether the frame is in the implementation, and not in a program of the lab on a node."""
    # Programs of the lab lie in a folder of that name, on nodes also below /opt/impi.
    if "/programs/" in frame:
        return False

    # a node's whole environment is below /opt/impi
    return "/impi/" in frame and "-packages/" not in frame
