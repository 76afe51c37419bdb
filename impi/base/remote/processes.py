"""Processes below this one: start them, find them, end them without leftovers.

Process groups and sessions are not enough: launchers give every proc its own session. So this
process becomes the *subreaper* of its descendants: orphans stay in the tree below it, and a walk
through /proc finds them. Linux and the standard library only: this file is sent to nodes
(:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import contextlib
import ctypes
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
_STAT = 1 << 12  # more than the octets of /proc/PID/stat
_ENDED = (b"Z", b"X")  # states of processes that are not reaped
_LATE_S = 2.0
_GIVE_UP_S = 5.0  # survives KILL: stuck in the kernel, or another user's
_LIBC = ctypes.CDLL(None, use_errno=True)
# Asked before anything of ours handles it: nohup ignores it, and programs inherit that.
_HANGUP = signal.SIG_IGN if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else signal.SIG_DFL


def become_subreaper() -> None:
    """Make orphans of this process tree children of this process."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def fork(streams: Sequence[int], work: Callable[[], object], title: bytes = b"") -> int:
    """Run ``work`` in a fork with the signals, session and descriptors of a fresh Python.

    Args:
        streams: descriptors that become standard input, output and error, and further ones; as many
            as there are.
        work: its result, or that of a ``SystemExit``, is the exit status.
        title: name of the command in ``ps``; empty: no change.

    Returns:
        The process id. The caller closes its ends of ``streams``.
    """
    pid = os.fork()
    if pid:
        return pid
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
                with contextlib.suppress(Exception):  # the work may have put anything there
                    stream.flush()
        finally:
            os._exit(status)  # whatever happens: the caller's frames are not ours


def _settle(streams: Sequence[int], title: bytes) -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):  # a handler of the caller
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, _HANGUP)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    # Open ones only: the limit of descriptors may be millions.
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
        cwd: the folder; None: the caller's.
        tied: whether the kernel kills it when the caller ends.

    Returns:
        The process id; the caller waits for it.

    Raises:
        OSError: no such program or folder.
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
    process.returncode = 0  # the caller waits, by the process id
    return process.pid


class Groups(dict[int, int]):
    """The process group of each process."""

    def __init__(self, groups: Mapping[int, int], stopped: set[int]) -> None:
        super().__init__(groups)
        self.stopped = stopped  # those that a signal has stopped (state T; under a debugger it is t)


def _fields(pid: int | str) -> list[bytes]:
    """Return state, parent, group and so on of a process or thread (proc(5)); empty: it is gone."""
    # Octets: any user may name a process as he likes, in any encoding, with spaces and parentheses.
    # By bare calls: open() makes seven more of them, and looks read these files all the time.
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return []
    try:
        return os.read(file, _STAT).rpartition(b")")[2].split()
    except OSError:
        return []
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
    """Whether a process has not ended; one that has may not be reaped yet."""
    return bool(fields := _fields(pid)) and fields[0] not in _ENDED


def wants_processor(pid: int) -> bool:
    """Whether a thread of a process runs, or would if a processor were free (state R)."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            if _fields(f"{pid}/task/{thread}")[:1] == [b"R"]:
                return True
    return False


def began(pid: int) -> float:
    """Return when a process began, in seconds since the epoch; infinity: it has ended."""
    fields = _fields(pid)
    if not fields:
        return math.inf
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def everybody() -> list[int]:
    """Return the process ids of this machine, or of this container; some may have ended."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def descendants(more: Iterable[int] = (), under: Iterable[int] = ()) -> Groups:
    """Return living processes below this one, and ``more``, with their groups; no zombies.

    ``under``: more processes of which those below are wanted, too.
    """
    return _below(_read(everybody()), more, under)


