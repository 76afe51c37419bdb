"""A last look at a cell that does not end: processes, sockets and stacks, before anything is ended.

It also reads where a rank stands from its stack. Gaps become notes; nothing here fails.
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
    pids = {node: [int(pid) for pid in value.get("ranks", {})] for node, value in said.items()}
    stacks = _stacks(lab, {node: mine for node, mine in pids.items() if mine})
    return Look(
        at=max((float(value.get("at", 0)) for value in said.values()), default=time.time()),
        why=why,
        processes={n: {int(p): _process(s) for p, s in v.get("ranks", {}).items()} for n, v in said.items()},
        starved={n: _runnable(v.get("ranks", {})) for n, v in said.items()},
        sockets={node: tuple(map(_socket, value.get("sockets", []))) for node, value in said.items()},
        stacks=stacks.frames,
        notes=(*notes, *stacks.notes),
    )


def _ask(lab: Lab, folders: Mapping[str, str], notes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the output of ``programs/look.py`` on every node; all are asked at once."""
    asked = []
    for nodes in lab.clients:
        for node in nodes:
            folder = folders[node.name]
            argv = [lab.access.python, "-I", "-S", f"{folder.rpartition('/')[0]}/programs/look.py", folder]
            try:
                asked.append((node, node.start(argv)))
            except ImpiError as error:
                notes.append(str(error))
    found = {}
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
    last = (stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"])[-1]
    return f"{node.name}: no look at its processes and sockets: {last}"


def _stacks(lab: Lab, pids: Mapping[str, Sequence[int]]) -> Stacks:
    try:
        return lab.stacks(pids)
    except ImpiError as error:
        return Stacks(notes=(f"no stacks from outside: {error}",))


def _process(value: Mapping[str, Any]) -> str:
    cpu = f", {value['cpu_s']:.1f} s of a processor" if "cpu_s" in value else ""
    threads = f", {value['threads']} threads" if value.get("threads", 1) > 1 else ""
    return f"{value.get('state', '?')}{cpu}{threads}" + ("" if value.get("initialised") else "; MPI not initialised")


def _runnable(ranks: Mapping[str, Mapping[str, object]]) -> dict[int, Share]:
    running = {int(pid): value for pid, value in ranks.items() if str(value.get("state"))[:1] == "R"}
    return {
        pid: Share(had_s=had, waited_s=_number(value.get("waited_s")))
        for pid, value in running.items()
        if (had := _number(value.get("cpu_s"))) is not None
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _socket(value: Mapping[str, Any]) -> str:
    waits = [f"{value[name]} octets {name}" for name in ("unsent", "unread") if value.get(name)]
    state = value.get("state", "?")
    if state == "LISTEN":
        return f"pid {value.get('pid')}: listens on {value.get('local')}"
    return ", ".join([f"pid {value.get('pid')}: {value.get('local')} -> {value.get('remote')} {state}", *waits])


_LOGGER = "/programs/calls.py"  # it stands between the program and every call of MPI


def own_frame(stack: tuple[str, ...]) -> str:
    """The innermost frame of the program itself."""
    return next((frame for frame in stack if not in_impi(frame) and _LOGGER not in frame), stack[0])


def in_impi(frame: str) -> bool:
    """Whether the frame is in the implementation, and not in the lab's programs on a node."""
    if "/programs/" in frame:
        return False
    return "/impi/" in frame and "-packages/" not in frame  # a node's whole environment is below /opt/impi
