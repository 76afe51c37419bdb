"""Owners of labs: the labels that name them, and whether they still live."""

from __future__ import annotations

import os
import time
from pathlib import Path


def _start_time(pid: int) -> str | None:
    """Return the process's start in clock ticks since boot; None without one, or for a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None

    return None if fields[:1] in ([], [b"Z"]) else fields[19].decode()


def _world() -> str:
    """Name the set of process numbers that we see: this machine's boot, and our namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116  (the link's target is not a path)
    except OSError:
        return f"{os.uname().nodename}/0"


def myself() -> str:
    """A label that names this process for as long as the machine is up."""
    return f"{_world()}/{os.getpid()}/{_start_time(os.getpid())}"


def of_process(number: int, *, before: float) -> str:
    """Return the label of that living process, or "" if it started after ``before`` (epoch)."""

    started = _start_time(number)
    try:
        uptime = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except OSError:
        return ""

    if started is None:
        return ""

    began = time.time() - uptime + int(started) / os.sysconf("SC_CLK_TCK")

    return f"{_world()}/{number}/{started}" if began <= before + 1.0 else ""


def is_of_this_boot(label: str) -> bool:
    """Whether :func:`myself` gave the label on this machine since its last start."""
    return label.partition("/")[0] == _world().partition("/")[0]


def is_live(label: str) -> bool:
    """Whether the process that :func:`myself` named may still run.

    False after a restart of the machine. True, to be safe, in a namespace that cannot be seen.
    """

    try:
        boot, namespace, pid, started = label.split("/")
        number = int(pid)
    except ValueError:
        return False

    my_boot, _, my_namespace = _world().partition("/")
    if boot != my_boot:
        return False

    if namespace != my_namespace:
        return True

    return _start_time(number) == started
