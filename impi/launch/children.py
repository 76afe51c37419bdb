"""The node agents that impirun starts; what their processes print, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, NoReturn, Protocol

from impi.errors import LaunchError
from impi.launch import node, tree
from impi.launch.program import Command

__all__ = ["Children", "Exit", "exit_code"]

_CHUNK: Final = 1 << 16
_GRACE_S: Final = 6.0
"""An agent needs some seconds itself, if its processes do not heed TERM."""
_SSH_FAILED: Final = 255


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


class _Process(Protocol):
    """What is needed of :class:`subprocess.Popen`."""

    pid: int
    returncode: int | Any
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def wait(self) -> int:
        """The exit status, once it has ended."""
        ...


class _Fork:
    """An agent here, without starting Python once more: that takes longer than all else before the procs begin."""

    def __init__(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _be_agent(theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin: IO[bytes] | None = open(ours_out, "wb")  # noqa: PTH123, SIM115  (descriptors; closed by Children)
        self.stdout: IO[bytes] | None = open(ours_in, "rb", buffering=0)  # noqa: PTH123, SIM115

    def wait(self) -> int:
        """The exit status, once it has ended."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _be_agent(theirs_in: int, theirs_out: int) -> NoReturn:
    """What ``python -m impi.launch.node`` does, in a fork of this process; nothing of ours may run on in it."""
    status = 1
    try:
        node.settle(b"impi-node", (theirs_in, theirs_out))
        node.main(forks=True)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


class _Agent:
    def __init__(self, command: Command, process: _Process) -> None:
        self.command = command
        self.process = process
        self.received = bytearray()
        self.waiting = set(command.titles)
        """Numbers of processes whose end it has not reported."""
        self.heard = False


class Children:
    """Starts agents, and leaves nothing of them behind.

    Args:
        commands: what to start.
        selector: where descriptors are registered, with a callable as data that the owner's loop calls.
    """

    def __init__(self, commands: Sequence[Command], selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._commands = commands
        self._agents: list[_Agent] = []
        self.failure: Exit | None = None
        """The first process that ended badly."""
        self.ended_ranks: set[int] = set()
        """Ranks of procs that have ended with 0, where each is seen by itself (without an MPI library)."""
        self.quiet = False
        """Whether what is printed from now on is thrown away: an mpiexec comments at length on being ended."""
        self.error = ""
        """What an agent could not do."""

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
        return any(agent.process.returncode is None for agent in self._agents)

    @property
    def procs_running(self) -> bool:
        """Whether any has not ended that does more than serve procs."""
        return any(agent.process.returncode is None for agent in self._agents if not agent.command.serves)

    def initialised(self) -> None:
        """Tell the agents that their procs have initialised MPI."""
        for agent in self._agents:
            self._tell(agent, {})

    def end(self, turn: Callable[[float], object]) -> None:
        """End all of them and everything below; ``turn`` is the owner's loop for so many seconds."""
        for agent in self._agents:
            self._hang_up(agent)  # it ends its processes then, on any node

        def turn_and_reap(seconds: float) -> None:
            turn(seconds)
            self._reap_orphans()

        tree.end((), _GRACE_S, turn_and_reap)

    def close(self) -> None:
        """Close the pipes, after the end."""
        for agent in self._agents:
            self._hang_up(agent)
            if agent.process.stdout is not None:
                agent.process.stdout.close()

    # ---- one agent

    def _start(self, command: Command) -> None:
        process: _Process
        try:
            # A fork of a process with threads may find locks that nobody will ever open.
            if command.here and threading.active_count() == 1:
                process = _Fork()
            else:
                process = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # The terminal's Ctrl-C must not reach it before impirun decides.
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchError(f"cannot start {command.name} by {command.argv[0]}: {error.strerror}") from None
        agent = _Agent(command, process)
        self._agents.append(agent)
        descriptor = os.pidfd_open(process.pid)
        self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._ended(agent, descriptor))
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
            self._selector.register(process.stdout, selectors.EVENT_READ, lambda: self._read(agent))
        self._tell(agent, command.spec)

    @staticmethod
    def _tell(agent: _Agent, line: object) -> None:
        pipe = agent.process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):  # it has ended already, which is seen elsewhere
                pipe.write(json.dumps(line).encode() + b"\n")
                pipe.flush()

    @staticmethod
    def _hang_up(agent: _Agent) -> None:
        if agent.process.stdin is not None:
            with contextlib.suppress(OSError):
                agent.process.stdin.close()

    def _read(self, agent: _Agent) -> bool:
        """Take an agent's reports; False if there are none for now."""
        pipe = agent.process.stdout
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
        agent.received += data
        *lines, rest = bytes(agent.received).split(b"\n")
        agent.received = bytearray(rest)
        for line in lines:
            self._report(agent, line)
        return True

    def _report(self, agent: _Agent, line: bytes) -> None:
        try:
            report = json.loads(line)
        except ValueError:
            report = None
        if not isinstance(report, dict):
            _emit(1, line + b"\n")  # a login script of the other node that prints something
            return
        agent.heard = True
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            if name in report and not self.quiet:
                _emit(descriptor, str(report[name]).encode("latin-1"))
        if "error" in report:
            self.error = self.error or f"{agent.command.name}: {report['error']}"
        if "exit" in report:
            self._exited(agent, report)

    def _exited(self, agent: _Agent, report: dict[str, Any]) -> None:
        number, status = int(report["rank"]), int(report["exit"])
        agent.waiting.discard(number)
        if status:
            self.failure = self.failure or Exit(agent.command.titles[number], status)
        elif agent.command.ranks:
            self.ended_ranks.add(number)

    def _ended(self, agent: _Agent, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        status = agent.process.wait()  # it has ended, so this does not wait
        while self._read(agent):
            pass
        if agent.waiting and not self.error and self.failure is None:
            if status == _SSH_FAILED and not agent.heard:
                self.error = f"{agent.command.name} could not be started by ssh; see its message above"
            else:
                self.error = f"{Exit(agent.command.name, status)}, before its processes"

    def _reap_orphans(self) -> None:
        """Orphans come to us, and stay as zombies unless waited for; the agents themselves belong to Popen."""
        ours = {agent.process.pid for agent in self._agents}
        for pid in tree.zombies():
            if pid not in ours:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _emit(descriptor: int, data: bytes) -> None:
    """Print what a process has printed; nobody may be listening any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        pass
