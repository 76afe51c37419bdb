"""Labs of tests: their nodes, what a command says first, and what is left of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.lifecycle.lab_labels import LABEL
from impi.lab.nodes.interface import Backend, Lab, Node, RunningCommand

DEADLINE_S = 90.0


def nodes_of(lab: Lab) -> list[Node]:
    return [lab.server, *(node for nodes in lab.clients for node in nodes)]


def first_line(command: RunningCommand) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def ours(backend: DockerBackend, lab: str) -> list[str]:
    """Return the engine's objects of that lab."""
    mine: dict[str, str | list[str] | bool] = {"label": f"{LABEL}lab={lab}"}
    client = backend._client
    found = [str(c.name) for c in client.containers.list(all=True, filters=mine)]
    found += [str(n.name) for n in client.networks.list(filters=mine)]
    return found + [str(v.name) for v in client.volumes.list(filters=mine)]


def left(backend: Backend, run: str) -> list[str]:
    """That run's remains; on loopback any in the test's folder, as labels may be missing."""
    labs = backend.inventory.find()
    return [
        part
        for lab in labs
        if backend.name == "local" or lab.labels.get("run") == run
        for part in lab.parts
    ]


def wait_until(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def keeps(path: Path, folder: Path) -> bool:
    """Whether a process, by its file in /proc, is the reaper for labs below a folder."""
    try:
        words = path.read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        b"impi.lab.backends.reaper_process" in words and str(folder).encode() in words
    )
