"""Run a whole job on this machine for its output, for bench, tune and simulate.

This process must not disturb the measurement. Output goes to files in memory and not to pipes, so
nothing is read while the job runs. A wait sleeps until a process ends, since polling would take
processor time.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from impi.base.errors import LaunchError
from impi.base.exit_codes import ExitCode
from impi.base.variables import RELAY
from impi.launch.start.program import ROOT

LOOPBACK: Final = "127.0.0.1"
# Seconds for a client to fail after the server: its reason is more precise
_GRACE_S: Final = 5.0
_END_S: Final = 10.0


def impirun(*arguments: str) -> list[str]:
    """Return the argument vector of an ``impirun`` by this Python."""
    return [sys.executable, "-m", "impi.cli.impirun", *arguments]


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    process: subprocess.Popen[bytes]
    out: int
    err: int


class LocalJob:
    """The processes of one job; none of them outlives the ``with`` statement.

    Args:
        title: name of the job, for errors.
        environ: variables of all processes.
        limit_s: longest time of the job in seconds.
    """

    def __init__(self, title: str, environ: Mapping[str, str], limit_s: float) -> None:
        self._title = title
        path = os.pathsep.join(filter(None, (ROOT, environ.get("PYTHONPATH", ""))))
        self._environ = {**environ, "PYTHONPATH": path}
        self._environ.pop(RELAY, None)  # for jobs on several machines
        self._parts: list[_Part] = []
        self._stack = ExitStack()
        self._limit_s = limit_s
        self._begin = time.monotonic()
        # From the start of the job to the end of its last process; outputs() sets it
        self.seconds = 0.0

    def __enter__(self) -> LocalJob:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            if part.process.poll() is None:
                _end(part.process)

        self._stack.close()

    def start(
        self, name: str, argv: Sequence[str], own: Mapping[str, str] | None = None
    ) -> None:
        """Start a process with variables of its own; ``name`` is for errors."""

        out, err = os.memfd_create("out"), os.memfd_create("err")
        self._stack.callback(os.close, out)

        self._stack.callback(os.close, err)
        with _sigterm_deferred():
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env={**self._environ, **(own or {})},
                    # So that _end() can kill the whole group, and
                    # Ctrl-C reaches this process alone.
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(
                    f"{self._title}: {argv[0]} could not be started: {error.strerror}"
                ) from None

            self._parts.append(_Part(name, process, out, err))

    def start_impi(
        self,
        clients: Sequence[Sequence[str]],
        program: Sequence[str],
        own: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Start a server, and a client for each list of options.

        Args:
            clients: options of each client.
            program: the program of all procs, with its arguments.
            own: variables of each client.
        """
        self.start(
            "server", impirun("-server", str(len(clients)), "--interface", LOOPBACK)
        )

        where = self._address()
        for number, options in enumerate(clients):
            argv = impirun("-client", str(number), where, *options, *program)
            self.start(f"client {number}", argv, own[number] if own else None)

    def outputs(self) -> list[str]:
        """Wait for all processes and return the output of each, in the order of their starts.

        Raises:
            LaunchError: a failure, or the deadline; the message ends with the last line of stderr.
        """

        poll = select.poll()

        running = {}
        for part in self._parts:
            # A descriptor for the end of each process: waiting for any
            # of them takes no processor time.
            fd = os.pidfd_open(part.process.pid)
            self._stack.callback(os.close, fd)
            poll.register(fd, select.POLLIN)
            running[fd] = part

        failed: list[_Part] = []

        until = self._begin + self._limit_s
        while running and (ended := poll.poll(max(until - time.monotonic(), 0) * 1000)):
            for fd, _ in ended:
                poll.unregister(fd)

                part = running.pop(fd)
                if part.process.wait():
                    failed.append(part)
                    until = min(until, time.monotonic() + _GRACE_S)

        # A failure before a delay: what still runs then mostly waits for the failed part.
        if failed:
            raise self._failed(failed)

        if running:
            raise self._late()

        self.seconds = time.monotonic() - self._begin

        return [_read(part.out) for part in self._parts]

    def _address(self) -> str:
        server = self._parts[-1]
        while "\n" not in (text := _read(server.out)):
            if server.process.poll() is not None:
                raise self._failed([server])

            if time.monotonic() > self._begin + self._limit_s:
                raise self._late()

            # The server writes into memory, and no descriptor tells when it has.
            time.sleep(0.001)

        return text.partition("\n")[0]

    def _late(self) -> LaunchError:
        cure = "end what else runs on this machine, or ask for less"
        return LaunchError(
            f"{self._title} has not ended within {self._limit_s:.0f} s: {cure}"
        )

    def _failed(self, parts: Sequence[_Part]) -> LaunchError:
        """Return the failed part to quote: one with words of its program, or with a user's mistake.

        Without such a part it is the first: others often fail only because of it.
        """

        clients = [part for part in parts if part.name != "server"] or parts
        wrong = [part for part in clients if part.process.returncode == ExitCode.USAGE]
        part = next(
            (part for part in clients if _said(part, programs=True)),
            (wrong or clients)[0],
        )
        lines = _said(part, programs=True) or _said(part) or ["nothing"]

        return LaunchError(f"{self._title} failed; {part.name} said: {lines[-1]}")


def _said(part: _Part, *, programs: bool = False) -> list[str]:
    """Return the lines of a part's stderr; with ``programs``, only those of its program."""
    lines = [line for line in _read(part.err).splitlines() if line.strip()]
    return [
        line
        for line in lines
        if not (programs and line.startswith(("impirun:", "impi:", "Warning:")))
    ]


@contextmanager
def _sigterm_deferred() -> Iterator[None]:
    """Defer SIGTERM: it must not come between a process's start and its entry in the list."""

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    told: list[int] = []

    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if told:
            signal.raise_signal(signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    # impirun and every mpiexec end their own processes on SIGTERM.
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

        process.wait()


def _read(fd: int) -> str:
    # The process writes at the offset that this descriptor has, too. pread() leaves it where it is.
    return os.pread(fd, 1 << 20, 0).decode("utf-8", "replace")
