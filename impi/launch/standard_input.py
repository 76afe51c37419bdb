"""Carry the user's standard input to rank 0 of client 0, as mpiexec gives it to its rank 0.

The vendors' launchers cannot carry it: Hydra ends the job if a program reads slowly, and PRRTE
never ends the input. So every proc starts with an empty input, and the first Python of rank 0
fetches the user's from the control socket (``IMPI_INPUT``,
:mod:`impi.rank.engine.job.fetched_input`). The ``impirun`` that starts all clients (``-file``)
passes its own input to client 0 through the starter.

A :class:`Source` reads a chunk only when asked, and a :class:`Feed` asks only once the last chunk
is written. So input that the program does not read stays at its source, whatever its size.
"""

from __future__ import annotations

import os
import selectors
import socket
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

# Octets of a chunk. As a line of base64 it fits into a pipe (64 KiB), so that writing it never
# blocks: the starter at the other end may itself be blocked in writing to this process.
_CHUNK: Final = 1 << 15
# Seconds between two checks for the terminal's return: no signal announces it
_LOOK_S: Final = 1.0
_NULL: Final = os.makedev(1, 3)


def has_input(descriptor: int = 0) -> bool:
    """Return whether a descriptor can have input: it is open, and not /dev/null."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False

    return not (stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL)


class Source:
    """Standard input of this process, read only on request.

    A terminal that has another job in the foreground is not read: the kernel would stop this
    process (SIGTTIN).

    Args:
        selector: the selector of the owner's loop, which calls :meth:`turn` before it sleeps.
        descriptor: the descriptor to read.
    """

    def __init__(self, selector: selectors.BaseSelector, descriptor: int = 0) -> None:
        self._selector, self._descriptor = selector, descriptor
        self._give: Callable[[bytes], None] | None = None
        self._watched = False

    def ask(self, give: Callable[[bytes], None]) -> None:
        """Ask for octets: ``give`` is called once with some, or with none at the end of the input.

        ``give`` must not ask again before it has returned.
        """
        self._give = give
        self.turn()

    def turn(self) -> float:
        """Start to read if octets were asked for and reading is possible now.

        Returns:
            Seconds after which you must call this again; infinite: no need.
        """

        if self._give is None or self._watched:
            return float("inf")

        if self._background():
            return _LOOK_S

        try:
            self._selector.register(
                self._descriptor, selectors.EVENT_READ, self._readable
            )
            self._watched = True
        except PermissionError:
            # Epoll takes no regular files, which never block a reader
            self._read()

        return float("inf")

    def _readable(self) -> None:
        self._selector.unregister(self._descriptor)

        self._watched = False
        if not self._background():  # Ctrl-Z and bg may have come since turn()
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
        except OSError:  # no terminal, or that of another session
            return False


class Feed:
    """Writes standard input into the socket of the proc that has fetched it last.

    If several Pythons of rank 0 fetch it, one after the other, each gets what the last one left.
    """

    def __init__(self, selector: selectors.BaseSelector, source: Source) -> None:
        self._selector, self._source = selector, source
        self._sock: socket.socket | None = None
        self._writes = False
        self._asked = False
        self._ended = False
        self._unsent = b""
        self._stream: Stream | None = None
        self._sealed = b""  # unsent octets of the session
        self._farewell = False  # whether the session's end is still to be said

    def attach(self, sock: socket.socket, stream: Stream | None = None) -> None:
        """Send the rest of the input to ``sock``, and close it in the end.

        With ``stream``, send inside this TLS session, and announce its end, so that the receiver
        notices if anybody cuts the input short.
        """

        self.close()
        sock.setblocking(False)
        self._sock, self._stream = sock, stream
        self._sealed, self._farewell = b"", stream is not None
        self._go_on()

    def turn(self) -> float:
        return self._source.turn()

    def close(self) -> None:
        """Close the socket; unsent octets wait for the next one."""
        if self._sock is not None:
            self._watch(False)
            self._sock.close()
            self._sock = None

    def _go_on(self) -> None:
        if self._unsent or self._sealed or (self._ended and self._farewell):
            self._watch(True)
        elif self._ended:
            self.close()
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
            # Write octets or the end in a later turn of the loop: _go_on may be our caller.
            self._watch(True)

    def _writable(self) -> None:
        assert self._sock is not None, "the proc's input is closed"
        try:
            self._write(self._sock)
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""  # the proc has ended, or closed its input
            self.close()
            return

        self._go_on()

    def _write(self, sock: socket.socket) -> None:
        if self._stream is None:
            self._unsent = (
                self._unsent[sock.send(self._unsent) :] if self._unsent else b""
            )
            return

        if not self._sealed:
            self._sealed, self._unsent = self._stream.send(self._unsent), b""
            if self._ended:
                self._sealed, self._farewell = (
                    self._sealed + self._stream.close(),
                    False,
                )

        self._sealed = self._sealed[sock.send(self._sealed) :]

    def _watch(self, wanted: bool) -> None:
        assert self._sock is not None, "the proc's input is closed"
        if wanted and not self._writes:
            self._selector.register(self._sock, selectors.EVENT_WRITE, self._writable)
        elif self._writes and not wanted:
            self._selector.unregister(self._sock)

        self._writes = wanted
