"""The starters of impirun: their processes' output, and their ends.

One starter (:mod:`impi.base.remote.starter`) runs on every node with processes of this client. Its
orders and reports are lines of JSON in pipes; for another node ssh or srun carries the pipes.
:class:`Children` prints the output of processes, and notes their exit statuses. It also notes what
a starter sees from outside: stopped processes and cut connections. It decides nothing: the owner's
loop reads its attributes after each turn.

No process outlives impirun, by two means. A starter ends everything below it when its pipe closes,
which the kernel does even if impirun is killed. And impirun is a subreaper itself: processes of a
starter that was killed become its children.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from impi.base.errors import LaunchError
from impi.base.records import record
from impi.base.remote import processes, starter
from impi.base.remote.remains import Guests, Remains
from impi.base.remote.starter_lines import (
    STREAMS,
    Order,
    Report,
    Spec,
    Stream,
    pack,
    unpack,
)
from impi.launch.client import between
from impi.launch.labels import Labels
from impi.launch.pulse import is_silent, silence, silent_in_s
from impi.launch.standard_input import Source
from impi.launch.start import warm
from impi.launch.start.program import Command
from impi.protocol.options import GRACE_S
from impi.rank.vendors.dial import show_endpoint

_CHUNK: Final = 1 << 16
# More than a starter needs after the grace if its processes ignore TERM
SLACK_S: Final = 4.0
# The shortest limit of silence before a starter's first report, as for ssh (SSH_OPTIONS): a login
# and the start of Python on a crowded node take longer than a late beat.
_FIRST_S: Final = 60.0
_LINE: Final = 1 << 14  # longest part of an unfinished line that is held back
# The command of a client that the server starts: a fork of the starter runs it, with the modules
# that are loaded already.
_IMPIRUN: Final = (sys.executable, "-m", "impi.cli.impirun")
_SSH_FAILED: Final = 255  # ssh's own exit code; a remote command can have it, too
_DESCRIPTORS: Final[dict[Stream, int]] = {"stdout": 1, "stderr": 2}


class Exit:
    """The end of one process, in words by ``str``.

    Args:
        title: name of the process for the user.
        status: its exit code, or minus the number of the signal that ended it.
        serves: whether it served procs, such as a host agent.
    """

    def __init__(self, title: str, status: int, *, serves: bool = False) -> None:
        self.title = title
        self.status = status
        self.serves = serves

    def __str__(self) -> str:
        if self.status >= 0:
            return f"{self.title} ended with exit code {self.status}"

        with contextlib.suppress(ValueError):
            return f"{self.title} was ended by {signal.Signals(-self.status).name}"

        return f"{self.title} was ended by signal {-self.status}"


@record
class Stopped:
    """A process that a signal such as SIGSTOP has stopped."""

    pid: int
    title: str  # its name for the user; empty: no starter has started it itself
    line: str  # its command line

    def told(self, seconds: float, rank: str = "") -> str:
        program = (
            self.line.partition(" ")[0].rpartition("/")[2] or "a process of this client"
        )
        return f"{self.title or rank or program} (process {self.pid}) has been stopped for {seconds:g} s"


@record
class Cut:
    """A connection whose peer acknowledges nothing any more: address and port of both ends."""

    own: tuple[str, int]
    other: tuple[str, int]

    def told(self, seconds: float, hosts: Mapping[tuple[str, int], str]) -> str:
        elsewhere = (name for end, name in hosts.items() if end[0] == self.other[0])
        far = hosts.get(self.other) or next(elsewhere, "?")
        own, other = show_endpoint(*self.own), show_endpoint(*self.other)

        return f"the connection of {own} with {other}, {far}, has been cut for {seconds:g} s"


@record
class _Times:
    """Limits in seconds: of silence, and from TERM to KILL."""

    silence_s: float
    grace_s: float


def _starter() -> None:
    starter.main(_IMPIRUN, warm.forkable)


def exit_code(status: int) -> int:
    """Return a status as a shell shows it: the exit code, or 128 + N for signal N."""
    return status if status >= 0 else 128 - status


def _emit(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # a closed stdout must not end the job
        processes.write(descriptor, data)


class _Hearing:
    """The last signs of life of a starter.

    Args:
        pid: of the starter, or of the process that stands for it here, such as ssh.
        output: the pipe that it writes into.
        here: whether it runs on this machine, as ``pid``.
    """

    def __init__(self, pid: int, output: int, *, here: bool) -> None:
        self._pid, self._output = pid, output
        self._standstill = processes.Standstill(pid) if here else None
        self.at = time.monotonic()
        self.asked_at = 0.0
        self.reports = False
        """Whether it has made its first report."""

    def limit_s(self, silence_s: float) -> float:
        """Return how long it may be silent; 0: for ever."""
        return silence_s if self.reports or not silence_s else max(silence_s, _FIRST_S)

    def is_over(self, limit_s: float) -> bool:
        """Return whether it was silent for longer, and not only because it is late."""
        if not is_silent(self._output, self.at, limit_s):
            return False

        # A starter, or its ssh, that waits for a processor is not lost: where 200 threads share two
        # processors it may say nothing for 10 s. Nor is one here that still runs: perhaps this
        # impirun was late, and has asked it nothing.
        if self._standstill is None:
            return not processes.wants_processor(self._pid)

        return self._standstill.seen()


class _Starter:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.waiting = set(command.titles)
        self.printed_at = 0.0  # time of the last output
        self.pids: dict[int, int] = {}
        self.began = time.time()
        self._telling = threading.Lock()
        self.status: int | None = None
        self._received = b""
        # Unfinished lines, which would mix with other procs' lines
        self._held: dict[tuple[int, str], bytes] = {}
        theirs_in, self._to = os.pipe()
        self.output, theirs_out = os.pipe()

        # The owner's loop must never wait for one starter.
        os.set_blocking(self.output, False)
        try:
            # A new Python takes longer than everything else before the procs begin. But a fork of a
            # process with threads may deadlock, on a lock that one of them held.
            if command.task is not None:
                self.pid = between.start(command.task, theirs_in, theirs_out)
            elif command.here and threading.active_count() == 1:
                self.pid = processes.fork(
                    (theirs_in, theirs_out), _starter, b"impi-starter"
                )
            else:
                # In a session of its own: the terminal's Ctrl-C must reach impirun alone, which
                # ends the job in order.
                self.pid = processes.spawn(command.argv, (theirs_in, theirs_out, None))
        except OSError as error:
            self.hang_up()
            os.close(self.output)
            raise LaunchError(
                f"cannot start {command.name} by {command.argv[0]}: "
                + processes.why_not_started(error)
            ) from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

        self.hearing = _Hearing(self.pid, self.output, here=command.here)

    def tell(self, line: Spec | Order) -> None:
        data = json.dumps(line).encode() + b"\n"
        # Beats come from a thread, so lines could mix without the lock.
        # It has ended: its pidfd says so
        with self._telling, contextlib.suppress(OSError):
            if self._to >= 0:
                processes.write(self._to, data)

    def hang_up(self) -> None:
        """Close the pipe to the starter, which then ends its processes, on any node."""
        with self._telling:
            if self._to >= 0:
                os.close(self._to)
                self._to = -1

    def read(self) -> list[bytes] | None:
        """Return the lines that have come; None: nothing for now.

        Raises:
            EOFError: the starter has ended.
        """

        try:
            # One read for each call: a starter whose procs print without end
            # must leave turns to the others.
            data = os.read(self.output, _CHUNK)
        except BlockingIOError:
            return None

        if not data:
            raise EOFError

        self.hearing.at = time.monotonic()
        *lines, self._received = (self._received + data).split(b"\n")

        return lines

    def whole(self, number: int, name: Stream, data: bytes) -> bytes:
        """Return the octets of a stream to print after ``data``; without data, the rest.

        Whole lines only, so that lines of several procs do not mix; a very long one in pieces.
        """

        text = self._held.pop((number, name), b"") + data

        end = text.rfind(b"\n") + 1
        # A program may print without any newline, so the rest is bounded. At the end of
        # a stream nothing is held back.
        if not data or (not end and len(text) >= _LINE):
            end = len(text)

        self._held[number, name] = text[end:]

        return text[:end]


class Children:
    """Runs starters and leaves no process of theirs behind.

    Args:
        commands: one for each starter.
        selector: gets the pipes; call the data of a ready key in your loop.
        source: standard input for the process that takes it; None: no process does.
        labels: labels for lines of output; None: none.
        grace_s: seconds from TERM to KILL for the processes.
        silence_s: seconds after which a silent starter, a stopped process or a cut link is lost;
            0: never. Call :meth:`beat` and :meth:`check_silence` every two seconds.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        selector: selectors.BaseSelector,
        source: Source | None = None,
        silence_s: float = 0.0,
        labels: Labels | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._selector, self._times = (
            selector,
            _Times(silence_s=silence_s, grace_s=grace_s),
        )
        self._source, self._labels, self._commands = source, labels, commands
        self._starters: list[_Starter] = []
        self.failure: Exit | None = None
        # Exit status of each process that has ended, by its number
        self.statuses: dict[int, int] = {}
        # Ends of procs by rank, for the owner to judge, if each proc is a starter's own process and
        # the job is resilient. None: an end with a code other than 0 is a failure.
        self.forgiven: dict[int, Exit] | None = None
        # Ranks of procs that have ended with 0, if each proc is a starter's own process.
        self.ended_ranks: set[int] = set()
        # Discards output: an mpiexec that is killed prints long messages
        self.quiet = False
        self.error = ""
        # A sentence about the loss of a starter, without the phase of the job
        self.lost = ""
        self.stopped: Stopped | None = None
        self.cut: Cut | None = None

    def start(self) -> None:
        """Start all starters, in order.

        Raises:
            LaunchError: a starter failed; :meth:`end` ends the others.
        """
        # Before the first starter: a process that is an orphan already does not come here.
        processes.become_subreaper()
        for command in self._commands:
            self._start(command)

    @property
    def running(self) -> bool:
        return any(
            one.status is None for one in self._starters if not one.command.lasts
        )

    @property
    def procs_running(self) -> bool:
        """Whether a starter runs that has procs, and not only host agents or a watch."""
        return any(
            one.status is None for one in self._starters if not one.command.serves
        )

    def initialised(self) -> None:
        for one in self._starters:
            one.tell({"do": "note"})

    def pass_on(self, number: int, *, watched: bool = False) -> None:
        """Send a signal to the starters' processes, or to procs.

        Args:
            number: the signal.
            watched: send it to the procs that :meth:`watch` has named, on all nodes, and not to
                mpiexec: that passes on some signals only, and is ended by others.
        """
        own = [
            one
            for one in self._starters
            if not one.command.serves and not one.command.lasts
        ]
        if watched:
            # One starter for each node, or procs would get the signal twice: on this node one has
            # an agent and another one mpiexec.
            own = [
                *[one for one in own if one.command.here][:1],
                *[one for one in self._starters if not one.command.here],
            ]

        for one in own:
            one.tell({"do": "signal", "signal": number, "watched": watched})

    def watch(self, ends: Sequence[tuple[str, int]], procs: Iterable[object]) -> None:
        """Tell the starters which connections and processes to watch besides their own.

        Args:
            ends: address and port where each host of the job listens.
            procs: node and process id of procs that an mpiexec has started, maybe elsewhere.
        """
        placed = [proc for proc in procs if isinstance(proc, tuple)]
        for one in self._starters:
            one.tell({"do": "watch", "ends": list(ends), "procs": placed})

    def dismiss(self, turn: Callable[[float], object]) -> None:
        """End the starters whose processes never end by themselves, which are the watches.

        Args:
            turn: runs the owner's loop for some seconds.
        """

        # After a success these alone are left. The end of their pipe ends
        # them as it would after a crash.
        lasting = [one for one in self._starters if one.command.lasts]
        for one in lasting:
            one.hang_up()

        give_up = time.monotonic() + self._times.grace_s + SLACK_S
        while any(one.status is None for one in lasting) and time.monotonic() < give_up:
            turn(give_up - time.monotonic())

    def retire(self, silence_s: float) -> str:
        """End all processes that still run except host agents, and do not count it as a failure.

        Args:
            silence_s: spare those that have printed within this time: they may go on.

        Returns:
            The names of the processes.
        """

        # Three kinds stay: agents, which end with the job; watches; and processes that still print.
        quiet_since = time.monotonic() - silence_s
        left = [one for one in self._starters if one.status is None and one.waiting]
        left = [one for one in left if not one.command.serves and not one.command.lasts]

        left = [one for one in left if one.printed_at <= quiet_since]
        for one in left:
            # An exit of a process that no client waits for is taken for 0: see _note_exit().
            one.waiting.clear()
            one.hang_up()

        return ", ".join(title for one in left for title in one.command.titles.values())

    def beat(self) -> None:
        """Send the starters a heartbeat; you may call this in any thread."""
        for one in self._starters if self._times.silence_s else ():
            one.tell({"do": "beat"})

    def ask(self) -> None:
        """Ask the starters of other nodes for an answer; see :meth:`unanswered`."""
        for one in self._starters:
            # A starter here ends with this machine, and then no starter is left to ask.
            if one.status is None and not one.command.here:
                one.hearing.asked_at = time.monotonic()
                one.tell({"do": "beat"})

    @property
    def unanswered(self) -> str:
        """The name of the first starter that was asked and has not answered; empty: none."""
        silent = (
            one.command.name
            for one in self._starters
            if one.status is None and one.hearing.at < one.hearing.asked_at
        )
        return next(silent, "")

    def check_silence(self) -> float:
        """Note a starter that is lost; return the seconds until there may be one."""
        soonest = math.inf
        for one in self._starters:
            limit_s = one.hearing.limit_s(self._times.silence_s)
            if one.status is None and one.hearing.is_over(limit_s):
                self.lost = self.lost or f"{one.command.name} {silence(limit_s)}"
            if one.status is None:
                soonest = min(soonest, silent_in_s(one.hearing.at, limit_s))

        return soonest

    def end(self, turn: Callable[[float], object]) -> None:
        """End all starters and every process below; ``turn`` runs the owner's loop for a time."""

        for one in self._starters:
            one.hang_up()

        # Each starter ends its own processes and gives them their grace. KILL from here comes
        # only to what is left after that.
        first = [one.pid for one in self._starters if one.status is None]

        def turn_and_reap(seconds: float) -> None:
            turn(seconds)
            self._reap(-1)

        processes.end(first, self._times.grace_s + SLACK_S, turn_and_reap)
        for one in self._starters:
            if one.command.here and one.status is not None and one.status < 0:
                # A starter removes what killed ranks leave, in /dev/shm for instance. This one was
                # killed itself.
                leaves = one.command.spec["leaves"]
                Remains(leaves, Guests(leaves, one.began)).sweep(one.pids, failed=True)

    def close(self) -> None:
        """Print the rest of the output and close the pipes, after :meth:`end`."""
        for one in self._starters:
            one.hang_up()
            self._print_rest(one)
            os.close(one.output)

    # ---- one starter

    def _start(self, command: Command) -> None:
        one = _Starter(command)
        self._starters.append(one)
        # The end of a process as a descriptor. The end of its pipe would not do: a child that it
        # leaves behind may hold the pipe open.
        ended = os.pidfd_open(one.pid)
        self._selector.register(
            ended, selectors.EVENT_READ, lambda: self._drop_channel(one, ended)
        )
        self._selector.register(
            one.output, selectors.EVENT_READ, lambda: self._read(one)
        )
        one.tell(
            {
                **command.spec,
                "silence_s": self._times.silence_s or None,
                "grace_s": self._times.grace_s,
            }
        )

    def _feed(self, one: _Starter) -> None:
        if self._source is not None:
            self._source.ask(lambda data: one.tell({"do": "feed", "data": pack(data)}))

    def _read(self, one: _Starter) -> bool:
        """Handle the reports of a starter that have come; return whether to call this again."""
        try:
            lines = one.read()
        except EOFError:
            with contextlib.suppress(KeyError):
                self._selector.unregister(one.output)

            return False

        for line in lines or ():
            self._report(one, line)

        return lines is not None

    def _report(self, one: _Starter, line: bytes) -> None:
        try:
            value = json.loads(line)
        except ValueError:
            value = None

        if not isinstance(value, dict):
            _emit(1, line + b"\n")  # output of the other node's login script
            return

        # The parts of a report in the order of causes: output before the exit that follows it, and
        # a loss before the exit that it explains.
        report = cast(Report, value)

        # From the first report on, the short limit of silence holds.
        one.hearing.reports = True
        if "pid" in report:
            one.pids[report["pid"]] = report["number"]

        for stream in STREAMS:
            if stream in report:
                self._print(one, report["number"], stream, unpack(report[stream]))

        if "error" in report:
            self.error = self.error or f"{one.command.name}: {report['error']}"

        self._note_loss(one, report)
        if "fed" in report:
            self._feed(one)

        if "exit" in report:
            self._note_exit(one, report["number"], report["exit"])

    def _note_loss(self, one: _Starter, report: Report) -> None:
        if "stopped" in report:
            number = one.pids.get(report["stopped"])

            title = one.command.titles[number] if number is not None else ""
            # The process with a title is a rank, and names the cause better than one below it.
            if self.stopped is None or (title and not self.stopped.title):
                self.stopped = Stopped(report["stopped"], title, report["name"])

        if "cut" in report:
            own, other = report["cut"]
            self.cut = self.cut or Cut(own=(own[0], own[1]), other=(other[0], other[1]))

        if "signal" in report:
            self.lost = (
                self.lost or f"{one.command.name} was ended by {report['signal']}"
            )

    def _print(self, one: _Starter, number: int, name: Stream, data: bytes) -> None:
        """Print the whole lines of a stream after ``data``; without data, the rest."""

        one.printed_at = time.monotonic()

        text = one.whole(number, name, data)
        if self._labels is not None and one.command.ranks:
            text = (self._labels.of_rank if data else self._labels.last_of_rank)(
                number, name, text
            )
        elif self._labels is not None and one.command.tags:
            text = self._labels.of_mpiexec(one.command.tags, name, text)
            text += b"" if data else self._labels.rest(name)

        if not self.quiet:
            _emit(_DESCRIPTORS[name], text)

    def _note_exit(self, one: _Starter, number: int, status: int) -> None:
        # Only a process that retire() has ended: its status says nothing about the program.
        if number not in one.waiting:
            status = 0  # see retire()

        one.waiting.discard(number)

        # The first failure is the cause; later ones are mostly its consequences.
        self.statuses[number] = status
        if self.forgiven is not None and one.command.ranks:
            self.forgiven[number] = Exit(one.command.titles[number], status)
        elif status:
            self.failure = self.failure or Exit(
                one.command.titles[number], status, serves=one.command.serves
            )
        elif one.command.ranks:
            self.ended_ranks.add(number)

    def _drop_channel(self, one: _Starter, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        self._reap(one.pid)
        # The pipe may still hold the last output, and reports that explain more
        # than the starter's own status.
        self._print_rest(one)

        status = one.status or 0
        # A starter that ends before its processes: ssh could not start it, or it was killed.
        if one.waiting and not (self.error or self.lost) and self.failure is None:
            if status == _SSH_FAILED and not one.hearing.reports:
                self.error = f"{one.command.name} could not be started by ssh, whose own line says why"
            elif one.command.task is not None:
                self.lost = self.lost or f"{one.command.name} has been lost"
            else:
                self.lost = (
                    self.lost
                    or f"{Exit(one.command.name, status)}, before its processes"
                )

    def _print_rest(self, one: _Starter) -> None:
        """Print what is left in the pipe of a starter that has ended, and its unfinished lines."""
        # The descriptor of the process may be ready before its pipe, in one turn of the selector.
        while self._read(one):
            pass

        for number in one.command.titles:
            for stream in STREAMS:
                self._print(one, number, stream, b"")

    def _reap(self, which: int) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(which, os.WNOHANG))[0]:
                for one in self._starters:
                    if one.pid == found[0]:
                        one.status = os.waitstatus_to_exitcode(found[1])
