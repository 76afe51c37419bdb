"""The starters of impirun: what their processes print, and how they end.

One starter (:mod:`impi.remote.starter`) runs on every node that has processes of ours. Its lines of
JSON come through a pipe, from another node by SSH.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from impi.errors import LaunchError
from impi.launch.program import Command
from impi.remote import processes, starter

__all__ = ["Children", "Exit", "exit_code"]

_CHUNK: Final = 1 << 16
_GRACE_S: Final = 6.0
"""A starter needs some seconds itself, if its processes do not heed TERM."""
_LINE: Final = 1 << 14
"""Octets of an unfinished line that are held back."""
_IMPIRUN: Final = (sys.executable, "-m", "impi.cli.impirun")
"""An impirun that another one starts is a fork of the starter: the modules are there."""
_SSH_FAILED: Final = 255
_STREAMS: Final = (("stdout", 1), ("stderr", 2))


class Exit:
    """How one process ended; ``title`` says which."""

    def __init__(self, title: str, status: int) -> None:
        self.title = title
        self.status = status
        """Exit status, ``-N`` for signal N."""

    def __str__(self) -> str:
        if self.status >= 0:
            return f"{self.title} ended with exit code {self.status}"
        with contextlib.suppress(ValueError):
            return f"{self.title} was ended by {signal.Signals(-self.status).name}"
        return f"{self.title} was ended by signal {-self.status}"


def exit_code(status: int) -> int:
    """What a shell would show: the exit status, or 128 + N for signal N."""
    return status if status >= 0 else 128 - status


class _Starter:
    """A starter of ours: its process, and the pipes to and from it."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.waiting = set(command.titles)
        """Numbers of processes whose end it has not reported."""
        self.heard = False
        self.status: int | None = None
        self._received = b""
        self._held: dict[tuple[int, str], bytes] = {}
        """Unfinished lines, so that lines of several procs do not mix."""
        theirs_in, self._to = os.pipe()
        self.output, theirs_out = os.pipe()
        os.set_blocking(self.output, False)
        try:
            # A fork starts no further Python: that takes longer than all else before the procs begin.
            # But a fork of a process with threads may find locks that nobody will ever open.
            if command.here and threading.active_count() == 1:
                self.pid = processes.fork((theirs_in, theirs_out), lambda: starter.main(_IMPIRUN), b"impi-starter")
            else:
                # In a session of its own: the terminal's Ctrl-C must not reach it before impirun decides.
                self.pid = processes.spawn(command.argv, (theirs_in, theirs_out, None))
        except OSError as error:
            self.hang_up()
            os.close(self.output)
            raise LaunchError(f"cannot start {command.name} by {command.argv[0]}: {error.strerror}") from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def tell(self, line: object) -> None:
        """Write a line to it."""
        data = memoryview(json.dumps(line).encode() + b"\n")
        with contextlib.suppress(OSError):  # it has ended already, which is seen elsewhere
            while data and self._to >= 0:
                data = data[os.write(self._to, data) :]

    def hang_up(self) -> None:
        """Close the pipe to it: it ends its processes then, on any node."""
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def read(self) -> list[bytes] | None:
        """Lines that have come; None: nothing for now.

        Raises:
            EOFError: nothing more will come.
        """
        try:
            data = os.read(self.output, _CHUNK)
        except BlockingIOError:
            return None
        if not data:
            raise EOFError
        *lines, self._received = (self._received + data).split(b"\n")
        return lines

    def whole(self, number: int, name: str, data: bytes) -> bytes:
        """What can be printed now of a stream, whose ``data`` are new; without data: the rest."""
        text = self._held.pop((number, name), b"") + data
        end = text.rfind(b"\n") + 1
        if not data or (not end and len(text) >= _LINE):
            end = len(text)
        self._held[number, name] = text[end:]
        return text[:end]


