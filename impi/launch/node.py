"""The agent of one node: starts processes there, forwards what they print, and ends them when told to or abandoned.

A fork of impirun (:mod:`impi.launch.children`) or ``python -m impi.launch.node``, it reads one line of JSON from
standard input::

    {"argv": [...], "cwd": "/dir", "env": {...}, "only": bool, "procs": [{"rank": 3, "env": {...}}, ...]}

``env`` is the whole environment of the procs (``only``), or is laid over the agent's own; each proc's own goes on top.
Then it writes lines of JSON: ``{"rank": 3, "pid": 77}``, ``{"rank": 3, "stdout": "text"}`` (or ``stderr``; octets as
Latin-1) and ``{"rank": 3, "exit": 0}`` (``-N`` for signal N), or ``{"error": "sentence"}``. Any further line of input
tells that MPI is initialised: the agent notes the shared memory of its processes, and removes it should they leave it.
The end of its input, and SIGTERM, end all its processes, and everything that these have started: TERM, then KILL.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from impi.launch import tree

__all__ = ["main", "settle"]

_CHUNK = 1 << 16
_LINE = 1 << 14
"""Octets of an unfinished line that are held back, so that lines of several procs do not mix."""
_GRACE_S = 2.0
_IMPIRUN = (sys.executable, "-m", "impi.cli.impirun")


class _Process(Protocol):
    """What is needed of :class:`subprocess.Popen`."""

    pid: int
    returncode: int | Any
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None


class _Fork:
    """An ``impirun`` here, without starting Python once more; it has its own variables, folder and session."""

    def __init__(self, arguments: list[str], cwd: str, environ: dict[str, str]) -> None:
        pipes = [os.pipe(), os.pipe()]
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _be_impirun(arguments, cwd, environ, [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        self.stdout: IO[bytes] | None
        self.stderr: IO[bytes] | None
        self.stdout, self.stderr = (open(end, "rb", buffering=0) for end, _ in pipes)  # noqa: PTH123, SIM115


def settle(name: bytes, streams: Sequence[int]) -> None:
    """In a fork: a session of its own, what is to be standard input and so on, nothing else open, and its name."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208  (names; the limit may be millions)
        if number > 2:
            with contextlib.suppress(OSError):
                os.close(number)
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:  # noqa: PTH123
        file.write(name)


