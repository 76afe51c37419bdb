"""What killed processes of an MPI library leave on a node, and who removes it: files and daemons.

A library makes shared memory and files that it removes itself, unless it is killed. Its daemons on
a node, which its mpiexec has started, may outlive a frozen mpiexec. No library is named here:
:class:`~impi.base.remote.starter_lines.Leaves` says how all of these are called.

Standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import select
import signal
import sys
from collections.abc import Iterable, Sequence

from impi.base.remote import processes
from impi.base.remote.patience import Patience
from impi.base.remote.starter_lines import Leaves

_SHM = "/dev/shm"
_TMP = "/tmp"
_NODE = "{node}"
_ALONE_S = 1.0  # a proxy ends once its mpiexec has, and then it removes what it has made
_KILLED_S = 5.0
_SELDOM = 8  # glances to one look
_TICK_S = 0.02  # how much later than a file's time its maker's clock may be: the kernel counts in ticks


class Guests:
    """The processes on this node that an mpiexec has started, not the starter.

    Some are named (:meth:`name`): procs of the job, and what is above them up to their proxies.
    Others are strays: daemons, and what is below them, seen while no proc had a name. They may
    belong to another job.

    Args:
        leaves: how daemons are called.
        began: when the starter began, in seconds since the epoch.
    """

    def __init__(self, leaves: Leaves, began: float) -> None:
        self._daemons = _octets(leaves["daemons"])
        self._proxies = _octets(leaves["proxies"])
        self.procs: set[int] = set()
        self._named: dict[int, int] = {}
        self._strays: set[int] = set()
        self._glances = 0
        # When the first of those named began, and the first stray: maybe before the starter.
        self.since = self.since_strays = began

    def name(self, procs: Iterable[int]) -> None:
        """Take the procs of the job on this node; the first call finds what is above them."""
        self.procs = set(procs)
        if not self._named:
            above = (pid for proc in self.procs for pid in _up_to(proc, self._proxies))
            self._named = _opened({*self.procs, *above})
        self.since = min([self.since, *map(processes.began, self._named)])

    def send(self, number: int) -> None:
        """Send a signal to each proc of the job on this node."""
        for pid in self.procs:
            with contextlib.suppress(KeyError, ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._named[pid], number)

    def glance(self) -> None:
        """Look, but seldom: each look reads the names of all processes of the machine."""
        if self._glances % _SELDOM == 0:
            self.look()
        self._glances += 1

    def look(self) -> None:
        daemons = called(self._daemons)
        if daemons:
            self._strays |= set(processes.descendants(under=daemons))
            self.since_strays = min([self.since_strays, *map(processes.began, daemons)])

    def end(self, grace_s: float) -> None:
        """End those named, if mpiexec does not in its time: it may be frozen, or cut off.

        Their files may be removed only after that. Strays have time to end, and are let alone.
        """
        if not self._named:
            self.look()
        alive = self._named or _opened(self._strays)
        for number, seconds in ((0, max(_ALONE_S, grace_s)), (signal.SIGTERM, _ALONE_S), (signal.SIGKILL, _KILLED_S)):
            patience = Patience(seconds, 1)
            if number:
                alive = {pid: guest for pid, guest in alive.items() if pid in self._named}
            for guest in alive.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(guest, number)
                    signal.pidfd_send_signal(guest, signal.SIGCONT if number else 0)  # or TERM would wait
            while alive and not patience.ended():
                ended = select.select(list(alive.values()), [], [], _TICK_S)[0]
                alive = {pid: guest for pid, guest in alive.items() if guest not in ended}


class Remains:
    """The shared memory, files and folders that processes of a starter may leave.

    Args:
        leaves: how they are called.
        guests: other processes of the job; what is older than all of them stays.
    """

    def __init__(self, leaves: Leaves, guests: Guests) -> None:
        self._leaves, self._guests = leaves, guests
        self._noted: set[str] = set()

    def note(self) -> None:
        """Note shared memory that processes below this one have mapped: after a failure it goes."""
        ours = tuple(name.partition(_NODE)[0] for name in self._leaves["segments"])
        for pid in processes.descendants():
            with contextlib.suppress(OSError):
                for line in _mapped(pid):
                    _, slash, path = line.partition(f"{_SHM}/")
                    if slash and path.startswith(ours):
                        self._noted.add(f"{_SHM}/{path.removesuffix(' (deleted)')}")

    def sweep(self, pids: Iterable[int], *, failed: bool) -> None:
        """Remove what processes have left.

        A library leaves a segment now and then even if all is well: if a process exits at once
        after MPI_Finalize. What processes have that go on after success stays.

        Args:
            pids: those that the starter has started itself.
            failed: whether nothing goes on.
        """
        since = self._guests.since - _TICK_S
        # Nothing tells whose a daemon's file is. But while no daemon runs, no job needs one.
        since_daemons = min(since, self._guests.since_strays - _TICK_S)
        for path in self._unused(since) | (self._noted | self._files(since_daemons) if failed else set()):
            with contextlib.suppress(OSError):
                os.unlink(path)
        temporary = os.environ.get("TMPDIR", _TMP)
        folders = {os.path.join(temporary, f"{name}{pid}") for name in self._leaves["folders"] for pid in pids}
        for folder in folders | (self._sessions(since_daemons, temporary) if failed else set()):
            if os.path.isdir(folder):
                import shutil

                shutil.rmtree(folder, ignore_errors=True)

    def _unused(self, since: float) -> set[str]:
        """Return segments that no process has, made here since then: their makers died in MPI_Init.

        Such a process is killed before anybody can note what it has. A segment of another job is
        always open or mapped; first open, so in that order both are looked at.
        """
        # With the node's name where there is one: another container's processes cannot be seen.
        names = [name.replace(_NODE, os.uname().nodename) for name in self._leaves["segments"]]
        found = _made_since(since, _SHM, names)
        for pid in processes.everybody() if found else ():
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        found.discard(os.readlink(f"/proc/{pid}/fd/{number}"))
                found.difference_update(line[line.find("/") :] for line in _mapped(pid))
        return found

    def _files(self, since: float) -> set[str]:
        """Return files that daemons have made since then, and left.

        A daemon that is killed cannot remove its file, and nothing but the daemon knows the name.
        So there must be no other one on this node.
        """
        found: set[str] = set()
        for glob in self._leaves["files"]:
            folder, name = os.path.split(glob)
            found.update(fnmatch.filter(_made_since(since, folder, [name.partition("*")[0]]), glob))
        return set() if found and called(_octets(self._leaves["daemons"])) else found

    def _sessions(self, since: float, folder: str) -> set[str]:
        """Return folders of daemons, by process id, which have ended and left them."""
        made = _made_since(since, folder, self._leaves["sessions"])
        found = {path: path.rpartition(".")[2] for path in made}
        return {
            path for path, pid in found.items() if pid.isascii() and pid.isdecimal() and not processes.lives(int(pid))
        }


def called(names: tuple[bytes, ...]) -> list[int]:
    """Return the processes here whose names begin so; those of another container are not.

    A container with a /tmp of its own leaves nothing here.
    """
    place, found = os.readlink("/proc/self/ns/mnt"), []
    for pid in processes.everybody() if names else ():
        with contextlib.suppress(OSError):
            if processes.name(pid).startswith(names) and os.readlink(f"/proc/{pid}/ns/mnt") == place:
                found.append(pid)
    return found


def _octets(names: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(os.fsencode(name) for name in names)


def _opened(procs: Iterable[int]) -> dict[int, int]:
    found = {}
    for pid in procs:
        with contextlib.suppress(OSError):
            found[pid] = os.pidfd_open(pid)
    return found


def _up_to(pid: int, proxies: tuple[bytes, ...]) -> list[int]:
    """Return the processes above one, up to its proxy; none without a proxy.

    A wrapper of the user may be between.
    """
    found = [processes.parent(pid)]
    while found[-1] and not processes.name(found[-1]).startswith(proxies):
        found.append(processes.parent(found[-1]))
    return found if found[-1] else []


def _mapped(pid: int) -> list[str]:
    """Return the lines of a process's memory; OSError: it has ended, or is not for us to read."""
    # As file names are read, or a name of other octets would not be found among them.
    with open(f"/proc/{pid}/maps", encoding=sys.getfilesystemencoding(), errors="surrogateescape") as file:
        return file.read().split("\n")


def _made_since(since: float, folder: str, beginnings: Sequence[str]) -> set[str]:
    """Return this user's files in a folder whose names begin so, and that are no older."""
    found: set[str] = set()
    try:
        names = os.listdir(folder) if beginnings else []
    except OSError:  # there is none, or it is not for us to read
        return found
    for name in names:
        with contextlib.suppress(OSError):
            status = os.lstat(f"{folder}/{name}")  # a link of another user may lead to what is ours
            if name.startswith(tuple(beginnings)) and status.st_uid == os.getuid() and status.st_ctime >= since:
                found.add(f"{folder}/{name}")
    return found
