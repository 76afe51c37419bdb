"""Phases of a rank at which the lab may act, such as ``init``, ``case`` and ``finalize``.

A rank that reaches the phase of the cell's fault writes a file, and goes on once the lab has opened
the phase. In other cells, all phases are open. As a program, ``stage.py FOLDER PHASE COUNT
SECONDS`` waits for COUNT ranks to reach the phase, and prints them: ranks in the client, by pid.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_TURN_S = 0.01
_OPEN_S = 60.0
_FOLDER = os.environ.get("IMPILAB_CELL", "")
PLAN: dict[str, Any] = (
    json.loads((Path(_FOLDER) / "cell.json").read_text("utf-8")) if _FOLDER else {}
)
# The rank in the client, by its launcher; MPI_Init may change these variables.
LOCAL_RANK = int(
    os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0
)


def reach(phase: str) -> None:
    """Write down that this rank has reached the phase."""
    path = Path(os.environ["IMPILAB_CELL"]) / f"stage-{phase}-{os.getpid()}"
    if not path.exists():
        path.with_name(f"part-{os.getpid()}").write_text(str(LOCAL_RANK), "utf-8")
        path.with_name(f"part-{os.getpid()}").rename(path)


def is_open(phase: str) -> bool:
    """Whether the lab has opened the phase."""
    folder = Path(os.environ["IMPILAB_CELL"])
    return (
        json.loads((folder / "cell.json").read_text("utf-8")).get("phase") != phase
        or (folder / f"open-{phase}").exists()
    )


def stage(phase: str) -> None:
    """Reach the phase and wait until it is open."""
    reach(phase)

    deadline = time.monotonic() + _OPEN_S
    while not is_open(phase):
        if time.monotonic() > deadline:
            raise SystemExit(f"the lab has not opened phase {phase} in {_OPEN_S:.0f} s")

        time.sleep(_TURN_S)


def wait(folder: str, phase: str, count: str, seconds: str) -> dict[int, int]:
    """Return ranks in the client, by pid, that have reached the phase, once there are ``count``."""
    deadline = time.monotonic() + float(seconds)
    while True:
        found = {
            int(p.name.rpartition("-")[2]): int(p.read_text("utf-8"))
            for p in Path(folder).glob(f"stage-{phase}-*")
        }
        if len(found) >= int(count) or time.monotonic() > deadline:
            return found

        time.sleep(_TURN_S)


if __name__ == "__main__":
    print(json.dumps(wait(*sys.argv[1:])), flush=True)