class Family:
    """The processes below this one, look after look.

    A look reads of each process below this one how it is. Of others it reads once who their parents
    are: none ever comes to be below. One that gets the number of an ended one has another inode in
    /proc.
    """

    def __init__(self) -> None:
        self._others: dict[int, int] = {}  # inodes of processes elsewhere

    def look(self, more: Iterable[int] = ()) -> Groups:
        """Return what :func:`descendants` returns."""
        with os.scandir("/proc") as folder:
            here = {int(entry.name): entry.inode() for entry in folder if entry.name.isdecimal()}
        self._others = {pid: inode for pid, inode in self._others.items() if here.get(pid) == inode}
        more = list(more)
        read = _read({*more, *(here.keys() - self._others.keys())})
        # From the roots down: where a parent has ended meanwhile, the next look tells.
        own, children = os.getpid(), _children(read)
        children.pop(own, None)
        roots = [pid for pid in children if pid == 0 or pid in self._others]
        for pid in _all_below(children, roots):
            if pid in here and pid != own:
                self._others[pid] = here[pid]
        return _below(read, more, ())


def _read(pids: Iterable[int]) -> dict[int, list[bytes]]:
    """Return what :func:`_fields` tells of those that exist."""
    return {pid: fields for pid in pids if (fields := _fields(pid))}


def _children(read: Mapping[int, Sequence[bytes]]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (_, parent, *_) in read.items():
        children.setdefault(int(parent), []).append(pid)
    return children


def _all_below(children: Mapping[int, Iterable[int]], roots: Iterable[int]) -> list[int]:
    found: list[int] = []
    todo = list(roots)
    while todo:
        below = children.get(todo.pop(), ())
        found += below
        todo += below
    return found


def _below(read: Mapping[int, Sequence[bytes]], more: Iterable[int], under: Iterable[int]) -> Groups:
    found = [*more, *under, *_all_below(_children(read), [os.getpid(), *under])]
    living = [pid for pid in found if pid in read and read[pid][0] not in _ENDED]
    stopped = {pid for pid in living if read[pid][0] == b"T"}
    return Groups({pid: int(read[pid][2]) for pid in living}, stopped)


def write(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` to a pipe or a file; OSError: nobody reads it any more."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to all of ``pids`` that exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def wait_for_none(seconds: float, turn: Callable[[float], object]) -> dict[int, int]:
    """Wait until nothing lives below this process; return the descendants.

    Args:
        seconds: at most, on a machine that is idle otherwise; a busy one gets longer.
        turn: as for :func:`end`.
    """
    patience = Patience(seconds, 1)
    while (alive := descendants()) and not patience.ended():
        turn(_POLL_S)
    return alive


def end(first: Iterable[int], grace_s: float, turn: Callable[[float], object], asked: Iterable[int] = ()) -> list[int]:
    """End everything below this process.

    Two steps: TERM, once to each, and KILL to what is left after ``grace_s``, until there is
    nothing. TERM comes once ``first`` have ended, or late: what these end themselves they have
    asked already, and a second TERM may end a program that saves its state.

    Args:
        first: processes that were asked to end and that end their own children: mpiexec.
        grace_s: seconds from now to KILL.
        turn: is called again and again with a number of seconds to spend: it takes the statuses of
            children and reads their pipes.
        asked: processes that have got TERM.

    Returns:
        The ids of processes that had to be killed.
    """
    begin = time.monotonic()
    all_at = begin + grace_s - min(_LATE_S, grace_s / 2)
    asking, told = set(first), set(asked)
    alive = descendants()
    groups = set(alive.values())
    while alive and time.monotonic() < begin + grace_s:
        if asking.isdisjoint(alive) or time.monotonic() > all_at:
            send(alive.keys() - told, signal.SIGTERM)
            told.update(alive)
        send(alive.stopped & (told | asking), signal.SIGCONT)  # or TERM would wait
        turn(_POLL_S)
        alive = descendants()
    stubborn = list(alive)
    give_up = time.monotonic() + _GIVE_UP_S
    # Repeatedly: a process may fork between the walk and the signal.
    while alive or groups:
        groups = _kill_groups(groups | set(alive.values()))
        send(alive, signal.SIGKILL)
        if time.monotonic() > give_up:
            break
        turn(_POLL_S if alive or groups else 0)
        alive = descendants()
    return stubborn


def _kill_groups(groups: set[int]) -> set[int]:
    """Kill process groups that fork faster than a walk through /proc; the kernel ends them at once.

    Returns:
        Groups that still existed. A group vanishes when the status of its last member is taken.
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
