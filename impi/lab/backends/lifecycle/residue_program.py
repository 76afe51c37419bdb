"""Print this node's leftovers as a JSON list of sentences. Standard library only.

Sent to a node as a text, behind that of ``kernel_tables`` (:mod:`.residue`).

The one argument is a JSON object:

* ``uid``: whose processes and segments count.
* ``spare``: processes whose command line begins with one of these are the lab's own.
* ``mark``: ``NAME=value``; only processes with it in their environment count, and no listeners of
  other users, or of processes with another value; empty: all.
* ``ports``: listening TCP ports that are the lab's own.
* ``prefix``: only listeners on addresses that begin so count; empty: all but loopback's resolvers.
* ``known``: names in /dev/shm that were there before.
* ``others``: beginnings of names in /dev/shm that no library of this lab makes.
* ``folders``: where no file of the job may stay, such as /tmp of a container.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import TypedDict

from impi.lab.programs.kernel_tables import listeners

_RESOLVER = "127.0.0.11"  # the engine's own, in every container
_SHM = "/dev/shm"


class Spec(TypedDict):
    """The one argument, read."""

    uid: int
    spare: list[str]
    mark: str
    ports: list[int]
    prefix: str
    known: list[str]
    others: list[str]
    folders: list[str]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (no pathlib on a node: it costs 10 ms)
            return file.read()
    # A process may end between two looks at it.
    except OSError:
        return b""


def _shown(name: str) -> str:
    """Return a file's name as text that can be printed; it may have any octets."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _family() -> set[int]:
    found, pid = set(), os.getpid()
    # The sweep and everything above it: they would find themselves.
    while pid > 1:
        found.add(pid)
        # The name of a program stands in brackets and may contain anything,
        # so read behind the last one.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0

    return found


def _of_a_visitor(pid: int) -> bool:
    """Whether a process was started from outside the container (docker exec).

    Such a process has no parent inside. A job's leftover has one: the container's first process.
    """
    while pid > 1:
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) < 2:
            return False

        parent = int(fields[1])
        if parent == 0:
            return True

        pid = parent

    return False


def _processes(spec: Spec) -> Iterator[tuple[int, str]]:
    own = _family()
    for name in os.listdir("/proc"):  # noqa: PTH208
        # The sweep, its parents and a container's first process are not leftovers.
        if not name.isdigit() or int(name) in own or int(name) == 1:
            continue

        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid != spec["uid"]:  # noqa: PTH116
                continue

        state = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()

        line = (
            _read(f"/proc/{name}/cmdline")
            .rstrip(b"\0")
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
        # A zombie waits for its parent only, and a kernel's thread has no command line.
        if (
            not state
            or state[0] in (b"Z", b"X")
            or not line
            or line.startswith(tuple(spec["spare"]))
        ):
            continue

        # In a container of our own everything counts, but for what came from outside.
        if not spec["mark"] and _of_a_visitor(int(name)):
            continue

        # On a shared machine only what has the mark is the lab's.
        if spec["mark"] and spec["mark"].encode() not in _read(
            f"/proc/{name}/environ"
        ).split(b"\0"):
            continue

        yield int(name), line


def _of_other_labs(mark: str) -> set[str]:
    """Return the inodes of the sockets of processes that have another lab's mark."""
    name, found = mark.partition("=")[0].encode() + b"=", set()
    # A process without any mark is of no lab, so it excuses no listener.
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        words = _read(f"/proc/{pid}/environ").split(b"\0")
        if mark.encode() in words or not any(word.startswith(name) for word in words):
            continue

        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115

    return {link.removeprefix("socket:[").rstrip("]") for link in found}


def _listeners(spec: Spec) -> Iterator[str]:
    theirs = None
    for each in listeners():
        if each.port in spec["ports"] or each.address == _RESOLVER:
            continue

        if not each.address.startswith(spec["prefix"]):
            continue

        if spec["mark"]:  # on a shared machine
            theirs = _of_other_labs(spec["mark"]) if theirs is None else theirs
            # Labs share hosts: listeners of another lab's job were once taken for leftovers.
            if each.uid != spec["uid"] or each.inode in theirs:
                continue

        yield f"listener {each.address} port {each.port}"


def _mapped(names: list[str], pids: list[int]) -> set[str]:
    """Return the ``names`` of segments mapped by a living process outside of ``pids``."""
    found: set[str] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208
        # Processes with the lab's mark are leftovers themselves: what they
        # have mapped is not in use.
        if name.isdigit() and int(name) not in pids:
            maps = os.fsdecode(_read(f"/proc/{name}/maps"))
            found.update(segment for segment in names if f"{_SHM}/{segment}" in maps)

    return found


def _files(spec: Spec) -> Iterator[str]:
    for folder in spec["folders"]:
        for name in sorted(os.listdir(folder)):  # noqa: PTH208
            with contextlib.suppress(OSError):
                mine = os.lstat(f"{folder}/{name}").st_uid == spec["uid"]
                # Files of the lab itself begin so.
                if mine and not name.startswith("impilab"):
                    yield f"file {_shown(folder)}/{_shown(name)}"


def sweep(spec: Spec) -> list[str]:
    """Return all findings."""

    processes = list(_processes(spec))

    segments = []
    for name in sorted(os.listdir(_SHM)) if os.path.isdir(_SHM) else []:  # noqa: PTH208, PTH112
        with contextlib.suppress(OSError):
            if name in spec["known"] or name.startswith(tuple(spec["others"])):
                continue

            if os.stat(f"{_SHM}/{name}").st_uid == spec["uid"]:  # noqa: PTH116
                segments.append(name)

    if segments and spec["mark"]:
        # On a machine of several users, a segment in use belongs to its user.
        used = _mapped(segments, [pid for pid, _ in processes])
        segments = [name for name in segments if name not in used]

    found = [f"process {pid} {line}" for pid, line in processes]

    return [
        *found,
        *(f"segment {_SHM}/{_shown(name)}" for name in segments),
        *_listeners(spec),
        *_files(spec),
    ]


if __name__ == "__main__":
    print(json.dumps(sweep(json.loads(sys.argv[1]))))