class Children:
    """Starts starters, and leaves nothing of them behind.

    Args:
        commands: what to start.
        selector: where descriptors are registered, with a callable as data that the owner's loop calls.
    """

    def __init__(self, commands: Sequence[Command], selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._commands = commands
        self._starters: list[_Starter] = []
        self.failure: Exit | None = None
        """The first process that ended badly."""
        self.ended_ranks: set[int] = set()
        """Ranks of procs that have ended with 0, where each is seen by itself (without an MPI library)."""
        self.quiet = False
        """Whether what is printed from now on is thrown away: an mpiexec comments at length on being ended."""
        self.error = ""
        """What a starter could not do."""

    def start(self) -> None:
        """Start them, in order.

        Raises:
            LaunchError: one could not be started; :meth:`end` ends the others.
        """
        processes.become_subreaper()
        for command in self._commands:
            self._start(command)

    @property
    def running(self) -> bool:
        """Whether any of them has not ended."""
        return any(one.status is None for one in self._starters)

    @property
    def procs_running(self) -> bool:
        """Whether any has not ended that does more than serve procs."""
        return any(one.status is None for one in self._starters if not one.command.serves)

    def initialised(self) -> None:
        """Tell the starters that their procs have initialised MPI."""
        for one in self._starters:
            one.tell({"do": "note"})

    def end(self, turn: Callable[[float], object]) -> None:
        """End all of them and everything below; ``turn`` is the owner's loop for so many seconds."""
        for one in self._starters:
            one.hang_up()
        first = [one.pid for one in self._starters if one.status is None]

        def turn_and_reap(seconds: float) -> None:
            turn(seconds)
            self._reap(-1)

        processes.end(first, _GRACE_S, turn_and_reap)

    def close(self) -> None:
        """Close the pipes, after the end."""
        for one in self._starters:
            one.hang_up()
            os.close(one.output)

    # ---- one starter

    def _start(self, command: Command) -> None:
        one = _Starter(command)
        self._starters.append(one)
        ended = os.pidfd_open(one.pid)
        self._selector.register(ended, selectors.EVENT_READ, lambda: self._ended(one, ended))
        self._selector.register(one.output, selectors.EVENT_READ, lambda: self._read(one))
        one.tell(command.spec)

    def _read(self, one: _Starter) -> bool:
        """Take a starter's reports; False if there are none for now, or no more."""
        try:
            lines = one.read()
        except EOFError:
            with contextlib.suppress(KeyError):
                self._selector.unregister(one.output)
            return False
        for line in lines or ():
            self._report(one, line)
        return lines is not None

    def _report(self, one: _Starter, line: bytes) -> None:
        try:
            report = json.loads(line)
        except ValueError:
            report = None
        if not isinstance(report, dict):
            _emit(1, line + b"\n")  # a login script of the other node that prints something
            return
        one.heard = True
        for name, descriptor in _STREAMS:
            if name in report:
                self._print(descriptor, one.whole(report["number"], name, binascii.a2b_base64(report[name])))
        if "error" in report:
            self.error = self.error or f"{one.command.name}: {report['error']}"
        if "exit" in report:
            self._exited(one, report["number"], report["exit"])

    def _print(self, descriptor: int, data: bytes) -> None:
        if not self.quiet:
            _emit(descriptor, data)

    def _exited(self, one: _Starter, number: int, status: int) -> None:
        one.waiting.discard(number)
        if status:
            self.failure = self.failure or Exit(one.command.titles[number], status)
        elif one.command.ranks:
            self.ended_ranks.add(number)

    def _ended(self, one: _Starter, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        self._reap(one.pid)
        while self._read(one):
            pass
        for number in one.command.titles:
            for name, stream in _STREAMS:
                self._print(stream, one.whole(number, name, b""))
        status = one.status or 0
        if one.waiting and not self.error and self.failure is None:
            if status == _SSH_FAILED and not one.heard:
                self.error = f"{one.command.name} could not be started by ssh; see its message above"
            else:
                self.error = f"{Exit(one.command.name, status)}, before its processes"

    def _reap(self, which: int) -> None:
        """Take the status of a starter, or (-1) of all children that have ended: orphans come to us, too."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(which, os.WNOHANG))[0]:
                for one in self._starters:
                    if one.pid == found[0]:
                        one.status = os.waitstatus_to_exitcode(found[1])


def _emit(descriptor: int, data: bytes) -> None:
    """Print what a process has printed; nobody may be listening any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        pass
