"""Run one command, tell how it goes in lines of JSON, and leave nothing of it behind.

This file is sent to the node as it is and imports only the standard library. It is fed on standard input, one JSON
object a line, and answers on standard output in the same way:

* first line in: ``{"argv": [...], "env": {...}, "only": false, "cwd": "" , "stdin": base64 | null, "grace_s": 2.0,
  "settle_s": 0.5}``. ``env`` is laid over the supervisor's own environment, or (``only``) is all there is.
* later lines in: ``{"do": "stop"}``. The end of standard input means the same: whoever asked is gone.
* lines out: ``{"pid": n}``, ``{"stdout": base64, "at": seconds}``, the same of ``stderr``, as they come, and at last
  ``{"exit": code, "leftovers": [...]}``, with ``-N`` for signal N and 127 for a program that could not be started.

Linux only: it is the *subreaper* of its descendants, so that a process that changes its group or session, or whose
parent has ended, stays in the tree below it and is found by a walk through /proc.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TypedDict

__all__ = ["Spec", "main"]


class Spec(TypedDict):
    """The first line in."""

    argv: list[str]
    env: dict[str, str]
    """Laid over the supervisor's own environment."""
    only: bool
    """Whether the command gets nothing but ``env``."""
    cwd: str
    """Empty: where the supervisor is."""
    stdin: str | None
    """Base64 of what the command reads; None: nothing at all."""
    grace_s: float
    """From TERM to KILL."""
    settle_s: float
    """How long after the command's end its descendants may take to end by themselves before they are leftovers."""


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536
_MOST_DESCRIPTORS = 1 << 16
_MOST_REAPED = 1000  # at a time: processes may end as fast as we take their statuses
_POLL_S = 0.02
_GIVE_UP_S = (
    5.0  # a process that outlives KILL for so long is not ours to kill (another user's, or stuck in the kernel)
)
_LIBC = ctypes.CDLL(None, use_errno=True)


