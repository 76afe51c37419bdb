"""Our end of a node's fork server: many commands at once over one channel.

How it works: one thread reads the channel. It gives each line to the owner of the line's number: a
:class:`~impi.base.remote.supervised.Supervised` command, or a caller that waits for the answer to
an errand. Callers write whole lines under the channel's own lock. If the channel breaks, all owners
get the reason.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from impi.base.errors import LaunchError
from impi.base.remote import (
    forkserver,
    patience,
    processes,
    remains,
    shown_process,
    starter,
    starter_lines,
    unacknowledged,
    watch,
)
from impi.base.remote.starter_lines import NOTHING, Spec, pack
from impi.base.remote.supervised import Supervised

_CHUNK: Final = 1 << 18
_END_S: Final = 15.0


def bootstrap(python: str, warm: str = "") -> tuple[list[str], bytes]:
    """Return the command of a fork server, and the octets to write to its standard input first.

    The octets are the sources of its modules. So the node needs only ``python``, 3.11 or newer, and
    both ends always have the same version.

    Args:
        python: the node's interpreter.
        warm: a module of the node with a function ``warm_up``. Commands ``python -m WARM`` are then
            forks of a process that has called it. Empty: ``python -I -S`` are such commands.

    Returns:
        The argument vector and the octets.
    """

    # Packages without content stand for the real ones. The order is that of the imports: each
    # module finds those before it.
    modules = {"impi": "", "impi.base.remote": ""}
    for module in (
        patience,
        processes,
        shown_process,
        starter_lines,
        remains,
        unacknowledged,
        watch,
        starter,
        forkserver,
    ):
        modules[module.__name__] = Path(str(module.__file__)).read_text("utf-8")

    text = json.dumps(modules).encode()
    # It reads exactly the sources, unbuffered: the fork server's own input follows in the same
    # pipe.
    program = (
        "import os, sys, types, json\n"
        "text = b''\n"
        f"while len(text) < {len(text)}:\n"
        f" data = os.read(0, {len(text)} - len(text))\n"
        " if not data: raise SystemExit\n"
        " text += data\n"
        f"{_WARM.format(warm) if warm else ''}"
        "for name, source in json.loads(text).items():\n"
        " module = sys.modules[name] = types.ModuleType(name)\n"
        " exec(compile(source, name, 'exec'), module.__dict__)\n"
        f"{_RESTORE if warm else 'module.main()'}"
    )
    if warm:
        return [python, "-c", program], text

    # Isolated and without site: nothing of the node's Python changes the
    # program, and it starts faster.
    return [python, "-I", "-S", "-c", program], text


# The node's modules make place for ours, which supervise: what is under test must not judge how it
# ends. A module that cannot be loaded fails in each command, as it does without a fork server.
_WARM: Final = """\
like = [sys.executable, "-m", "{0}"]
sys.orig_argv[1:] = like[1:]
try:
 import faulthandler, hashlib, importlib
 importlib.import_module("{0}").warm_up()
except Exception:
 like = []
theirs = {{n: sys.modules.pop(n) for n in [*sys.modules] if n.partition(".")[0] == "impi"}}
"""
_RESTORE: Final = """\
for name in json.loads(text):
 del sys.modules[name]
