"""Hits one process of a job on its node, and shows that it was hit; prints one line of JSON.

``strike.py SIGNAL PID WHO [CLIENT]`` finds the process, sends the signal by a pidfd, and watches
for its effect: the end, or the stop of all threads. PID is an impirun, or with CLIENT the one above
that of this client. WHO says which process below it is meant: ``starter``, ``mpiexec`` or
``agent``; ``self`` is the impirun. ``strike.py thaw PID`` continues a stopped one.

It runs on nodes and hosts by their own Python: standard library only, without impi.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path

_LAUNCHERS = ("mpiexec", "mpiexec.hydra", "mpirun", "prterun", "orterun")
# The effect of a signal must show in this time; else the fault is not proved.
_SEEN_S = 3.0
_TURN_S = 0.002


def _words(pid: int) -> list[str]:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .decode("utf-8", "replace")
            .split("\0")
        )
    except OSError:
        return [""]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _state(task: Path) -> str:
    # A process may be named ``a) b``: fields are counted behind the last parenthesis.
    try:
        return (
            (task / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        )
    except (OSError, IndexError):
        return "X"


def _started(pid: int) -> tuple[int, int]:
    """Return a key of the order of starts: ticks since boot, then the process number.

    Within one tick numbers ascend, until the kernel begins again with small ones.
    """
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
        ), pid
    except (OSError, IndexError):
        return 0, pid


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # Octets: a stranger's process may have a name that is not UTF-8.
                parent = int(
                    (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                )
            except (OSError, IndexError):
                continue

            found.setdefault(parent, []).append(int(entry.name))

    return found


def find(top: int, who: str) -> int:
    """Return the process that is meant, below an impirun; 0: there is none."""

    if who == "self":
        return top

    children = _children()

    starters = [pid for pid in children.get(top, []) if _name(pid) == "impi-starter"]
    for starter in starters:
        below = sorted(children.get(starter, []))
        # Host agents have a starter of their own; only that one has agents below it.
        agents = [pid for pid in below if "impi.rank.agent" in _words(pid)]
        launchers = [pid for pid in below if Path(_words(pid)[0]).name in _LAUNCHERS]

        found = {
            "starter": [] if agents else [starter],
            "mpiexec": launchers,
            "agent": agents,
        }[who]
        if found:
            return found[0]

    return 0


def client_below(top: int, client: int) -> int:
    """Return the impirun of a client that another impirun has started; 0: there is none.

    Forks have the command line of the first, so it tells nothing. Each client has a starter, and
    impirun starts these in the order of clients.
    """

    children = _children()
    starters = [pid for pid in children.get(top, []) if _name(pid) == "impi-starter"]
    mine = sorted(starters, key=_started)[client : client + 1]

    return next((pid for starter in mine for pid in children.get(starter, [])), 0)


def stands_still(pid: int) -> bool:
    """Whether the kernel has stopped every thread of a process."""
    # SIGSTOP reaches the threads one by one: a thread that still runs could send another packet.
    tasks = list(Path(f"/proc/{pid}/task").glob("*"))
    return bool(tasks) and all(_state(task) == "T" for task in tasks)


def hit(number: signal.Signals, pid: int) -> dict[str, object]:
    """Send the signal; return when, to whom, and what became of the process within moments."""

    # By a pidfd: the number may be another process's by the time that the signal is sent.
    descriptor, what = os.pidfd_open(pid), " ".join(_words(pid)).strip() or _name(pid)
    # The time is taken before the signal: all that follows from it must come later.
    was, at = _state(Path(f"/proc/{pid}")), time.time()
    signal.pidfd_send_signal(descriptor, number)
    deadline = time.monotonic() + _SEEN_S

    ended = still = False
    while time.monotonic() < deadline and not (ended or still):
        if number == signal.SIGSTOP:
            still = stands_still(pid)
            time.sleep(_TURN_S)
        else:
            ended = bool(
                select.select(
                    [descriptor], [], [], max(0.0, deadline - time.monotonic())
                )[0]
            )

    return {
        "pid": pid,
        "what": what,
        "was": was,
        "at": at,
        "still": still,
        "ended": ended,
    }


def thaw(pid: int) -> dict[str, object]:
    """Continue a process; return whether it still was stopped until then."""
    still = stands_still(pid)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        still = False

    return {"pid": pid, "still": still}


if __name__ == "__main__":
    if sys.argv[1] == "thaw":
        print(json.dumps(thaw(int(sys.argv[2]))), flush=True)
    else:
        above = int(sys.argv[2])
        above = client_below(above, int(sys.argv[4])) if len(sys.argv) > 4 else above
        victim = find(above, sys.argv[3]) if above else 0
        print(
            json.dumps(hit(signal.Signals[sys.argv[1]], victim) if victim else {}),
            flush=True,
        )
