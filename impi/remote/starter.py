"""The program of a node that starts processes, reports on them, and leaves nothing of them.

How it works: a starter is a fork of impirun or of the lab's fork server
(:mod:`impi.remote.forkserver`), or ``python -m impi.remote.starter``; it imports only the standard
library and :mod:`impi.remote.processes`. It runs one argument vector in one or several processes.
It is fed on standard input, one JSON object a line, and answers on standard output in that way:

* first line in: a :class:`Spec`.
* later lines in: ``{"do": "stop"}``; ``{"do": "note"}``, when MPI is initialised: it notes the
  shared memory of its processes; ``{"do": "feed", "data": base64}``, after ``{"fed": true}`` has
  come out: more standard input for the process that is fed, empty at its end;
  ``{"do": "beat"}``, every two seconds where the spec has ``silence_s``; ``{"do": "watch", "ends":
  [[address, port], ...], "procs": [[node, pid], ...]}``: where the hosts of the job listen, and
  procs that an mpiexec has started. The end of standard input, SIGTERM, SIGINT, and no beat for
  ``silence_s`` mean stop; an asker that wants a processor and gets none is not silent.
* lines out: ``{"number": 3, "pid": 77}``; ``{"number": 3, "stdout": base64, "at": seconds since
  the epoch}`` or ``stderr``, as it comes; ``{"number": 3, "exit": code}``, ``-N`` for signal N;
  ``{"error": "sentence"}`` if a process cannot be started, and then none runs, or if the asker has
  been silent; ``{"beat": true}``, the answer to a beat; ``{"signal": "SIGTERM"}``, which ends this
  starter; ``{"stopped": pid, "name": command line}`` and ``{"cut": [[address, port], [address,
  port]]}``, own end first, as :mod:`impi.remote.watch` finds them. The last line is
  ``{"leftovers": [command lines]}``: what had to be ended after the processes themselves.

One loop serves all descriptors. SIGCHLD writes into a pipe of that loop (``set_wakeup_fd``), so the
end of a child is an event like any other. As the subreaper of its descendants it also gets the
orphans among them; :func:`impi.remote.processes.end` ends them all.
"""

from __future__ import annotations

import binascii
import contextlib
import gc
import importlib
import json
import math
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from impi.remote import processes
from impi.remote.patience import Patience
from impi.remote.watch import LOOK_S, Watch

_CHUNK = 1 << 16
_MOST_REAPED = 1000  # at a time: processes may end as fast as their statuses are taken
_DRAIN_S = 5.0
_ALONE_S = 1.0  # a proxy ends once its mpiexec has, and then it removes what it has made
_SHM = "/dev/shm"
_UNNAMED = ("mpich_shm_", "ucx_shm_posix_")
"""How segments of MPICH and of UCX begin; their names do not tell the machine."""
_TMP = "/tmp"
_PROXY = "hydra_pmi_proxy"
_DAEMONS = (_PROXY, "prted")
_TICK_S = 0.02
"""How much later than a file's time its maker's clock may be: the kernel counts in ticks."""

Line = dict[str, Any]
"""A line of input after the first."""


class Spec(TypedDict):
    """The first line of input."""

    argv: list[str]
    procs: dict[str, dict[str, str]]
    """By number, the variables of one process each, laid over ``env``."""
    env: dict[str, str]
    """Variables laid over the starter's own."""
    only: bool
    """Whether the processes get nothing but ``env`` and their own."""
    cwd: str
    """Working folder; empty: the starter's."""
    stdin: str | None
    """Base64 of standard input, the same for all; None: empty."""
    fed: int | None
    """Number of the process whose standard input comes by later lines; None: no process."""
    grace_s: float
    """Seconds from TERM to KILL."""
    settle_s: float | None
    """Seconds that descendants have to end after the processes, before they are leftovers.

    None: processes left running at the end go on. Shared memory of their MPI library that nobody
    has is removed; after a stop or a failure all of it, and its sockets.
    """
    silence_s: float | None
    """Seconds after which the asker is lost if it is silent, a process if stopped, a link if cut.

    None: nothing is watched.
    """


class _Process:
    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.code: int | None = None


