"""The program on a node that starts processes, reports on them, and leaves none behind.

How it works: a starter is a fork of impirun or of the lab's fork server
(:mod:`impi.base.remote.forkserver`), or ``python -m impi.base.remote.starter`` on another node. It
runs one argument vector in one or several processes. Its *asker* sends it orders on standard input
and reads its reports on standard output (:mod:`impi.base.remote.starter_lines`). Four things make
it stop: the end of standard input, SIGTERM, SIGINT, and no heartbeat of the asker for
``silence_s``. An asker that waits for a processor does not count as silent.

One loop serves all descriptors. SIGCHLD writes into a pipe of that loop (``set_wakeup_fd``), so the
end of a child is an event like any other. The starter is the subreaper of its descendants, so
orphans become its children. At the end :func:`impi.base.remote.processes.end` ends them all, and
:mod:`impi.base.remote.remains` removes the files that their MPI library leaves.

The end of standard input is the surest of the four. The kernel closes the pipe even if the asker
is killed by SIGKILL, or its SSH connection breaks. So no process outlives the asker for long.

This module imports only the standard library, and modules beside it that do the same, because these
files are sent to nodes.
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

from impi.base.remote import processes, shown_process
from impi.base.remote.remains import Guests, Remains
from impi.base.remote.starter_lines import (
    NOTHING,
    STREAMS,
    Order,
    Report,
    Spec,
    Stream,
    pack,
    unpack,
)
from impi.base.remote.watch import LOOK_S, Watch

Forkable = Callable[[list[str], Mapping[str, str], str], Callable[[], object] | None]

_CHUNK = 1 << 16
# Most statuses taken in one turn: if processes end as fast, the turn would have no end
_MOST_REAPED = 1000
# Longest wait for the rest of the output, whose pipe an orphan may hold open
_DRAIN_S = 5.0
# Most octets of a command line in a report: its owner may have made it megabytes long
_MOST_SHOWN = 500


class _Process:
    def __init__(self, number: int, pid: int) -> None:
        self.number, self.pid = number, pid
        self.code: int | None = None


class _Starter:
    """Runs the processes of one :class:`Spec`, from their start to the end of their trees."""

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
        # Not blocking at either end: a handler must never wait, and a full pipe
        # wakes the loop just as well.
        self._wake, wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_end, False)
        self._selector.register(0, selectors.EVENT_READ)

        self._selector.register(self._wake, selectors.EVENT_READ)
        # Empty handlers and not SIG_IGN, since programs inherit ignored signals. SIGHUP must not
        # end the starter: the end of its input will, in order.
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

        # A batch system sends these signals to a starter that it has started, and means the
        # processes.
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(
                number, lambda number, _: processes.send(self._running_pids(), number)
            )

        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def run(self) -> None:
        # If the input ends before a spec has come, there is nothing to run and nothing to end.
        while self._spec is None and not self._stop:
            self._turn(60.0)

        if self._spec is None:
            return

        spec = self._spec
        if not self._start_processes(spec):
            self._stop = True

        # The seconds do not matter: each event ends a turn, and a watch shortens it.
        while self._running_pids() and not self._stop:
            self._turn(60.0)

        self._clean_up(spec)

    def _clean_up(self, spec: Spec) -> None:
        if self._signal:
            self._send_report({"signal": self._signal})

        # A lab's command has settle_s, and its descendants are leftovers. impirun's program may
        # leave daemons on purpose, after a success.
        keeps = spec["settle_s"] is None
        if self._stop and keeps:
            self._remains.note()  # while the processes still have their segments mapped

        # After a failure no part of the job goes on, so everything below may be ended and swept.
        failed = self._stop or any(process.code for process in self._processes)

        left = self._end_processes(spec) if failed or not keeps else []
        if self._stop:
            self._guests.end(spec["grace_s"])

        # Output from just before the kill often tells the cause.
        self._drain_output()
        if keeps:
            self._remains.sweep(
                [process.pid for process in self._processes], failed=failed
            )

        # Last of all, since the asker takes this line as the end of the command.
        self._send_report({"leftovers": left})

    def _running_pids(self) -> list[int]:
        return [process.pid for process in self._processes if process.code is None]

    def _on_signal(self, number: int, _: object) -> None:
        self._stop = True
        self._signal = signal.Signals(number).name

    # -- the asker

    def _send_report(self, report: Report) -> None:
        if not self._asker_gone:
            try:
                processes.write(1, (json.dumps(report) + "\n").encode())
            except OSError:
                # The asker reads no more: the processes are ended, as after the end of the input.
                self._asker_gone = self._stop = True

    def _read_orders(self) -> None:
        """Read orders from standard input and obey them; the end of input means stop."""

        data = b""
        # A broken input counts as ended: both mean that the asker is gone.
        with contextlib.suppress(OSError):
            data = os.read(0, _CHUNK)

        if not data:
            self._stop = True
            self._selector.unregister(0)
            return

        # A read may end inside a line, whose rest comes later.
        *lines, self._input = (self._input + data).split(b"\n")
        for line in map(json.loads, lines):
            self._heard = time.monotonic()
            if self._spec is None:
                self._take_spec(line)
            else:
                self._carry_out(line)

    def _take_spec(self, spec: Spec) -> None:
        self._spec = spec
        # The begin is still that of the starter: whatever is older does not belong to this job.
        self._guests = Guests(spec["leaves"], self._guests.since)

        self._remains = Remains(spec["leaves"], self._guests)
        if silence_s := spec["silence_s"]:
            self._watch = Watch(silence_s)

    def _carry_out(self, order: Order) -> None:
        if order["do"] == "beat":
            self._send_report({"beat": True})
        elif order["do"] == "note":
            self._remains.note()
        elif order["do"] == "stop":
            self._stop = True
        elif order["do"] == "signal":
            if order["watched"]:
                self._guests.send(order["signal"])
            else:
                processes.send(self._running_pids(), order["signal"])
        elif order["do"] == "watch":
            if self._watch is not None:
                self._watch.ends = {(address, port) for address, port in order["ends"]}

            # One list goes to the starters of all nodes, and each takes the procs of its own node.
            here = os.uname().nodename
            self._guests.name(pid for node, pid in order["procs"] if node == here)
        elif order["do"] == "feed" and self._feed >= 0:
            self._unfed = unpack(order["data"])
            if self._unfed:
                self._selector.register(self._feed, selectors.EVENT_WRITE)
            else:
                self._end_feed()

    def _write_feed(self) -> None:
        """Write input to the process that is fed, without waiting for it to read."""
        try:
            self._unfed = self._unfed[os.write(self._feed, self._unfed) :]
        except BlockingIOError:
            return
        except OSError:  # the process has ended, or closed its input
            self._selector.unregister(self._feed)
            self._end_feed()
            return

        if not self._unfed:
            self._selector.unregister(self._feed)
            self._send_report({"fed": True})

    def _end_feed(self) -> None:
        # The process sees the end of its input.
        os.close(self._feed)
        self._feed = -1

    # -- the processes

    def _start_processes(self, spec: Spec) -> bool:
        """Start all processes; False: one could not be started, and the others must end."""

        # Never the starter's own input: the process would read the orders.
        stdin = os.open(os.devnull, os.O_RDONLY)
        if spec["stdin"] is not None:
            # A file in memory, not a pipe: a process that never reads its input cannot block us.
            stdin = os.memfd_create("stdin")
            os.write(stdin, unpack(spec["stdin"]))
            os.lseek(stdin, 0, os.SEEK_SET)

        # Three layers, each over the one before: this process's, those of the
        # spec, the process's own.
        base = {**({} if spec["only"] else os.environ), **spec["env"]}
        for number, own in spec["procs"].items():
            mine = stdin
            if int(number) == spec["fed"]:
                mine, self._feed = os.pipe()
                os.set_blocking(self._feed, False)

            try:
                self._start_one(int(number), spec, {**base, **own}, mine)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                # The sentence names both: error.filename may be the folder or the program.
                where = spec["cwd"] or os.getcwd()
                why = processes.why_not_started(error)
                self._send_report(
                    {"error": f"cannot start {spec['argv'][0]} in {where}: {why}"}
                )
                return False

            # The reading end of the pipe is the process's alone: held here, too, it would hide that
            # the process has closed it.
            if mine != stdin:
                os.close(mine)
                self._send_report({"fed": True})

        os.close(stdin)

        return True

    def _start_one(
        self, number: int, spec: Spec, env: Mapping[str, str], stdin: int
    ) -> None:
        argv, cwd = spec["argv"], spec["cwd"] or os.getcwd()
        # Two pipes, so that both streams can be told apart; their order in
        # time is that of the reports.
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()

        streams = (stdin, stdout, stderr)
        try:
            if (work := self._forkable(argv, env, cwd)) is not None:
                pid = processes.fork(streams, work)
            else:
                # Only the lab's processes are tied (PDEATHSIG), as a tie needs a full fork, 1 to 3
                # ms more. impirun ends the processes of a killed starter; the lab's fork server
                # does not.
                pid = processes.spawn(
                    argv, streams, env=env, cwd=cwd, tied=spec["settle_s"] is not None
                )
        finally:
            # The writing ends are the process's now. While one is open here, the
            # end of output never shows.
            os.close(stdout)
            os.close(stderr)

        process = _Process(number, pid)
        self._processes.append(process)

        self._send_report({"number": number, "pid": pid})
        for descriptor, stream in zip((out, err), STREAMS, strict=True):
            self._selector.register(descriptor, selectors.EVENT_READ, (process, stream))

    def _turn(self, seconds: float) -> None:
        events = self._selector.select(
            seconds
            if self._watch is None
            else min(seconds, self._seconds_to_look(self._watch))
        )
        if self._watch is not None:
            self._look_for_trouble(self._watch, silent=all(key.fd for key, _ in events))

        for key, _ in events:
            if key.fd == 0:
                self._read_orders()
            elif key.fd == self._feed:
                self._write_feed()
            elif key.data:
                self._forward_output(key)

        self._reap_children()

    def _seconds_to_look(self, watch: Watch) -> float:
        """Return the seconds until :meth:`_look_for_trouble` must be called again."""
        # If the time is over and the starter still runs, the asker waits for a processor. Then the
        # next look at it is after LOOK_S.
        silent_in = self._heard + watch.limit_s - time.monotonic()
        return max(0.0, min(watch.left_s, silent_in if silent_in > 0 else LOOK_S))

    def _look_for_trouble(self, watch: Watch, *, silent: bool) -> None:
        """Look for stopped processes, cut connections, and the silence of the asker.

        Args:
            silent: whether no line of the asker waits to be read.
        """

        unheard = (
            silent and not self._stop and time.monotonic() - self._heard > watch.limit_s
        )
        # A late line may wait in the pipe, and a crowded machine may keep the asker from writing.
        # So a silent asker counts as stopped or cut off only if it waits for no processor.
        if unheard and not processes.wants_processor(os.getppid()):
            self._send_report(
                {
                    "error": f"what has asked for it has not been heard of for {watch.limit_s:g} s"
                }
            )
            self._stop = True

        if self._stop or not watch.due():
            return

        # Procs of an mpiexec need not descend from this process, so the guests are added.
        found = watch.family.look(self._guests.procs)
        if not self._guests.procs:
            self._guests.glance()

        for pid in watch.stopped(found):
            self._send_report({"stopped": pid, "name": _command_line(pid)})

        for ends in watch.cut(found):
            self._send_report({"cut": ends})

    def _forward_output(self, key: selectors.SelectorKey) -> None:
        process, stream = key.data

        # It never blocks: the selector has said that there is something, or the end.
        data = os.read(key.fd, _CHUNK)
        if data:
            report: Report = {"number": process.number, "at": time.time()}
            report[cast(Stream, stream)] = pack(data)
            self._send_report(report)
        else:
            self._selector.unregister(key.fd)
            os.close(key.fd)

    def _reap_children(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, _CHUNK)

        # A child that is stopped also sends SIGCHLD. WSTOPPED alone takes no exit status away.
        with contextlib.suppress(ChildProcessError):
            if (
                self._watch is not None
                and os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG) is not None
            ):
                self._watch.hurry()

        # Orphans are children of this process too, as it is their subreaper,
        # and only need to be reaped.
        ours = {process.pid: process for process in self._processes}
        for _ in range(_MOST_REAPED):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return

            if pid == 0:
                return

            if process := ours.get(pid):
                # Its output is sent before its exit: after a failure the asker waits for no more.
                self._drain_output(process)
                process.code = os.waitstatus_to_exitcode(status)
                self._send_report({"number": process.number, "exit": process.code})

    # -- the end

    def _end_processes(self, spec: Spec) -> list[str]:
        """End all processes; return the command lines of leftovers: evidence for a verdict."""

        running = self._running_pids()

        # Two kinds of leftovers: what runs on after the command, and what had to be killed with it.
        left: list[str] = []
        if not running and spec["settle_s"] is not None:
            # Time to settle: a launcher's proxy that is about to end is not a leftover.
            left = [
                _command_line(pid)
                for pid in processes.wait_for_none(spec["settle_s"], self._turn)
            ]

        # Command lines are read first: /proc forgets them with the processes.
        names = (
            {pid: _command_line(pid) for pid in processes.descendants()}
            if running
            else {}
        )
        processes.send(running, signal.SIGTERM)
        stubborn = processes.end(running, spec["grace_s"], self._turn, running)

        give_up = time.monotonic() + _DRAIN_S
        while self._running_pids() and time.monotonic() < give_up:
            # They have ended, and must be reaped
            self._turn(give_up - time.monotonic())

        left = left or [names.get(pid, "") for pid in stubborn if pid not in running]

        return [line for line in left if line]

    def _drain_output(self, ended: _Process | None = None) -> None:
        """Forward what is in the pipes of one process, or of all.

        It does not wait for the end of a pipe: an orphan may hold that open.
        """
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            # Only what is there now: each read takes what the pipe holds, until nothing is ready.
            found = [key for key, _ in self._selector.select(0) if key.data]

            ready = [key for key in found if ended is None or key.data[0] is ended]
            if not ready:
                return

            for key in ready:
                self._forward_output(key)


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_MOST_SHOWN).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""

    return b" ".join(words).decode("utf-8", "replace")


def _be_python(argv: list[str], env: Mapping[str, str], cwd: str) -> Any:
    """Run a Python command in this process, a fork, and return its exit status."""

    processes.kill_with_parent()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)

    # -I and -S are options of the interpreter, which runs already.
    option, *rest = arguments = [
        word for word in argv[1:3] if word not in ("-I", "-S")
    ] + argv[3:]
    # A fork has its parent's name and command line until it sets others: `ps`, the sweep for
    # leftovers and whoever looks for an impirun in /proc must find this command.
    if option == "-m":
        shown_process.show(argv, env)
        with open("/proc/self/comm", "wb") as file:
            file.write(rest[0].rpartition(".")[2].encode())

        # By the name in the command line: this file knows none of the programs.
        sys.argv = rest
        return importlib.import_module(rest[0]).main(rest[1:])

    text: str | bytes
    if option == "-c":
        text, name, sys.argv = rest[0], "<string>", ["-c", *rest[1:]]
    else:
        with open(option, "rb") as file:
            # Octets, because a source says its encoding itself
            text, name, sys.argv = file.read(), option, arguments

    exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": name})  # noqa: S102  (the user's program)

    return 0


def main(like: Sequence[str] = (), forkable: Forkable | None = None) -> None:
    """Run a starter for the spec on standard input; return when all its processes have ended.

    Args:
        like: the first words of the commands that a fork of this process can run without a new
            Python. They are this process's own interpreter, with its options or its module.
        forkable: decides about other commands. It gets argument vector, variables and folder, and
            returns a function to run in a fork, or None.
    """

    # Modules are never garbage, so the collector need not look through them
    gc.freeze()
    processes.become_subreaper()

    def chosen(
        argv: list[str], env: Mapping[str, str], cwd: str
    ) -> Callable[[], object] | None:
        # A folder that cannot be entered must be reported as a failed start, and not fail in the
        # fork.
        if like and argv[: len(like)] == [*like] and os.access(cwd, os.X_OK):
            return lambda: _be_python(argv, env, cwd)

        return None if forkable is None else forkable(argv, env, cwd)

    _Starter(chosen).run()


if __name__ == "__main__":
    main()
