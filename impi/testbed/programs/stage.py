"""Phases of a rank at which the lab may interfere: ``init``, ``case`` and ``finalize``.

A rank that reaches the phase of the cell's fault says so by a file, and goes on when the lab has
opened it. In other cells, all phases are open. As a program, ``stage.py wait FOLDER PHASE COUNT
SECONDS`` prints the pids of so many ranks that have reached the phase. ``stage.py kill PID`` and
``stage.py kill WORD...`` end a process by SIGKILL and print its pid: the latter ends the oldest
whose command line has these words in a row.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

_TURN_S = 0.01
_OPEN_S = 60.0


def reach(phase: str) -> None:
    """This rank has reached the phase."""
    folder = Path(os.environ["IMPILAB_CELL"])
    (folder / f"stage-{phase}-{os.getpid()}").touch()


def is_open(phase: str) -> bool:
    """Whether the lab has no more to do in this phase."""
    folder = Path(os.environ["IMPILAB_CELL"])
    return json.loads((folder / "cell.json").read_text()).get("phase") != phase or (folder / f"open-{phase}").exists()


def stage(phase: str) -> None:
    """Reach the phase and wait until it is open."""
    reach(phase)
    deadline = time.monotonic() + _OPEN_S
    while not is_open(phase) and time.monotonic() < deadline:
        time.sleep(_TURN_S)


def _wait(folder: str, phase: str, count: str, seconds: str) -> list[int]:
    deadline = time.monotonic() + float(seconds)
    while True:
        found = [int(path.name.rpartition("-")[2]) for path in Path(folder).glob(f"stage-{phase}-*")]
        if len(found) >= int(count) or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(_TURN_S)


def _find(words: list[str]) -> int:
    """The oldest process of that command; 0: there is none."""
    wanted, found = "\0".join(["", *words, ""]), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line, stat = (entry / "cmdline").read_text(), (entry / "stat").read_text()
            except (OSError, UnicodeDecodeError):
                continue
            if wanted in f"\0{line}":
                found.append((int(stat.rpartition(")")[2].split()[19]), int(entry.name)))
    return min(found)[1] if found else 0


if __name__ == "__main__":
    if sys.argv[1] == "wait":
        print(json.dumps(_wait(*sys.argv[2:])), flush=True)
    else:
        victim = int(sys.argv[2]) if sys.argv[2].isdecimal() else _find(sys.argv[2:])
        if victim:
            os.kill(victim, signal.SIGKILL)
        print(json.dumps([victim] if victim else []), flush=True)
