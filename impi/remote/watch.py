"""What a starter sees of the processes below it from outside: which are stopped, which cut off.

A rank may compute for an hour without a call of MPI, so its silence says nothing. Its state in
/proc does: T after SIGSTOP. And the kernel knows of each TCP connection how often it has repeated
octets, or probes of keepalive, that nobody has acknowledged (/proc/net/tcp). The kernel of a live
machine acknowledges for a process that is busy or stopped, too, so only a cut link or a dead
machine makes these counters stay above 0.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.remote.bootstrap`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impi.remote.processes import Groups

LOOK_S = 0.5
"""Seconds between two looks."""
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"
_TIMERS = ("01", "02", "04")  # octets are repeated; keepalive; probes of a closed window
_MAPPED = b"\0" * 10 + b"\xff" * 2

End = tuple[str, int]
"""Address and port."""
Ends = tuple[End, End]
"""The own end of a connection, and that of the other side."""


class Watch:
    """Looks at processes and connections, and tells each that has been lost for too long, once.

    Args:
        limit_s: seconds that it may be so.
        clock: in seconds.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_s
        self.ends: set[End] = set()
        """Where hosts of the job listen: only connections from or to there are looked at."""
        self._clock = clock
        self._next = clock()
        self._since: dict[object, float] = {}
        """When a process was first seen stopped, or a connection without an acknowledgement."""

    def due(self) -> bool:
        """Whether it is time for the next look."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + LOOK_S
        return True

    def stopped(self, found: Groups) -> list[int]:
        """Return the processes of ``found`` that have been stopped for too long."""
        return [pid for pid in self._overdue(found.stopped, int) if isinstance(pid, int)]

    def cut(self, found: Iterable[int], tables: Iterable[str] = _TABLES) -> list[Ends]:
        """Return the ends of connections of processes ``found`` that have been cut for too long."""
        if not self.ends:
            return []
        waiting = {inode: ends for inode, ends in _unacknowledged(tables) if not self.ends.isdisjoint(ends)}
        # Sockets of which process: only if there is a reason to ask.
        ours = _sockets(found) if waiting else set()
        seen = {inode: ends for inode, ends in waiting.items() if inode in ours}
        return [seen[str(inode)] for inode in self._overdue(seen, str)]

    def _overdue(self, seen: Iterable[object], kind: type) -> list[object]:
        """Keep account of one kind of things; return those for which the time is over."""
        now, seen = self._clock(), set(seen)
        for thing in [thing for thing in self._since if isinstance(thing, kind) and thing not in seen]:
            del self._since[thing]
        over = [thing for thing in seen if now - self._since.setdefault(thing, now) >= self.limit_s]
        for thing in over:
            self._since[thing] = float("inf")
        return over


def _unacknowledged(tables: Iterable[str]) -> Iterator[tuple[str, Ends]]:
    """Yield inode and ends of each connection of this machine whose octets nobody acknowledges."""
    for table in tables:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            next(file, "")
            for line in file:
                _, own, other, state, _, timer, repeated, _, probes, inode, *_ = line.split()
                if state == _ESTABLISHED and timer[:2] in _TIMERS and (int(repeated, 16) or int(probes)):
                    yield inode, (_end(own), _end(other))


def _end(text: str) -> End:
    """Return address and port of ``0100007F:1F90``: words in the order of the machine."""
    words, _, port = text.partition(":")
    octets = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    octets = octets.removeprefix(_MAPPED)
    family = socket.AF_INET if len(octets) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, octets), int(port, 16)


def _sockets(pids: Iterable[int]) -> set[str]:
    """Return the inodes of the sockets of these processes."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    kind, _, inode = os.readlink(f"/proc/{pid}/fd/{number}").partition(":")
                    if kind == "socket":
                        found.add(inode.strip("[]"))
    return found
