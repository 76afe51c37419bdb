"""Stacks of processes from outside: ``stacks.py PID...`` prints, by pid, frames or a reason.

It asks py-spy, which reads another process's memory and so needs the right to trace it. Frames have
the form of Python's faulthandler, innermost first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

_EACH_S = 5.0


def _spy() -> str:
    # Beside this interpreter, without following links: they lead out of the environment.
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")  # noqa: PTH118, PTH120
    return beside if os.access(beside, os.X_OK) else "py-spy"


def _stack(pid: str) -> list[str] | str:
    try:
        done = subprocess.run(
            [_spy(), "dump", "--json", "--pid", pid],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_EACH_S,
            check=False,
        )
    except FileNotFoundError:
        return "py-spy is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"py-spy: {error}"

    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return f"py-spy: {lines[0] if lines else f'it ended with {done.returncode}'}"[
            :200
        ]

    try:
        return [
            f'File "{f["filename"]}", line {f["line"]} in {f["name"]}'
            for f in _main(json.loads(done.stdout), pid)
        ]
    except (ValueError, KeyError, TypeError):
        return "py-spy said what makes no sense"


def _main(threads: list[dict[str, Any]], pid: str) -> list[dict[str, Any]]:
    """Return the frames of the main thread; of any if py-spy does not know the main one."""
    main = [
        t
        for t in threads
        if t.get("os_thread_id") == int(pid) or t.get("thread_name") == "MainThread"
    ]
    return (main or threads)[0]["frames"] if threads else []


if __name__ == "__main__":
    print(json.dumps({pid: _stack(pid) for pid in sys.argv[1:]}), flush=True)
