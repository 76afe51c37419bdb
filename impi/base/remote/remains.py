"""Remove the files and daemons that killed processes of an MPI library leave on a node.

A library makes shared memory and files, and removes them itself unless it is killed. Its daemons on
a node, started by its mpiexec, may outlive a frozen mpiexec. No library is named here:
:class:`~impi.base.remote.starter_lines.Leaves` has the names of all of these, from the manifests.

The danger is to remove what another job of the same user uses. So each kind has evidence that it is
unused: a segment is mapped and open in no process; a folder's name has the process id of a process
that has ended; daemons' files go only while no daemon runs. And nothing that is older than the
starter, or than the procs that it was told of, is touched. :class:`Guests` finds the daemons and
processes that an mpiexec has started, :class:`Remains` the files.

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
_ALONE_S = 1.0  # a proxy ends soon after its mpiexec, and removes its files itself
_KILLED_S = 5.0
_SELDOM = 8  # glances for each look
# A file's time may be that much earlier than its maker's start: the kernel counts in ticks
_TICK_S = 0.02


class Guests:
    """The processes on this node that an mpiexec, and not the starter, has started.

    Some are *named* (:meth:`name`): procs of the job, and the processes above them up to their
    proxies. Others are *strays*: daemons and the processes below them, seen before any proc was
    named. Strays may belong to another job.

    Args:
        leaves: names of daemons and proxies.
        began: time at which the starter began, in seconds since the epoch.
    """

    def __init__(self, leaves: Leaves, began: float) -> None:
        self._daemons = _octets(leaves["daemons"])
        self._proxies = _octets(leaves["proxies"])
        self.procs: set[int] = set()
        self._named: dict[int, int] = {}
        self._strays: set[int] = set()
        self._glances = 0
        # Begin of the oldest named process, and of the oldest stray: maybe before the starter's.
        self.since = self.since_strays = began

    def name(self, procs: Iterable[int]) -> None:
        """Set the procs of the job on this node; the first call finds the processes above them."""
        # As pidfds: a process that gets the number of one that has ended must not be signalled.
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
        """Look for strays at every eighth call: a look reads the names of all processes here."""
        # Names are found by a file of each process here: too dear for each turn of a watch.
        if self._glances % _SELDOM == 0:
            self.look()

        self._glances += 1

    def look(self) -> None:
        """Look for daemons, and note them and the processes below them as strays."""
        daemons = called(self._daemons)
        if daemons:
            self._strays |= set(processes.descendants(under=daemons))
            self.since_strays = min([self.since_strays, *map(processes.began, daemons)])

    def end(self, grace_s: float) -> None:
        """End the named processes if mpiexec does not do so in time: it may be frozen, or cut off.

        Their files may be removed only after that. Strays are waited for, but never signalled: they
        may belong to another job.
        """
        if not self._named:
            self.look()

        # First without a signal, since a proxy ends its procs and its files itself. Then TERM, then
        # KILL, and only for those that are known to be this job's.
        alive = self._named or _opened(self._strays)
        for number, seconds in (
            (0, max(_ALONE_S, grace_s)),
            (signal.SIGTERM, _ALONE_S),
            (signal.SIGKILL, _KILLED_S),
        ):
            patience = Patience(seconds, 1)
            if number:
                alive = {
                    pid: guest for pid, guest in alive.items() if pid in self._named
                }

            for guest in alive.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(guest, number)
                    # A stopped one gets no TERM
                    signal.pidfd_send_signal(guest, signal.SIGCONT if number else 0)

            while alive and not patience.ended():
                # A pidfd becomes readable when its process ends, whoever its parent is.
                ended = select.select(list(alive.values()), [], [], _TICK_S)[0]
                alive = {
                    pid: guest for pid, guest in alive.items() if guest not in ended
                }


class Remains:
    """The shared memory, files and folders that processes of a starter may leave.

    Args:
        leaves: their names.
        guests: the other processes of the job; files older than all of them stay.
    """

    def __init__(self, leaves: Leaves, guests: Guests) -> None:
        self._leaves, self._guests = leaves, guests
        self._noted: set[str] = set()

    def note(self) -> None:
        """Note the shared memory that processes below this one have mapped.

        After a failure :meth:`sweep` removes it, when no process is left that could name it.
        """
        # The part before the node's name is enough: what our own processes have mapped is ours.
        ours = tuple(name.partition(_NODE)[0] for name in self._leaves["segments"])
        for pid in processes.descendants():
            with contextlib.suppress(OSError):
                for line in _mapped(pid):
                    _, slash, path = line.partition(f"{_SHM}/")
                    if slash and path.startswith(ours):
                        self._noted.add(f"{_SHM}/{path.removesuffix(' (deleted)')}")

    def sweep(self, pids: Iterable[int], *, failed: bool) -> None:
        """Remove what processes have left.

        A library sometimes leaves a segment after a success, too: if a process exits right after
        MPI_Finalize. Segments of processes that go on after a success stay.

        Args:
            pids: processes that the starter has started itself.
            failed: whether the job has failed, and so no process of it goes on.
        """

        # Nothing older than the job's oldest process can be the job's.
        since = self._guests.since - _TICK_S

        # A daemon's file does not show its owner. But while no daemon runs, no job needs it.
        since_daemons = min(since, self._guests.since_strays - _TICK_S)
        for path in self._unused(since) | (
            self._noted | self._files(since_daemons) if failed else set()
        ):
            with contextlib.suppress(OSError):
                os.unlink(path)

        temporary = os.environ.get("TMPDIR", _TMP)

        folders = {
            os.path.join(temporary, f"{name}{pid}")
            for name in self._leaves["folders"]
            for pid in pids
        }
        for folder in folders | (
            self._sessions(since_daemons, temporary) if failed else set()
        ):
            # `shutil` is loaded only for a folder that is there, as most jobs leave none.
            if os.path.isdir(folder):
                import shutil

                shutil.rmtree(folder, ignore_errors=True)

    def _unused(self, since: float) -> set[str]:
        """Return segments made here since ``since`` that no process uses: their makers were killed.

        A process that dies in MPI_Init leaves segments that :meth:`note` has not seen. A segment in
        use is always open or mapped. A process opens it first and then maps it, so descriptors are
        read before maps: in the other order a change in between would hide it from both.
        """

        # Only names with this node's name, if the library puts it in: with a shared /dev/shm, the
        # processes of another container cannot be seen from here.
        names = [
            name.replace(_NODE, os.uname().nodename)
            for name in self._leaves["segments"]
        ]

        # Suspects first, and only with suspects the walk over all processes of the machine.
        found = _made_since(since, _SHM, names)
        for pid in processes.everybody() if found else ():
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        found.discard(os.readlink(f"/proc/{pid}/fd/{number}"))

                found.difference_update(line[line.find("/") :] for line in _mapped(pid))

        return found

    def _files(self, since: float) -> set[str]:
        """Return files that daemons have made since ``since`` and left; none while a daemon runs.

        A killed daemon cannot remove its file, and only the daemon knew the file's name. So a
        running daemon of another job could have any of them.
        """
        found: set[str] = set()
        for glob in self._leaves["files"]:
            folder, name = os.path.split(glob)
            found.update(
                fnmatch.filter(
                    _made_since(since, folder, [name.partition("*")[0]]), glob
                )
            )

        return set() if found and called(_octets(self._leaves["daemons"])) else found

    def _sessions(self, since: float, folder: str) -> set[str]:
        """Return folders whose names end with the process id of a daemon that has ended."""
        made = _made_since(since, folder, self._leaves["sessions"])
        found = {path: path.rpartition(".")[2] for path in made}

        return {
            path
            for path, pid in found.items()
            if pid.isascii() and pid.isdecimal() and not processes.lives(int(pid))
        }


def called(names: tuple[bytes, ...]) -> list[int]:
    """Return the processes of this container whose names begin with one of ``names``.

    Processes with other mounts have a /tmp of their own, and leave nothing in this one.
    """
    # The number of the namespace of mounts: equal for those that see this /tmp.
    place, found = os.readlink("/proc/self/ns/mnt"), []
    for pid in processes.everybody() if names else ():
        with contextlib.suppress(OSError):
            if (
                processes.name(pid).startswith(names)
                and os.readlink(f"/proc/{pid}/ns/mnt") == place
            ):
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
    """Return the processes above one up to its proxy, such as a wrapper of the user.

    The list is empty if there is no proxy above.
    """
    found = [processes.parent(pid)]
    while found[-1] and not processes.name(found[-1]).startswith(proxies):
        found.append(processes.parent(found[-1]))

    return found if found[-1] else []


def _mapped(pid: int) -> list[str]:
    """Return the lines of /proc/PID/maps; OSError: the process is gone, or another user's."""
    # Decoded like file names from listdir(), or names of odd octets would not compare equal.
    with open(
        f"/proc/{pid}/maps",
        encoding=sys.getfilesystemencoding(),
        errors="surrogateescape",
    ) as file:
        return file.read().split("\n")


def _made_since(since: float, folder: str, beginnings: Sequence[str]) -> set[str]:
    """Return this user's files in a folder that begin with such a name and are not older."""

    found: set[str] = set()
    try:
        # Without beginnings nothing can fit, and a large folder need not be read.
        names = os.listdir(folder) if beginnings else []
    except OSError:  # there is no such folder, or it cannot be read
        return found

    for name in names:
        with contextlib.suppress(OSError):
            # Not stat: another user's link may lead to our file
            status = os.lstat(f"{folder}/{name}")
            if (
                name.startswith(tuple(beginnings))
                and status.st_uid == os.getuid()
                and status.st_ctime >= since
            ):
                found.add(f"{folder}/{name}")

    return found