def _be_impirun(arguments: list[str], cwd: str, environ: dict[str, str], ends: list[int]) -> NoReturn:
    """What ``python -m impi.cli.impirun`` does, in a fork of an agent; nothing of the agent may run on in it."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        settle(b"impirun", (os.open(os.devnull, os.O_RDONLY), *ends))
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["impirun", *arguments]
        # By its name, as in a command line: what starts processes does not know the commands.
        status = importlib.import_module(_IMPIRUN[-1]).main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


class _Proc:
    """One proc, and what it has printed without ending the line."""

    def __init__(self, rank: int, process: _Process) -> None:
        self.rank = rank
        self.process = process
        self.held = {"stdout": b"", "stderr": b""}
        self.exited = False


class _Agent:
    def __init__(self, spec: dict[str, Any], *, forks: bool) -> None:
        self._forks = forks
        self._selector = selectors.DefaultSelector()
        self._procs: list[_Proc] = []
        self._segments: set[Path] = set()
        self._stop = False
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._spec = spec

    def _on_term(self, *_: object) -> None:
        self._stop = True

    def _say(self, **fields: object) -> None:
        data = memoryview((json.dumps(fields) + "\n").encode())
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:  # impirun is gone
            self._stop = True

    def start(self) -> bool:
        """Start them all, or none."""
        for item in self._spec["procs"]:
            env = {**({} if self._spec["only"] else os.environ), **self._spec["env"], **item["env"]}
            try:
                process = self._process(env)
            except OSError as error:
                # error.filename is the folder if that was missing, else the program.
                self._say(error=f"cannot start {self._spec['argv'][0]} in {self._spec['cwd']}: {error.strerror}")
                return False
            proc = _Proc(item["rank"], process)
            self._procs.append(proc)
            self._say(rank=proc.rank, pid=process.pid)
            for name, file in (("stdout", process.stdout), ("stderr", process.stderr)):
                self._selector.register(_pipe(file), selectors.EVENT_READ, (proc, name))
        return True

    def _process(self, environ: dict[str, str]) -> _Process:
        argv, cwd = self._spec["argv"], self._spec["cwd"]
        if self._forks and argv[: len(_IMPIRUN)] == list(_IMPIRUN) and os.access(cwd, os.X_OK):
            return _Fork(argv[len(_IMPIRUN) :], cwd, environ)
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _forward(self, descriptor: int, proc: _Proc, name: str) -> None:
        data = os.read(descriptor, _CHUNK)
        text = proc.held[name] + data
        whole = text.rfind(b"\n") + 1
        if not data or (not whole and len(text) >= _LINE):
            whole = len(text)
        proc.held[name] = text[whole:]
        if whole:
            self._say(**{"rank": proc.rank, name: text[:whole].decode("latin-1")})
        if not data:
            self._selector.unregister(descriptor)
            os.close(descriptor)

    def turn(self, seconds: float) -> None:
        """Wait at most so long for something to happen, and see to it."""
        for key, _ in self._selector.select(seconds):
            if key.fd == 0:
                if os.read(0, _CHUNK):
                    self._segments |= tree.segments(tree.descendants())
                else:
                    self._stop = True
                    self._selector.unregister(0)
            elif key.fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, _CHUNK)
            else:
                self._forward(key.fd, *key.data)
        self._reap()

    def _reap(self) -> None:
        ours = {proc.process.pid: proc for proc in self._procs}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if proc := ours.get(pid):  # else an orphan that came to us
                proc.process.returncode = os.waitstatus_to_exitcode(status)

    def _drain(self) -> None:
        """What the pipes still hold; something that a proc left behind may keep them open."""
        while ready := [key for key, _ in self._selector.select(0) if key.data]:
            for key in ready:
                self._forward(key.fd, *key.data)
        for proc in self._procs:
            for name, text in proc.held.items():
                if text:
                    self._say(**{"rank": proc.rank, name: text.decode("latin-1")})

    def _sweep(self) -> None:
        """Remove what killed processes have left of their MPI library's."""
        for path in self._segments:
            path.unlink(missing_ok=True)
        for proc in self._procs:
            # Open MPI's mpiexec keeps its sockets there.
            folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"ompi.{proc.process.pid}"
            if folder.is_dir():
                import shutil

                shutil.rmtree(folder, ignore_errors=True)

    def _report(self) -> None:
        for proc in self._procs:
            if proc.process.returncode is not None and not proc.exited:
                proc.exited = True
                self._say(rank=proc.rank, exit=proc.process.returncode)

    def run(self) -> None:
        """Until all procs have ended, one way or the other."""
        if self.start():
            while not self._stop and any(proc.process.returncode is None for proc in self._procs):
                self.turn(60.0)
                self._report()
        else:
            self._stop = True
        if self._stop:
            self._segments |= tree.segments(tree.descendants())
            running = [proc.process.pid for proc in self._procs if proc.process.returncode is None]
            tree.end(running, _GRACE_S, self.turn)
            self._reap()
        self._drain()
        if self._stop or any(proc.process.returncode for proc in self._procs):
            self._sweep()
        self._report()


def _pipe(file: IO[bytes] | None) -> int:
    """The descriptor of a pipe, taken out of its file object."""
    if file is None:
        raise OSError("no pipe was made")
    descriptor = os.dup(file.fileno())
    file.close()
    return descriptor


def _read_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        # One octet at a time would do, too; nothing follows the line until the end.
        data = os.read(0, _CHUNK)
        if not data:
            return b""
        line += data
    return bytes(line)


def main(*, forks: bool = False) -> None:
    """Be the agent of this node; ``forks``: it has the modules of impirun, so another one can be a fork of it."""
    gc.freeze()  # the modules: no garbage, so not to be looked through
    # The terminal's Ctrl-C is impirun's affair.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    tree.become_subreaper()
    line = _read_line()
    if line:
        _Agent(json.loads(line), forks=forks).run()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
