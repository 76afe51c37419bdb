"""Start processes below this one, find them, and end them without leftovers.

Process groups and sessions do not find all of them, because launchers give every proc a session of
its own. So this process becomes the *subreaper* of its descendants: orphans become its children
instead of init's. A walk through /proc from this process downwards then finds every descendant.
:func:`end` sends TERM, and KILL after a grace, and walks again until nothing is left.

Linux and the standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from impi.base.remote.patience import Patience

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_STAT = 1 << 12  # more octets than /proc/PID/stat has
_LOADS = "/proc/loadavg"  # its last field is the newest process id
_SURE = 8  # of this many looks in a row, at least one reads the list of all processes
_STILL_S = 1.5
_ENDED = (b"Z", b"X")  # states of processes that have ended and are not reaped
_LATE_S = 2.0  # TERM comes at least this long before KILL, or after half the grace
# A process that survives KILL is stuck in the kernel, or another user's
_GIVE_UP_S = 5.0
MORE_PROCESSES = (
    "'ulimit -u' shows how many processes and threads this user may have: raise that"
)
_LIBC = ctypes.CDLL(None, use_errno=True)
# Read before impi sets a handler: under nohup SIGHUP is ignored, and programs must inherit that.
_HANGUP = (
    signal.SIG_IGN
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    else signal.SIG_DFL
)


def become_subreaper() -> None:
    """Let orphaned descendants of this process become its children."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_with_parent() -> None:
    """Let the kernel kill this process as soon as its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def why_not_started(error: Exception) -> str:
    """Return why a process could not be started, and the cure at a user's limit of processes."""
    # The kernel's EAGAIN says "Resource temporarily unavailable", and does not name the resource.
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        return f"no more processes: {MORE_PROCESSES}"

    return getattr(error, "strerror", None) or str(error)


def fork(streams: Sequence[int], work: Callable[[], object], title: bytes = b"") -> int:
    """Run ``work`` in a fork that has the signals, session and descriptors of a fresh Python.

    Args:
        streams: descriptors that become 0, 1, 2 and so on there; all others are closed.
        work: the function. Its result, or the code of its ``SystemExit``, is the exit status.
        title: name of the process in ``ps``; empty: no change.

    Returns:
        The process id. Close your ends of ``streams``.
    """

    pid = os.fork()
    # Two processes go on from here: the parent returns, the child never does.
    if pid:
        return pid

    # Until the work has ended there is no success.
    status = 1
    try:
        _settle(streams, title)
        status = _status(work())
    except SystemExit as end:
        status = _status(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                # The work may have replaced the streams
                with contextlib.suppress(Exception):
                    stream.flush()
        finally:
            # In every case: returning would run the parent's code a second time, and exit
            # functions of the parent, too.
            os._exit(status)


def _settle(streams: Sequence[int], title: bytes) -> None:
    signal.set_wakeup_fd(-1)
    # Handlers of the parent are Python functions of its loop, and mean nothing here. Ignored
    # signals stay ignored, as over an exec.
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):  # a handler of the parent
            signal.signal(number, signal.SIG_DFL)

    signal.signal(signal.SIGHUP, _HANGUP)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    # A session of its own, as every program gets: a signal for the group of the parent stops here.
    os.setsid()
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)

    # /proc lists the open descriptors only: the limit of descriptors may be millions.
    for held in map(int, os.listdir("/proc/self/fd")):
        if held >= max(3, len(streams)):
            with contextlib.suppress(OSError):
                os.close(held)

    if title:
        with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:
            file.write(title)


def _status(result: object) -> int:
    if result is None or isinstance(result, int):
        return (result or 0) & 0xFF

    print(result, file=sys.stderr)
    return 1


def spawn(
    argv: Sequence[str],
    streams: Sequence[int | None],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    tied: bool = False,
) -> int:
    """Start a program in a session of its own.

    Args:
        argv: the program and its arguments.
        streams: standard input, output and error; None: the caller's.
        env: all variables; None: the caller's.
        cwd: the working folder; None: the caller's.
        tied: whether the kernel kills the program when the caller ends. That needs a full fork.

    Returns:
        The process id, for you to wait for.

    Raises:
        OSError: there is no such program or folder.
    """

    stdin, stdout, stderr = streams
    process = subprocess.Popen(
        argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=kill_with_parent if tied else None,  # noqa: PLW1509  (one thread)
    )
    # So that Popen does not take the status, which is the caller's
    process.returncode = 0

    return process.pid


class Groups(dict[int, int]):
    """Process groups by process id, and the stopped processes among them."""

    def __init__(self, groups: Mapping[int, int], stopped: set[int]) -> None:
        super().__init__(groups)
        # Stopped by a signal (state T); under a debugger the state is t
        self.stopped = stopped