class _Starter:
    """The processes of one :class:`Spec`, from their start to the end of their trees."""

    def __init__(self, like: Sequence[str]) -> None:
        self._like = list(like)
        self._selector = selectors.DefaultSelector()
        self._input = b""
        self._spec: Spec | None = None
        self._processes: list[_Process] = []
        self._segments: set[str] = set()
        self._began = time.time()
        self._feed = -1
        self._unfed = b""
        self._asker_gone = False
        self._heard = 0.0
        self._watch: Watch | None = None
        self._watched: set[int] = set()
        """Procs of this node that an mpiexec has started, not this starter."""
        self._guests: dict[int, int] = {}
        """These procs and what is above them up to Hydra's proxies, each with a descriptor."""
        self._strays: set[int] = set()
        """Daemons of mpiexecs, and what is below them, seen here while no proc had a name."""
        self._first_stray = self._began
        """When the first of these daemons began: maybe before this starter."""
        self._stop = False
        self._signal = ""
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        # Handlers, not SIG_IGN: programs inherit ignored signals.
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)

    def run(self) -> None:
        """Start the processes, serve until the end, clean up."""
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
        """End what lives, and say the last line."""
        if self._signal:
            self._say(signal=self._signal)
        keeps = spec["settle_s"] is None
        if self._stop and keeps:
            self._note()
        failed = self._stop or any(process.code for process in self._processes)
        left = self._end(spec) if failed or not keeps else []
        if self._stop:
            self._end_guests(spec["grace_s"])
        self._drain()
        if keeps:
            pids = [process.pid for process in self._processes]
            sweep(self._began, pids, self._segments, failed=failed, since_daemons=self._first_stray)
        self._say(leftovers=left)

    def _running(self) -> list[int]:
        return [process.pid for process in self._processes if process.code is None]

    def _on_signal(self, number: int, _: object) -> None:
        self._stop = True
        self._signal = signal.Signals(number).name

    # -- the asker

    def _say(self, **fields: object) -> None:
        data = memoryview((json.dumps(fields) + "\n").encode())
        while data and not self._asker_gone:
            try:
                data = data[os.write(1, data) :]
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
                self._spec = line
                if silence_s := self._spec["silence_s"]:
                    self._watch = Watch(silence_s)
            else:
                self._do(line)

    def _do(self, line: Line) -> None:
        """Obey one line."""
        match line["do"]:
            case "beat":
                self._say(beat=True)
            case "watch" if self._watch is not None:
                self._watch.ends = {(address, port) for address, port in line["ends"]}
                here = os.uname().nodename
                self._watched = {pid for node, pid in line["procs"] if node == here}
                self._guests = self._guests or _opened(self._watched)
                # A proxy of this job may be here before this starter is, and have made its file.
                self._began = min([self._began, *map(processes.began, self._guests)])
            case "note":
                self._note()
            case "stop":
                self._stop = True
            case "feed" if self._feed >= 0:
                self._unfed = binascii.a2b_base64(line["data"])
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
            self._say(fed=True)

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
            os.write(stdin, binascii.a2b_base64(spec["stdin"]))
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
                self._say(error=f"cannot start {spec['argv'][0]} in {spec['cwd'] or os.getcwd()}: {why}")
                return False
            if mine != stdin:
                os.close(mine)
                self._say(fed=True)
        os.close(stdin)
        return True

    def _start_one(self, number: int, spec: Spec, env: Mapping[str, str], stdin: int) -> None:
        argv, cwd = spec["argv"], spec["cwd"] or os.getcwd()
        (out, stdout), (err, stderr) = os.pipe(), os.pipe()
        streams = (stdin, stdout, stderr)
        try:
            if self._like and argv[: len(self._like)] == self._like and os.access(cwd, os.X_OK):
                pid = processes.fork(streams, lambda: _be_python(argv, env, cwd))
            else:
                # The tie costs a full fork, 1 to 3 ms more. impirun ends what a killed starter
                # leaves; the lab's fork server does not.
                pid = processes.spawn(argv, streams, env=env, cwd=cwd, tied=spec["settle_s"] is not None)
        finally:
            os.close(stdout)
            os.close(stderr)
        process = _Process(number, pid)
        self._processes.append(process)
        self._say(number=number, pid=pid)
        self._selector.register(out, selectors.EVENT_READ, (process, "stdout"))
        self._selector.register(err, selectors.EVENT_READ, (process, "stderr"))

    def _turn(self, seconds: float) -> None:
        """Wait at most ``seconds`` for events, and handle them."""
        events = self._selector.select(seconds if self._watch is None else min(seconds, LOOK_S))
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

    def _look(self, watch: Watch, *, silent: bool) -> None:
        """Look whether anything is stopped or cut off; ``silent``: nothing of the asker's waits."""
        unheard = silent and not self._stop and time.monotonic() - self._heard > watch.limit_s
        if unheard and not processes.wants_processor(os.getppid()):
            self._say(error=f"what has asked for it has not been heard of for {watch.limit_s:g} s")
            self._stop = True
        if self._stop or not watch.due():
            return
        found = processes.descendants(self._watched)
        if not self._watched:
            self._see_strays()
        for pid in watch.stopped(found):
            self._say(stopped=pid, name=_command_line(pid))
        for ends in watch.cut(found):
            self._say(cut=ends)

    def _see_strays(self) -> None:
        daemons = _daemons()
        self._strays |= set(processes.descendants(under=daemons))
        self._first_stray = min([self._first_stray, *map(processes.began, daemons)])

    def _forward(self, key: selectors.SelectorKey) -> None:
        """Forward the output of a process."""
        process, name = key.data
        data = os.read(key.fd, _CHUNK)
        if data:
            text = binascii.b2a_base64(data, newline=False).decode()
            self._say(**{"number": process.number, name: text, "at": time.time()})
        else:
            self._selector.unregister(key.fd)
            os.close(key.fd)

    def _reap(self) -> None:
        """Take the statuses of ended children, orphans included."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, _CHUNK)
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
                self._say(number=process.number, exit=process.code)

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
        stubborn = processes.end(running, spec["grace_s"], self._turn)
        give_up = time.monotonic() + _DRAIN_S
        while self._running() and time.monotonic() < give_up:
            self._turn(give_up - time.monotonic())  # ended, but not reaped
        left = left or [names.get(pid, "") for pid in stubborn if pid not in running]
        return [line for line in left if line]

    def _end_guests(self, grace_s: float) -> None:
        """End what an mpiexec has started here, if it does not: it may be frozen, or cut off.

        Only then is nobody's what they leave. An mpiexec's daemon that no proc has named may belong
        to another job: it has time to end, with what is below it, and is let alone.
        """
        if not self._guests:
            self._see_strays()
        alive = self._guests or _opened(self._strays)
        for number, seconds in ((0, _ALONE_S), (signal.SIGTERM, grace_s), (signal.SIGKILL, _DRAIN_S)):
            patience = Patience(seconds, 1)
            if number:
                alive = {pid: guest for pid, guest in alive.items() if pid in self._guests}
            for guest in alive.values():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(guest, number)
                    signal.pidfd_send_signal(guest, signal.SIGCONT if number else 0)  # or TERM would wait
            while alive and not patience.ended():
                ended = select.select(list(alive.values()), [], [], _TICK_S)[0]
                alive = {pid: guest for pid, guest in alive.items() if guest not in ended}

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

    def _note(self) -> None:
        """Note shared memory that the processes have mapped: only that is removed later."""
        for pid in processes.descendants():
            try:
                with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                    lines = file.read().splitlines()
            except OSError:
                continue
            for line in lines:
                _, slash, path = line.partition(f"{_SHM}/")
                if slash and path.startswith(("sm_segment.", *_UNNAMED)):
                    self._segments.add(f"{_SHM}/{path.removesuffix(' (deleted)')}")


def sweep(
    since: float, pids: Iterable[int], segments: set[str], *, failed: bool, since_daemons: float = math.inf
) -> None:
    """Remove shared memory, files and sockets that processes of a starter have left.

    MPICH leaves a segment now and then even if all is well: if a process exits at once after
    MPI_Finalize. What processes have that go on after success stays.

    Args:
        since: when the starter began, in seconds since the epoch.
        pids: its own processes.
        segments: shared memory that it has noted.
        failed: whether nothing goes on.
        since_daemons: when daemons of mpiexecs began here, if that was earlier. What they have
            left is known by what still runs, so it may be of another job, but is nobody's.
    """
    since -= _TICK_S
    since_daemons = min(since, since_daemons - _TICK_S)
    for path in _nobodys(since) | (segments | _topologies(since_daemons) if failed else set()):
        with contextlib.suppress(OSError):
            os.unlink(path)
    # Open MPI's mpiexec and daemons keep their sockets there.
    temporary = os.environ.get("TMPDIR", _TMP)
    folders = {os.path.join(temporary, f"ompi.{pid}") for pid in pids}
    for folder in folders | (_sessions(since_daemons, temporary) if failed else set()):
        if os.path.isdir(folder):
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def _opened(procs: Iterable[int]) -> dict[int, int]:
    """Return descriptors of processes and of those above them, up to Hydra's proxies, by id."""
    found = {}
    for pid in {*procs, *(above for proc in procs for above in _up_to_proxy(proc))}:
        with contextlib.suppress(OSError):
            found[pid] = os.pidfd_open(pid)
    return found


