"""The processes below this one, and how to leave none of them behind.

Linux only. Process groups and sessions are not enough: launchers give every proc a session of its own. So the process
becomes the *subreaper* of its descendants: an orphan among them stays in the tree, and a walk through /proc finds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["become_subreaper", "descendants", "end", "segments", "send", "zombies"]

_PR_SET_CHILD_SUBREAPER = 36
_ALL_AFTER_S = 0.5
_GIVE_UP_S = 5.0  # what outlives KILL for so long is stuck in the kernel, or another user's


_LIBC = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make orphans of this process tree come to this process."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _table() -> dict[int, tuple[int, bool]]:
    """Of every process: its parent, and whether it is alive (no zombie)."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (pathlib costs 10 ms)
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The command's name stands in parentheses and may hold any character.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        table[int(name)] = (int(parent), state not in (b"Z", b"X"))
    return table


def descendants() -> list[int]:
    """Process ids of all living processes below this one."""
    table = _table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return [pid for pid in found if table[pid][1]]


def zombies() -> list[int]:
    """Process ids of children of this process that have ended and were not waited for."""
    return [pid for pid, (parent, alive) in _table().items() if parent == os.getpid() and not alive]


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to all of them that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end(first: Iterable[int], grace_s: float, turn: Callable[[float], object]) -> None:
    """End everything below this process: TERM to ``first``, soon to all, after ``grace_s`` KILL, until none is left.

    Args:
        first: those that end their own children when asked to, such as mpiexec.
        grace_s: seconds between the first signal and KILL.
        turn: is called again and again with a number of seconds to spend: reaps children and drains their pipes.
    """
    send(first, signal.SIGTERM)
    begin = time.monotonic()
    asked = False
    while (left := descendants()) and time.monotonic() < begin + grace_s:
        if not asked and time.monotonic() > begin + min(_ALL_AFTER_S, grace_s / 2):
            asked = True
            send(left, signal.SIGTERM)
        turn(0.02)
    give_up = time.monotonic() + _GIVE_UP_S
    while (left := descendants()) and time.monotonic() < give_up:
        # Again and again: a process may fork between the walk and the signal.
        send(left, signal.SIGKILL)
        turn(0.02)


def segments(pids: Iterable[int]) -> set[Path]:
    """Shared-memory files of MPI libraries that these processes have mapped, so that only our own are ever removed."""
    found: set[Path] = set()
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            _, slash, path = line.partition("/dev/shm/")
            if slash and path.startswith(("sm_segment.", "mpich_shm_")):
                found.add(Path("/dev/shm") / path.removesuffix(" (deleted)"))
    return found