def _fields(pid: int | str) -> list[bytes]:
    """Return the fields of a process or thread from its state on (proc(5)); empty: it is gone."""
    # A process's name is chosen by its user, with spaces and parentheses.
    return _octets_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _octets_of(path: str) -> bytes:
    """Return the octets of a small file of the kernel; empty: it cannot be read."""
    # Octets, because names of processes have any encoding. By bare system calls: open() makes seven
    # more, and these files are read often.
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""

    try:
        return os.read(file, _STAT)
    except OSError:
        return b""
    finally:
        os.close(file)


def name(pid: int) -> bytes:
    """Return the name of a process, at most 15 octets of any encoding; empty: it has ended."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().removesuffix(b"\n")
    except OSError:
        return b""


def parent(pid: int) -> int:
    """Return the process id of a process's parent; 0: there is none, or the process has ended."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def lives(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not reaped does not."""
    return bool(fields := _fields(pid)) and fields[0] not in _ENDED


def wants_processor(pid: int) -> bool:
    """Return whether a thread of a process runs or waits for a processor (state R)."""
    with contextlib.suppress(OSError):
        # Each thread has a state of its own. The state of the process is that of its first thread,
        # which may sleep.
        for thread in os.listdir(f"/proc/{pid}/task"):
            if _fields(f"{pid}/task/{thread}")[:1] == [b"R"]:
                return True

    return False


class Standstill:
    """Tells whether a process of this machine stands still, or is only late.

    A sleeping process may be late, too: it may wait for a process that waits for a processor. But a
    late process runs for a moment now and then, and a stopped process does not.

    Args:
        pid: of the process, which runs at least every half second if it can.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._turns, self._since = -1, 0.0

    def seen(self) -> bool:
        """Return whether it is stopped, or has not run for some time; call it several times."""
        if wants_processor(self._pid):
            return False

        if _fields(self._pid)[:1] in ([b"T"], [b"t"]):
            return True

        now, turns = time.monotonic(), _turns(self._pid)
        if turns != self._turns:
            self._turns, self._since = turns, now

        return now - self._since > _STILL_S


def _turns(pid: int) -> int:
    """Return how often a process has got a processor, as far as its first thread tells."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return sum(
                int(line.split()[1]) for line in file if b"ctxt_switches" in line
            )
    except (OSError, ValueError, IndexError):
        return 0


def began(pid: int) -> float:
    """Return the time when a process began, in seconds since the epoch; infinity: it is gone."""
    fields = _fields(pid)
    if not fields:
        return math.inf

    return (
        time.time()
        - time.clock_gettime(time.CLOCK_BOOTTIME)
        + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    )