sys.modules.update(theirs)
module.main(like)
"""


class Channel(Protocol):
    """A two-way stream of octets to a fork server, started by :func:`bootstrap`."""

    def read(self, size: int) -> bytes:
        """Block for some octets; empty at the end. LaunchError: the connection is lost."""

    def write(self, data: bytes) -> None:
        """Send all of ``data``, from any thread. LaunchError: the connection is lost."""

    def close(self) -> None:
        """End our direction; the other side then ends all. From any thread; idempotent."""

    def release(self) -> None:
        """Free all resources; the reading thread calls this once, after the end of the stream."""


class _Listener(Protocol):
    """The owner of a number on the channel."""

    def take(self, text: bytes) -> None:
        """Take a line; an empty one is the last."""

    def broke(self, why: str) -> None:
        """Take the reason why the channel is lost."""


class _Answer:
    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes | LaunchError] = queue.SimpleQueue()

    def take(self, text: bytes) -> None:
        self.lines.put(text)

    def broke(self, why: str) -> None:
        self.lines.put(LaunchError(why))


class Commands:
    """Runs commands and errands by the fork server behind ``channel``; thread-safe.

    Args:
        channel: the stream to the fork server.
        where: name of the node, for sentences.
    """

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel, self._where = channel, where
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        # Held until a number's first line is written. The fork server takes a number for a new one
        # if it is higher than all before, so the numbers must arrive in order.
        self._numbering = threading.Lock()
        self._listeners: dict[bytes, _Listener] = {}
        self._lost = ""
        threading.Thread(
            target=self._read, name=f"commands of {where}", daemon=True
        ).start()

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        only: bool = False,
        cwd: str = "",
        stdin: bytes | None = None,
        grace_s: float = 2.0,
        settle_s: float = 0.5,
    ) -> Supervised:
        """Start a command under a starter of its own.

        ``python -I -S ...`` with the fork server's interpreter becomes a fork of the fork server,
        which saves the start of Python.

        Args:
            argv: the program and its arguments.
            env: variables to add to the fork server's, or with ``only`` all variables.
            only: see ``env``.
            cwd: the working folder; empty: the fork server's.
            stdin: octets of standard input; None: it is empty.
            grace_s: seconds from TERM to KILL.
            settle_s: seconds that descendants have to end after the command.

        Raises:
            LaunchError: the connection is lost. (A failed start of ``argv`` has the outcome 127.)
        """
        # No watch, and no names of a library's leftovers: impirun's starters have these. What a
        # command of the lab leaves is evidence, and not swept away.
        spec = Spec(
            argv=list(argv),
            procs={"0": {}},
            env=dict(env or {}),
            only=only,
            cwd=cwd,
            stdin=None if stdin is None else pack(stdin),
            fed=None,
            grace_s=grace_s,
            settle_s=settle_s,
            silence_s=None,
            leaves=NOTHING,
        )
        with self._numbering:
            number = b"%d" % next(self._numbers)
            command = Supervised(
                argv,
                grace_s,
                lambda line: self._channel.write(number + b" " + line + b"\n"),
            )
            self._begin(number, command, spec)

        return command

    def ask(self, do: str, timeout_s: float, **errand: object) -> dict[str, Any]:
        """Let the fork server perform an errand, and return its answer.

        Args:
            do: name of the errand (:mod:`impi.base.remote.forkserver`).
            timeout_s: longest wait in seconds.
            errand: its other arguments.

        Raises:
            LaunchError: the connection is lost, or there is no answer in time.
        """

        answer = _Answer()
        with self._numbering:
            number = b"%d" % next(self._numbers)
            self._begin(number, answer, {"do": do, **errand})

        try:
            line = answer.lines.get(timeout=timeout_s)
        except queue.Empty:
            raise LaunchError(
                f"{self._where}: no answer to {do} within {timeout_s:g} s"
            ) from None
        finally:
            # A late answer finds no listener, and is dropped.
            with self._lock:
                self._listeners.pop(number, None)

        if isinstance(line, LaunchError):
            raise line

        value: dict[str, Any] = json.loads(line)

        return value

    def close(self) -> None:
        """End all commands and the fork server, without waiting for that. Idempotent."""
        self._channel.close()

    def _begin(
        self, number: bytes, listener: _Listener, first: Mapping[str, object]
    ) -> None:
        with self._lock:
            # A channel that broke before gives no further notice to newcomers.
            if self._lost:
                raise LaunchError(self._lost)

            # Before the line is written: the answer may come at once.
            self._listeners[number] = listener

        self._channel.write(number + b" " + json.dumps(first).encode() + b"\n")

    def _read(self) -> None:
        rest = b""

        lost = f"{self._where}: the fork server ended"
        try:
            while data := self._channel.read(_CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    number, _, text = line.partition(b" ")
                    # A line without text is the last one of its number.
                    with self._lock:
                        listener = (
                            self._listeners.get(number)
                            if text
                            else self._listeners.pop(number, None)
                        )

                    if listener is not None:
                        listener.take(text)
        except LaunchError as error:
            lost = str(error)

        # In one step with the copy: a command that begins now finds the loss, or is in the copy.
        with self._lock:
            self._lost = lost
            listeners = list(self._listeners.values())

        # Outside the lock: a listener takes its own, and no thread shall hold both.
        for listener in listeners:
            listener.broke(lost)

        self._channel.close()
        self._channel.release()


class _Pipe:
    """A fork server as a child process. Implements :class:`Channel`.

    Its input is a socket and not a pipe. A socket can be shut down while another thread writes, and
    keeps its descriptor. A pipe must be closed, and its number might by then belong to the next
    fork server.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        command, text = bootstrap(sys.executable)

        self._socket, theirs = socket.socketpair()
        try:
            # A session of its own: the terminal's Ctrl-C must reach this process alone, which then
            # ends the commands in order.
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                env=dict(env),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._socket.close()
            raise LaunchError(
                f"the fork server cannot be started with {sys.executable}: "
                + processes.why_not_started(error)
            ) from error
        finally:
            theirs.close()

        self._writing = threading.Lock()
        self.write(text)

    def read(self, size: int) -> bytes:
        stream = self._process.stdout
        return b"" if stream is None else stream.read(size) or b""

    def write(self, data: bytes) -> None:
        try:
            with self._writing:
                self._socket.sendall(data)
        except OSError as error:
            raise LaunchError(
                f"the fork server on this machine is gone: {error}"
            ) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def release(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # The end of its input ends a healthy one. A frozen one would keep this thread for ever.
            self._process.kill()
            self._process.wait()

        # Not while a thread writes: its descriptor could by then be another file's.
        with self._writing:
            self._socket.close()

        if self._process.stdout is not None:
            self._process.stdout.close()


def this_machine(env: Mapping[str, str]) -> Commands:
    """Start a fork server on this machine.

    Args:
        env: all its variables.

    Raises:
        LaunchError: it cannot be started.
    """
    return Commands(_Pipe(env), "this machine")