def _descendants() -> dict[int, int]:
    """All living processes below this one, with their process groups; zombies not counted."""
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  (pathlib costs 10 ms of every start)
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The command's name stands in parentheses and may hold any character.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
            groups[int(name)] = int(group)
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return {pid: groups[pid] for pid in found}


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def _signal(processes: Mapping[int, int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_groups(groups: set[int]) -> set[int]:
    """What forks faster than we walk is caught by its process group, which the kernel ends as one.

    Returns those that were still there; they vanish when their last member has ended and its status was taken.
    """
    there = set()
    for group in groups - {os.getpgrp(), 0, 1}:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        there.add(group)
    return there


def _run_python(argv: list[str], env: Mapping[str, str], cwd: str) -> int:
    """What ``python -I -S ARGV...`` does, in this process; its exit status."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(env)
        if cwd:
            os.chdir(cwd)
        if argv[0] == "-c":
            text, name, sys.argv = argv[1], "<string>", ["-c", *argv[2:]]
        else:
            with open(argv[0]) as file:  # noqa: PTH123
                text, name, sys.argv = file.read(), argv[0], argv
        exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": name})
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code & 0xFF


class _Supervisor:
    """One command from its start to the end of the last process of its tree."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._input = bytearray()
        self._asker_gone = False
        self._stop = False
        self._pid = 0
        self._code: int | None = None
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)

    def stop(self) -> None:
        """End it all at the next turn; safe in a signal handler."""
        self._stop = True

    # -- talking with whoever asked

    def _say(self, **fields: object) -> None:
        data = memoryview((json.dumps(fields) + "\n").encode())
        while data and not self._asker_gone:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                self._asker_gone = True
                self._stop = True

    def _obey(self, lines: Sequence[bytes]) -> None:
        if any(json.loads(line).get("do") == "stop" for line in lines):
            self._stop = True

    def _read_input(self) -> list[bytes]:
        """Lines that have come on standard input; its end is a stop."""
        try:
            data = os.read(0, _CHUNK)
        except OSError:
            data = b""
        if not data:
            self._stop = True
            with contextlib.suppress(KeyError):
                self._selector.unregister(0)
            return []
        self._input += data
        *lines, rest = bytes(self._input).split(b"\n")
        self._input = bytearray(rest)
        return lines

    # -- the command

    def _start(self, spec: Spec) -> None:
        stdin = os.open(os.devnull, os.O_RDONLY)
        if spec["stdin"] is not None:
            # A file in memory, so that a command that never reads its input cannot block us.
            stdin = os.memfd_create("stdin")
            os.write(stdin, base64.b64decode(spec["stdin"]))
            os.lseek(stdin, 0, os.SEEK_SET)
        env = dict(spec["env"]) if spec["only"] else {**os.environ, **spec["env"]}
        argv = spec["argv"]
        if argv[:3] == [sys.executable, "-I", "-S"]:
            self._fork(argv[3:], env, spec["cwd"], stdin)
        else:
            self._spawn(argv, env, spec["cwd"], stdin)
        os.close(stdin)

    def _spawn(self, argv: list[str], env: dict[str, str], cwd: str, stdin: int) -> None:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd or None,
            start_new_session=True,
            # Should this process be killed, at least the command itself goes with it.
            preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509 (one thread)
        )
        self._pid = process.pid
        process.returncode = 0  # its end is seen by _reap; Popen need not wait for it again
        for file, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            if file is not None:
                self._selector.register(file, selectors.EVENT_READ, name)

    def _fork(self, argv: list[str], env: dict[str, str], cwd: str, stdin: int) -> None:
        """Python with the options that this process was started with itself: a fork is the same, without the start."""
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.setsid()
            self._selector.close()
            for ours, standard in ((stdin, 0), (stdout, 1), (stderr, 2)):
                os.dup2(ours, standard)
            os.closerange(3, _MOST_DESCRIPTORS)
            os._exit(_run_python(argv, env, cwd))
        os.close(stdout)
        os.close(stderr)
        self._selector.register(out, selectors.EVENT_READ, "stdout")
        self._selector.register(err, selectors.EVENT_READ, "stderr")

    def _forward(self, key: selectors.SelectorKey) -> None:
        """Pass on what the command has printed."""
        data = os.read(key.fd, _CHUNK)
        if data:
            self._say(**{key.data: base64.b64encode(data).decode(), "at": time.time()})
        else:
            self._selector.unregister(key.fileobj)

    def _reap(self) -> None:
        """Take the statuses of all that ended; orphans come to us too."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, _CHUNK)
        for _ in range(_MOST_REAPED):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._code = os.waitstatus_to_exitcode(status)

    def _turn(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.fd == 0:
                self._obey(self._read_input())
            elif key.data:
                self._forward(key)
        self._reap()

    def _wait(self, seconds: float, *, empty: bool) -> bool:
        """Wait so long for the command's end, or (``empty``) for that of its whole tree; True if it came."""
        deadline = time.monotonic() + seconds
        while True:
            if not _descendants() if empty else self._code is not None:
                return True
            if time.monotonic() >= deadline:
                return False
            self._turn(_POLL_S)

    def _end(self, grace_s: float, settle_s: float) -> list[str]:
        """End all that lives: TERM, then KILL. Returns what had to be ended after the command itself."""
        groups: set[int] = set()
        if self._code is None:
            alive = _descendants()
            groups.update(alive.values())
            _signal(alive, signal.SIGTERM)
            self._wait(grace_s, empty=True)
        else:
            # What was about to end by itself (a launcher's proxies) is not a leftover.
            self._wait(settle_s, empty=True)
        alive = _descendants()
        groups.update(alive.values())
        left = [_command_line(pid) for pid in alive if pid != self._pid]
        if not self._stop:
            _signal(alive, signal.SIGTERM)
            self._wait(grace_s, empty=True)
        give_up = time.monotonic() + _GIVE_UP_S
        # Again and again: a process may fork between the walk and the signal.
        while (alive := _descendants()) or groups:
            groups = _kill_groups(groups | set(alive.values()))
            _signal(alive, signal.SIGKILL)
            if time.monotonic() > give_up:
                break
            self._turn(_POLL_S if alive or groups else 0)
        return [line for line in left if line]

    def _drain(self) -> None:
        """What the pipes still hold; all writers are gone, unless they are beyond our reach."""
        names = ("stdout", "stderr")
        deadline = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < deadline:
            ready = [key for key, _ in self._selector.select(0) if key.data in names]
            if not ready:
                return
            for key in ready:
                self._forward(key)

    def run(self) -> None:
        """All of it."""
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        lines: list[bytes] = []
        while not lines and not self._stop:
            lines = self._read_input()
        if not lines:
            return
        spec: Spec = json.loads(lines[0])
        self._obey(lines[1:])
        try:
            self._start(spec)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            text = f"cannot start {spec['argv']}: {error}\n"
            self._say(stderr=base64.b64encode(text.encode()).decode())
            self._say(exit=127, leftovers=[])
            return
        self._say(pid=self._pid)
        while self._code is None and not self._stop:
            self._turn(60.0)
        leftovers = self._end(spec["grace_s"], spec["settle_s"])
        self._drain()
        self._say(exit=self._code if self._code is not None else -signal.SIGKILL, leftovers=leftovers)


def main() -> None:
    """Be the supervisor of the command that standard input names; returns when all of it has ended."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = _Supervisor()
    # Handlers, not SIG_IGN: what is ignored stays ignored in the command.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.stop())
    supervisor.run()


if __name__ == "__main__":
    main()