def everybody() -> list[int]:
    """Return all process ids of this machine or container; some may have ended already."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def descendants(more: Iterable[int] = (), under: Iterable[int] = ()) -> Groups:
    """Return the living processes below this one with their groups, without zombies.

    Args:
        more: further processes to include.
        under: further processes to include, with those below them.
    """
    return _groups_below(_read(everybody()), more, under)


class Family:
    """Finds the processes below this one again and again, at a low cost on a busy machine.

    A look reads the state of each process below this one. For all other processes it reads the
    parent once: they never come to be below this one, so they are skipped from then on. A new
    process with the number of an ended one has another inode in /proc.

    Where no process of the machine has begun since the last look, even the list of all is skipped.
    Some containers show the newest process id with a delay, so one look in eight reads the list.
    """

    def __init__(self) -> None:
        # Inodes in /proc of processes that are not below this one
        self._others: dict[int, int] = {}
        self._own: set[int] = set()
        self._newest = b""
        self._looks = 0

    def look(self, more: Iterable[int] = ()) -> Groups:
        """Return the same as :func:`descendants`."""

        # Asked before the list is read: who begins in between is found by the next look.
        before, self._newest = self._newest, _newest()
        self._looks += 1
        if self._newest and self._newest == before and self._looks % _SURE:
            return _groups_below(_read({*more, *self._own}), more, ())

        return self._look_at_all(list(more))

    def _look_at_all(self, more: Sequence[int]) -> Groups:
        with os.scandir("/proc") as folder:
            here = {
                int(entry.name): entry.inode()
                for entry in folder
                if entry.name.isdecimal()
            }

        # The inode tells a new process from an ended one whose number it has got.
        self._others = {
            pid: inode for pid, inode in self._others.items() if here.get(pid) == inode
        }
        # On a busy machine most processes are not below this one. They are not read again, so a
        # second look is cheap.
        read = _read({*more, *(here.keys() - self._others.keys())})
        # A process is noted in _others only if its line of parents leads to one of the roots below.
        # If a parent has ended in between, the next look decides.
        own, children = os.getpid(), _children(read)
        children.pop(own, None)

        roots = [pid for pid in children if pid == 0 or pid in self._others]
        for pid in _all_below(children, roots):
            if pid in here and pid != own:
                self._others[pid] = here[pid]

        self._own = here.keys() - self._others.keys()

        return _groups_below(read, more, ())


def _newest() -> bytes:
    """Return the id of the process or thread that has begun last; empty: it is not known."""
    return b"".join(_octets_of(_LOADS).split()[-1:])


def _read(pids: Iterable[int]) -> dict[int, list[bytes]]:
    """Return the fields of those processes that exist."""
    return {pid: fields for pid in pids if (fields := _fields(pid))}


def _children(read: Mapping[int, Sequence[bytes]]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (_, parent, *_) in read.items():
        children.setdefault(int(parent), []).append(pid)

    return children


def _all_below(
    children: Mapping[int, Iterable[int]], roots: Iterable[int]
) -> list[int]:
    found: list[int] = []

    todo = list(roots)
    while todo:
        below = children.get(todo.pop(), ())
        found += below
        todo += below

    return found


def _groups_below(
    read: Mapping[int, Sequence[bytes]], more: Iterable[int], under: Iterable[int]
) -> Groups:
    found = [*more, *under, *_all_below(_children(read), [os.getpid(), *under])]
    # Listed before they were read, so some have ended since; zombies hold nothing but a status.
    living = [pid for pid in found if pid in read and read[pid][0] not in _ENDED]
    stopped = {pid for pid in living if read[pid][0] == b"T"}

    return Groups({pid: int(read[pid][2]) for pid in living}, stopped)


def write(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` to a pipe or a file; OSError: its reader is gone."""
    view = memoryview(data)
    while view:
        # A signal may interrupt a write in the middle, when part of it has gone.
        view = view[os.write(descriptor, view) :]


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to those of ``pids`` that exist."""
    for pid in pids:
        # Ended in between, or changed to another user (setuid): neither can be helped from here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def wait_for_none(seconds: float, turn: Callable[[float], object]) -> dict[int, int]:
    """Wait until no process is left below this one; return the processes that are still left.

    Args:
        seconds: longest wait on an idle machine; it stretches on a busy one.
        turn: as for :func:`end`.
    """
    patience = Patience(seconds, 1)
    while (alive := descendants()) and not patience.ended():
        turn(_POLL_S)

    return alive


def end(
    first: Iterable[int],
    grace_s: float,
    turn: Callable[[float], object],
    asked: Iterable[int] = (),
) -> list[int]:
    """End every process below this one.

    Two steps: TERM, once to each, and KILL after ``grace_s`` until no process is left. TERM waits
    until ``first`` have ended, or until little of the grace is left. Processes such as mpiexec ask
    their children to end themselves, and a second TERM may end a program that saves its state.

    Args:
        first: processes that were asked to end and that end their own children, such as mpiexec.
        grace_s: seconds from now to KILL.
        turn: called again and again with a number of seconds to wait. It must take the statuses of
            children and read their pipes.
        asked: processes that have had TERM already.

    Returns:
        The ids of processes that had to be killed.
    """

    begin = time.monotonic()
    # Processes that `first` have not ended by then get TERM from here, with time to act on it.
    all_at = begin + grace_s - min(_LATE_S, grace_s / 2)
    asking, told = set(first), set(asked)
    alive = descendants()

    # A group may outlive the processes that a walk has seen: a member may fork and end between two
    # walks, and its child stays in the group.
    groups = set(alive.values())
    while alive and time.monotonic() < begin + grace_s:
        if asking.isdisjoint(alive) or time.monotonic() > all_at:
            send(alive.keys() - told, signal.SIGTERM)
            told.update(alive)

        # A stopped process gets no TERM
        send(alive.stopped & (told | asking), signal.SIGCONT)
        turn(_POLL_S)
        alive = descendants()

    stubborn = list(alive)

    give_up = time.monotonic() + _GIVE_UP_S
    # Again and again: a process may fork between the walk and the signal.
    while alive or groups:
        groups = _kill_groups(groups | set(alive.values()))

        send(alive, signal.SIGKILL)
        # Processes that KILL has not ended by now will not end. The program that asked for this end
        # waits for the starter's last line.
        if time.monotonic() > give_up:
            break

        turn(_POLL_S if alive or groups else 0)
        alive = descendants()

    return stubborn


def _kill_groups(groups: set[int]) -> set[int]:
    """Kill whole process groups, since a fork bomb outruns any walk through /proc.

    The kernel signals all members of a group at once.

    Returns:
        Groups that still existed. A group vanishes when the status of its last member is taken.
    """
    there = set()
    # Never kill the group of this process, nor group 0, which means the same group. And killpg(1)
    # is kill(-1): every process.
    for group in groups - {os.getpgrp(), 0, 1}:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass

        there.add(group)

    return there
