"""Looks at the remaining ranks of a cell: ``look.py CELL_FOLDER`` prints one line of JSON.

It has the ranks' processes, their state in the kernel and their TCP sockets. It needs no privilege
and changes nothing: the user who runs the ranks may run it at any moment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # isolated, Python leaves its folder out

from kernel_tables import endpoint  # type: ignore[import-not-found]

_STATES = {
    "01": "ESTABLISHED",
    "02": "SYN_SENT",
    "06": "TIME_WAIT",
    "08": "CLOSE_WAIT",
    "0A": "LISTEN",
}


def _wraps(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("wrap-*.json")):
        try:
            yield json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue


def _look(folder: Path) -> dict[str, Any]:
    ranks = {}
    for value in _wraps(folder):
        if isinstance(value.get("pid"), int) and value.get("status") is None:
            ranks[str(value["pid"])] = _state(
                value["pid"], (folder / f"init-{value['pid']}.json").exists()
            )

    return {
        "at": time.time(),
        "ranks": ranks,
        "sockets": _sockets([int(pid) for pid in ranks]),
    }


def _state(pid: int, initialised: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"initialised": initialised}
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {**found, "state": "gone"}

    table = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    try:
        ticks = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        found["cpu_s"] = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        pass

    try:
        # Not every kernel has the scheduler's statistics, which tell how long it waited.
        found["waited_s"] = (
            int(Path(f"/proc/{pid}/schedstat").read_text("utf-8").split()[1]) / 1e9
        )
    except (OSError, ValueError, IndexError):
        pass

    return {
        **found,
        "state": table.get("State", "?"),
        "threads": int(table.get("Threads", "0")),
    }


def _sockets(pids: list[int]) -> list[dict[str, Any]]:
    """Return the TCP sockets of these processes, with the octets that wait in them."""

    owners: dict[str, int] = {}
    for pid in pids:
        for path in (
            Path(f"/proc/{pid}/fd").glob("*")
            if os.access(f"/proc/{pid}/fd", os.R_OK)
            else ()
        ):
            try:
                target = os.readlink(path)  # noqa: PTH115
            except OSError:
                continue

            if target.startswith("socket:["):
                owners[target[8:-1]] = pid

    found = []
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{table}").read_text("utf-8").splitlines()[1:]
        except OSError:
            continue

        for line in lines:
            _, local, remote, state, queues, _, _, _, _, inode, *_ = line.split()
            if inode in owners:
                unsent, _, unread = queues.partition(":")
                ends = {"local": _endpoint(local), "remote": _endpoint(remote)}
                waits = {"unsent": int(unsent, 16), "unread": int(unread, 16)}
                found.append(
                    {
                        "pid": owners[inode],
                        "state": _STATES.get(state, state),
                        **ends,
                        **waits,
                    }
                )

    return found


def _endpoint(text: str) -> str:
    address, port = endpoint(text)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


if __name__ == "__main__":
    print(json.dumps(_look(Path(sys.argv[1]))), flush=True)