def _up_to_proxy(pid: int) -> list[int]:
    """Return the processes above one, up to its proxy; none without a proxy.

    A wrapper of the user may be between.
    """
    found = [processes.parent(pid)]
    while found[-1] and not _is_daemon(found[-1], _PROXY):
        found.append(processes.parent(found[-1]))
    return found if found[-1] else []


def _is_daemon(pid: int, *names: str) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().startswith(names)
    return False


def _daemons(*names: str) -> list[int]:
    """Return the processes here by which mpiexecs start procs; those of another container are not.

    What has another /tmp leaves nothing here.
    """
    place, found = os.readlink("/proc/self/ns/mnt"), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if _is_daemon(pid, *(names or _DAEMONS)) and os.readlink(f"/proc/{pid}/ns/mnt") == place:
                found.append(pid)
    return found


def _made_since(since: float, folder: str, *beginnings: str) -> set[str]:
    """Return this user's files in a folder whose names begin so, and that are no older."""
    found = set()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError):
            status = os.stat(f"{folder}/{name}")
            if name.startswith(beginnings) and status.st_uid == os.getuid() and status.st_ctime >= since:
                found.add(f"{folder}/{name}")
    return found


def _nobodys(since: float) -> set[str]:
    """Return segments that no process has, made here since then: their makers died in MPI_Init.

    Such a process is killed before anybody can note what it has. A segment of another job is always
    open or mapped; first open, so in that order both are looked at.
    """
    # Open MPI names the machine: another container's processes cannot be seen.
    found = _made_since(since, _SHM, f"sm_segment.{os.uname().nodename}.", *_UNNAMED)
    for pid in os.listdir("/proc") if found else ():
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd") if pid.isdigit() else ():
                with contextlib.suppress(OSError):
                    found.discard(os.readlink(f"/proc/{pid}/fd/{number}"))
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                found.difference_update(line[line.find("/") :].rstrip("\n") for line in file)
    return found


def _topologies(since: float) -> set[str]:
    """Return files of the machine's topology that Hydra's proxies have made since then, and left.

    A proxy that is killed cannot remove its file, and nothing but the proxy knows the name. So
    there must be no other proxy on this node.
    """
    found = _made_since(since, _TMP, "hydra_hwloc_xmlfile_")
    return set() if found and _daemons(_PROXY) else found


def _sessions(since: float, folder: str) -> set[str]:
    """Return folders of Open MPI's daemons, by process id, which have ended and left them."""
    found = {path: path.rpartition(".")[2] for path in _made_since(since, folder, "prted.")}
    return {path for path, pid in found.items() if pid.isdigit() and not processes.lives(int(pid))}


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().rstrip(b"\0").split(b"\0")
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


def main(like: Sequence[str] = ()) -> None:
    """Run the starter for the spec on standard input; return at its end.

    Args:
        like: the beginning of an argument vector that a fork of this process can run without a
            start: Python, with options or a module that this process has been started with itself.
    """
    gc.freeze()  # the modules: no garbage, so not to be looked through
    processes.become_subreaper()
    _Starter(like).run()


if __name__ == "__main__":
    main()
