"""The user's standard input, on its way to rank 0 of client 0, as mpiexec gives it to rank 0.

The launchers of the vendors cannot carry it: Hydra ends the job if a program reads slowly, and
PRRTE never ends the input. So every proc starts with an empty input, and the first Python of rank 0
fetches the user's at the control socket (``IMPI_INPUT``,
:mod:`impi.rank.engine.job.fetched_input`). The ``impirun`` that starts all clients (``-file``)
hands its own to client 0 through the starter.

One chunk at a time is under way, so that input waits at its source until somebody reads it.
"""

from __future__ import annotations

import os
import selectors
import socket
import stat
from collections.abc import Callable
from typing import Final

_CHUNK: Final = 1 << 15  # octets; as a line of base64 it fits a pipe, whose reader may itself wait for its writer
_LOOK_S: Final = 1.0  # between looks whether the terminal has come back to this job: no signal tells
_NULL: Final = os.makedev(1, 3)


def has_input(descriptor: int = 0) -> bool:
    """Return whether there can be input: the descriptor is open, and not /dev/null."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return not (stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL)


class Source:
    """Standard input of this process, read only while somebody asks for it.

    A terminal whose foreground is another job is left alone: the kernel stops a background process
    that reads from it.

    Args:
        selector: of the owner's loop, which calls :meth:`turn` before it sleeps.
        descriptor: what is read.
    """

    def __init__(self, selector: selectors.BaseSelector, descriptor: int = 0) -> None:
        self._selector, self._descriptor = selector, descriptor
        self._give: Callable[[bytes], None] | None = None
        self._watched = False

    def ask(self, give: Callable[[bytes], None]) -> None:
        """Let ``give`` be called once with some octets; empty: the end. It must not ask at once."""
        self._give = give
        self.turn()

    def turn(self) -> float:
        """Begin to read if that is possible by now.

        Returns:
            Seconds after which it must be called again; infinite if it is all the same.
        """
        if self._give is None or self._watched:
            return float("inf")
        if self._background():
            return _LOOK_S
        try:
            self._selector.register(self._descriptor, selectors.EVENT_READ, self._readable)
            self._watched = True
        except PermissionError:  # epoll takes no files; they never make a reader wait
            self._read()
        return float("inf")

    def _readable(self) -> None:
        self._selector.unregister(self._descriptor)
        self._watched = False
        if not self._background():
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a folder, or a terminal that is gone
        give, self._give = self._give, None
        if give is not None:
            give(data)

    def _background(self) -> bool:
        try:
            return os.tcgetpgrp(self._descriptor) != os.getpgrp()
        except OSError:  # no terminal, or not the one of this session
            return False


class Feed:
    """Standard input on its way into the socket of the proc that has fetched it last."""

    def __init__(self, selector: selectors.BaseSelector, source: Source) -> None:
        self._selector, self._source = selector, source
        self._sock: socket.socket | None = None
        self._writes = False
        self._asked = False
        self._ended = False
        self._unsent = b""

    def attach(self, sock: socket.socket) -> None:
        """Send the rest of the input to ``sock``, which belongs to this object from now on."""
        self.close()
        sock.setblocking(False)
        self._sock = sock
        self._go_on()

    def turn(self) -> float:
        return self._source.turn()

    def close(self) -> None:
        """Close the socket; what is not sent waits for the next one."""
        if self._sock is not None:
            self._watch(False)
            self._sock.close()
            self._sock = None

    def _go_on(self) -> None:
        if self._ended and not self._unsent:
            self.close()
        elif self._unsent:
            self._watch(True)
        else:
            self._watch(False)
            if not self._asked:
                self._asked = True
                self._source.ask(self._take)

    def _take(self, data: bytes) -> None:
        self._asked = False
        self._unsent = data
        self._ended = not data
        if self._sock is not None:
            # The end, too, takes a turn of the loop: this may be called from within _go_on.
            self._watch(True)

    def _writable(self) -> None:
        assert self._sock is not None
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :] if self._unsent else b""
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""  # the proc has ended, or closed its input
            self.close()
            return
        self._go_on()

    def _watch(self, wanted: bool) -> None:
        assert self._sock is not None
        if wanted and not self._writes:
            self._selector.register(self._sock, selectors.EVENT_WRITE, self._writable)
        elif self._writes and not wanted:
            self._selector.unregister(self._sock)
        self._writes = wanted
