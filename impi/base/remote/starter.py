"""The program of a node that starts processes, reports on them, and leaves nothing of them.

How it works: a starter is a fork of impirun or of the lab's fork server
(:mod:`impi.base.remote.forkserver`), or ``python -m impi.base.remote.starter``; it imports only the
standard library and modules beside it that do the same. It runs one argument vector in one or
several processes. It is fed on standard input and answers on standard output
(:mod:`impi.base.remote.starter_lines`). The end of standard input, SIGTERM, SIGINT, and no beat for
``silence_s`` mean stop; an asker that wants a processor and gets none is not silent.

One loop serves all descriptors. SIGCHLD writes into a pipe of that loop (``set_wakeup_fd``), so the
end of a child is an event like any other. As the subreaper of its descendants it also gets the
orphans among them; :func:`impi.base.remote.processes.end` ends them all, and
:mod:`impi.base.remote.remains` removes what their MPI library leaves.
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
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from impi.base.remote import processes
from impi.base.remote.remains import Guests, Remains
from impi.base.remote.starter_lines import NOTHING, STREAMS, Order, Report, Spec, Stream, pack, unpack
from impi.base.remote.watch import LOOK_S, Watch

Forkable = Callable[[list[str], Mapping[str, str], str], Callable[[], object] | None]

_CHUNK = 1 << 16
_MOST_REAPED = 1000  # at a time: processes may end as fast as their statuses are taken
_DRAIN_S = 5.0
_MOST_SHOWN = 500  # octets of a command line that are told: its owner chose it, and it may have megabytes


class _Process:
    def __init__(self, number: int, pid: int) -> None:
        self.number, self.pid = number, pid
        self.code: int | None = None


class _Starter:
    """The processes of one :class:`Spec`, from their start to the end of their trees."""

    def __init__(self, forkable: Forkable) -> None:
        self._forkable = forkable
        self._selector = selectors.DefaultSelector()
        self._input = b""
        self._spec: Spec | None = None
        self._processes: list[_Process] = []
        self._guests = Guests(NOTHING, time.time())
        self._remains = Remains(NOTHING, self._guests)
        self._feed = -1
        self._unfed = b""
        self._asker_gone = False
        self._heard = 0.0
        self._watch: Watch | None = None
        self._stop = False
        self._signal = ""
        self._wake, wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_end, False)
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        # Handlers, not SIG_IGN: programs inherit ignored signals.
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        # A batch system that has started this starter sends it what is meant for the processes.
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: processes.send(self._running(), number))
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def run(self) -> None:
        while self._spec is None and not self._stop:
            self._turn(60.0)
        if self._spec is None:
            return
        spec = self._spec
        if not self._start(spec):
            self._stop = True
        while self._running() and not self._stop:
            self._turn(60.0)
        self._finish(spec)

    def _finish(self, spec: Spec) -> None:
        if self._signal:
            self._say({"signal": self._signal})
        keeps = spec["settle_s"] is None
        if self._stop and keeps:
            self._remains.note()
        failed = self._stop or any(process.code for process in self._processes)
        left = self._end(spec) if failed or not keeps else []
        if self._stop:
            self._guests.end(spec["grace_s"])
        self._drain()
        if keeps:
            self._remains.sweep([process.pid for process in self._processes], failed=failed)
        self._say({"leftovers": left})

    def _running(self) -> list[int]:
        return [process.pid for process in self._processes if process.code is None]

    def _on_signal(self, number: int, _: object) -> None:
        self._stop = True
        self._signal = signal.Signals(number).name

    # -- the asker

    def _say(self, report: Report) -> None:
        if not self._asker_gone:
            try:
                processes.write(1, (json.dumps(report) + "\n").encode())
            except OSError:
                self._asker_gone = self._stop = True

    def _obey(self) -> None:
        """Read and obey standard input; its end is a stop."""
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(0, _CHUNK)
        if not data:
            self._stop = True
            self._selector.unregister(0)
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in map(json.loads, lines):
            self._heard = time.monotonic()
            if self._spec is None:
                self._take(line)
            else:
                self._do(line)

    def _take(self, spec: Spec) -> None:
        self._spec = spec
        self._guests = Guests(spec["leaves"], self._guests.since)
        self._remains = Remains(spec["leaves"], self._guests)
        if silence_s := spec["silence_s"]:
            self._watch = Watch(silence_s)

    def _do(self, order: Order) -> None:
        if order["do"] == "beat":
            self._say({"beat": True})
        elif order["do"] == "note":
            self._remains.note()
        elif order["do"] == "stop":
            self._stop = True
        elif order["do"] == "signal":
            if order["watched"]:
                self._guests.send(order["signal"])
            else:
                processes.send(self._running(), order["signal"])
        elif order["do"] == "watch":
            if self._watch is not None:
                self._watch.ends = {(address, port) for address, port in order["ends"]}
            here = os.uname().nodename
            self._guests.name(pid for node, pid in order["procs"] if node == here)
        elif order["do"] == "feed" and self._feed >= 0:
            self._unfed = unpack(order["data"])
            if self._unfed:
                self._selector.register(self._feed, selectors.EVENT_WRITE)
            else:
                self._end_feed()

    def _write_feed(self) -> None:
        """Write standard input of the process that is fed, without waiting for its reader."""
        try:
            self._unfed = self._unfed[os.write(self._feed, self._unfed) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self._selector.unregister(self._feed)
            self._end_feed()
            return
        if not self._unfed:
            self._selector.unregister(self._feed)
            self._say({"fed": True})

    def _end_feed(self) -> None:
        os.close(self._feed)
        self._feed = -1

    # -- the processes

    def _start(self, spec: Spec) -> bool:
        """Start all processes or none."""
        stdin = os.open(os.devnull, os.O_RDONLY)
        if spec["stdin"] is not None:
            # A file in memory: a process that never reads its input cannot block us.
            stdin = os.memfd_create("stdin")
            os.write(stdin, unpack(spec["stdin"]))
            os.lseek(stdin, 0, os.SEEK_SET)
        base = {**({} if spec["only"] else os.environ), **spec["env"]}
        for number, own in spec["procs"].items():
            mine = stdin
            if int(number) == spec["fed"]:
                mine, self._feed = os.pipe()
                os.set_blocking(self._feed, False)
            try:
                self._start_one(int(number), spec, {**base, **own}, mine)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                # error.filename is a missing folder, or else the program.
                why = getattr(error, "strerror", None) or error
                self._say({"error": f"cannot start {spec['argv'][0]} in {spec['cwd'] or os.getcwd()}: {why}"})
                return False
            if mine != stdin:
                os.close(mine)
                self._say({"fed": True})
        os.close(stdin)
        return True

    def _start_one(self, number: int, spec: Spec, env: Mapping[str, str], stdin: int) -> None:
        argv, cwd = spec["argv"], spec["cwd"] or os.getcwd()
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        streams = (stdin, stdout, stderr)
        try:
            if (work := self._forkable(argv, env, cwd)) is not None:
                pid = processes.fork(streams, work)
            else:
                # The tie costs a full fork, 1 to 3 ms more. impirun ends what a killed starter
                # leaves; the lab's fork server does not.
                pid = processes.spawn(argv, streams, env=env, cwd=cwd, tied=spec["settle_s"] is not None)
        finally:
            os.close(stdout)
            os.close(stderr)
        process = _Process(number, pid)
        self._processes.append(process)
        self._say({"number": number, "pid": pid})
        for descriptor, stream in zip((out, err), STREAMS, strict=True):
            self._selector.register(descriptor, selectors.EVENT_READ, (process, stream))

    def _turn(self, seconds: float) -> None:
        events = self._selector.select(seconds if self._watch is None else min(seconds, self._patience(self._watch)))
        if self._watch is not None:
            self._look(self._watch, silent=all(key.fd for key, _ in events))
        for key, _ in events:
            if key.fd == 0:
                self._obey()
            elif key.fd == self._feed:
                self._write_feed()
            elif key.data:
                self._forward(key)
        self._reap()

    def _patience(self, watch: Watch) -> float:
        """Return the seconds until :meth:`_look` must be called again."""
        silent_in = self._heard + watch.limit_s - time.monotonic()
        return max(0.0, min(watch.left_s, silent_in if silent_in > 0 else LOOK_S))

    def _look(self, watch: Watch, *, silent: bool) -> None:
        """Look whether anything is stopped or cut off; ``silent``: nothing of the asker's waits."""
        unheard = silent and not self._stop and time.monotonic() - self._heard > watch.limit_s
        if unheard and not processes.wants_processor(os.getppid()):
            self._say({"error": f"what has asked for it has not been heard of for {watch.limit_s:g} s"})
            self._stop = True
        if self._stop or not watch.due():
            return
        found = watch.family.look(self._guests.procs)
        if not self._guests.procs:
            self._guests.glance()
        for pid in watch.stopped(found):
            self._say({"stopped": pid, "name": _command_line(pid)})
        for ends in watch.cut(found):
            self._say({"cut": ends})

    def _forward(self, key: selectors.SelectorKey) -> None:
        process, stream = key.data
        data = os.read(key.fd, _CHUNK)
        if data:
            report: Report = {"number": process.number, "at": time.time()}
            report[cast(Stream, stream)] = pack(data)
            self._say(report)
        else:
            self._selector.unregister(key.fd)
            os.close(key.fd)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, _CHUNK)
        with contextlib.suppress(ChildProcessError):
            if self._watch is not None and os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG) is not None:
                self._watch.hurry()
        ours = {process.pid: process for process in self._processes}
        for _ in range(_MOST_REAPED):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if process := ours.get(pid):
                # Its last words come first: where it has failed, nobody waits for more.
                self._drain(process)
                process.code = os.waitstatus_to_exitcode(status)
                self._say({"number": process.number, "exit": process.code})

    # -- the end

    def _end(self, spec: Spec) -> list[str]:
        """End all that lives; return the command lines of leftovers."""
        running = self._running()
        left: list[str] = []
        if not running and spec["settle_s"] is not None:
            # A process about to end by itself (a launcher's proxy) is no leftover.
            left = [_command_line(pid) for pid in processes.wait_for_none(spec["settle_s"], self._turn)]
        names = {pid: _command_line(pid) for pid in processes.descendants()} if running else {}
        processes.send(running, signal.SIGTERM)
        stubborn = processes.end(running, spec["grace_s"], self._turn, running)
        give_up = time.monotonic() + _DRAIN_S
        while self._running() and time.monotonic() < give_up:
            self._turn(give_up - time.monotonic())  # ended, but not reaped
        left = left or [names.get(pid, "") for pid in stubborn if pid not in running]
        return [line for line in left if line]

    def _drain(self, ended: _Process | None = None) -> None:
        """Forward the rest of the pipes, of one process or all; others may keep them open."""
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            found = [key for key, _ in self._selector.select(0) if key.data]
            ready = [key for key in found if ended is None or key.data[0] is ended]
            if not ready:
                return
            for key in ready:
                self._forward(key)


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_MOST_SHOWN).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def _be_python(argv: list[str], env: Mapping[str, str], cwd: str) -> Any:
    """Run the Python command ``argv`` in this process; return its exit status."""
    processes.kill_with_parent()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    option, *rest = arguments = [word for word in argv[1:3] if word not in ("-I", "-S")] + argv[3:]
    if option == "-m":
        with open("/proc/self/comm", "wb") as file:
            file.write(rest[0].rpartition(".")[2].encode())
        # By name, as in a command line: a starter does not know the programs.
        sys.argv = rest
        return importlib.import_module(rest[0]).main(rest[1:])
    if option == "-c":
        text, name, sys.argv = rest[0], "<string>", ["-c", *rest[1:]]
    else:
        with open(option) as file:
            text, name, sys.argv = file.read(), option, arguments
    exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": name})  # noqa: S102  (the user's program)
    return 0


def main(like: Sequence[str] = (), forkable: Forkable | None = None) -> None:
    """Run the starter for the spec on standard input; return at its end.

    Args:
        like: the beginning of an argument vector that a fork of this process can run without a
            start: Python, with options or a module that this process has been started with itself.
        forkable: further commands that a fork can run; from argument vector, variables and folder
            to what runs it in the fork, or None.
    """
    gc.freeze()  # the modules: no garbage, so not to be looked through
    processes.become_subreaper()

    def chosen(argv: list[str], env: Mapping[str, str], cwd: str) -> Callable[[], object] | None:
        if like and argv[: len(like)] == [*like] and os.access(cwd, os.X_OK):
            return lambda: _be_python(argv, env, cwd)
        return None if forkable is None else forkable(argv, env, cwd)

    _Starter(chosen).run()


if __name__ == "__main__":
    main()
