"""The processes that impirun starts itself: mpiexec, or node agents; what they print, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from impi.errors import LaunchError
from impi.launch import tree
from impi.launch.program import Command

__all__ = ["Children", "Exit", "exit_code"]

_CHUNK: Final = 1 << 16
_GRACE_S: Final = 3.0
_SSH_FAILED: Final = 255


class Exit:
    """How one process ended; ``title`` says which."""

    def __init__(self, title: str, status: int) -> None:
        self.title = title
        self.status = status
        """Exit status, ``-N`` for signal N."""

    @property
    def failed(self) -> bool:
        """Whether it is not 0."""
        return self.status != 0

    def __str__(self) -> str:
        if self.status >= 0:
            return f"{self.title} ended with exit code {self.status}"
        with contextlib.suppress(ValueError):
            return f"{self.title} was ended by {signal.Signals(-self.status).name}"
        return f"{self.title} was ended by signal {-self.status}"


def exit_code(status: int) -> int:
    """What a shell would show: the exit status, or 128 + N for signal N."""
    return status if status >= 0 else 128 - status


class _Child:
    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self.process = process
        self.received = bytearray()
        self.started = False
        """Whether an agent has said anything."""
        self.ranks = {item["rank"] for item in command.spec["procs"]} if command.spec else set()  # type: ignore[attr-defined]


class Children:
    """Starts commands, and leaves none of their processes behind.

    Args:
        commands: what to start.
        selector: where descriptors are registered, with a callable as data that the owner's loop calls.
    """

    def __init__(self, commands: Sequence[Command], selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._children: list[_Child] = []
        self._segments: set[Path] = set()
        self.exits: list[Exit] = []
        """In order of time: mpiexec, or single procs."""
        self.ended_ranks: set[int] = set()
        """Ranks of pure procs that have ended with 0."""
        self.error = ""
        """What an agent could not do."""
        self._commands = commands

    def start(self) -> None:
        """Start them, in order.

        Raises:
            LaunchError: one could not be started; :meth:`end` ends the others.
        """
        tree.become_subreaper()
        for command in self._commands:
            self._start(command)

    @property
    def running(self) -> bool:
        """Whether any of them has not ended."""
        return any(child.process.returncode is None for child in self._children)

    @property
    def failure(self) -> Exit | None:
        """The first that ended badly."""
        return next((item for item in self.exits if item.failed), None)

    def note_segments(self) -> None:
        """Remember the shared memory of the procs, to remove it at the end should they not."""
        self._segments |= tree.segments(tree.descendants())

    def end(self, turn: Callable[[float], object]) -> None:
        """End all of them and everything below; ``turn`` is the owner's loop for so many seconds."""
        self.note_segments()
        for child in self._children:
            if child.process.stdin is not None:
                with contextlib.suppress(OSError):
                    child.process.stdin.close()  # an agent ends its procs then, on any node
        running = [child.process.pid for child in self._children if child.process.returncode is None]

        def turn_and_reap(seconds: float) -> None:
            turn(seconds)
            self._reap_orphans()

        tree.end(running, _GRACE_S, turn_and_reap)

    def sweep(self) -> None:
        """After their end: remove shared memory and folders that they have left, and close the pipes."""
        for path in self._segments:
            with contextlib.suppress(OSError):
                path.unlink()
        for child in self._children:
            for pipe in (child.process.stdin, child.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            # Open MPI's mpiexec keeps its sockets there, and leaves it when killed.
            shutil.rmtree(Path(tempfile.gettempdir()) / f"ompi.{child.process.pid}", ignore_errors=True)

    # ---- one child

    def _start(self, command: Command) -> None:
        agent = command.spec is not None
        try:
            process = subprocess.Popen(
                command.argv,
                env=dict(command.environ),
                # An mpiexec reads all of its input, although only one of several programs in a script may have it.
                stdin=subprocess.PIPE if agent else subprocess.DEVNULL,
                stdout=subprocess.PIPE if agent else None,
                # The terminal's Ctrl-C must not reach it before impirun decides.
                start_new_session=True,
                preexec_fn=tree.die_with_parent,  # noqa: PLW1509  (there are no threads)
            )
        except OSError as error:
            raise LaunchError(f"cannot start {command.argv[0]}: {error.strerror}") from None
        child = _Child(command, process)
        self._children.append(child)
        descriptor = os.pidfd_open(process.pid)
        self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._ended(child, descriptor))
        if process.stdout is not None and process.stdin is not None:
            os.set_blocking(process.stdout.fileno(), False)
            self._selector.register(process.stdout, selectors.EVENT_READ, lambda: self._read(child))
            with contextlib.suppress(OSError):  # it has ended already, which is seen elsewhere
                process.stdin.write(json.dumps(command.spec).encode() + b"\n")
                process.stdin.flush()

    def _read(self, child: _Child) -> bool:
        """Take an agent's reports; False at their end."""
        pipe = child.process.stdout
        if pipe is None or pipe.closed:
            return False
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(pipe)
            pipe.close()
            return False
        child.received += data
        *lines, rest = bytes(child.received).split(b"\n")
        child.received = bytearray(rest)
        for line in lines:
            self._report(child, line)
        return True

    def _report(self, child: _Child, line: bytes) -> None:
        try:
            report: dict[str, Any] = json.loads(line)
        except ValueError:
            # A login script of the other node that prints something.
            _emit(1, line + b"\n")
            return
        child.started = True
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            if name in report:
                _emit(descriptor, str(report[name]).encode("latin-1"))
        if "error" in report:
            self.error = self.error or f"{child.command.title}: {report['error']}"
        if "exit" in report:
            rank = int(report["rank"])
            child.ranks.discard(rank)
            self.exits.append(Exit(f"rank {rank} of this client", int(report["exit"])))
            if not report["exit"]:
                self.ended_ranks.add(rank)

    def _ended(self, child: _Child, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        status = child.process.wait()  # it has ended, so this does not wait
        while self._read(child):
            pass
        if child.command.spec is None:
            self.exits.append(Exit(child.command.title, status))
        elif child.ranks and not self.error:
            if status == _SSH_FAILED and not child.started:
                self.error = f"{child.command.title} could not be started by ssh; see its message above"
            else:
                self.error = f"{Exit(child.command.title, status)} before its procs"

    def _reap_orphans(self) -> None:
        """Orphans come to us, and stay as zombies unless waited for; the children themselves belong to Popen."""
        ours = {child.process.pid for child in self._children}
        for pid in tree.zombies():
            if pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _emit(descriptor: int, data: bytes) -> None:
    """Print what a proc has printed; nobody may be listening any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        pass
