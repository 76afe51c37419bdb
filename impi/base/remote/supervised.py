"""A command under a starter on a node, as its asker sees it: output, outcome, and ways to end it.

The thread that reads the channel calls :meth:`Supervised.take` with each report of the starter.
Callers wait on one condition for output or the outcome. The outcome is complete only with the
starter's last line, which lists leftovers: an exit status alone does not mean that all has ended.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from impi.base.errors import LaunchError
from impi.base.remote.starter_lines import STREAMS, Report, unpack

MOST_OUTPUT: Final = 64 << 20
"""Most octets of each stream that are kept; the rest is dropped, with a note at the end."""

_MOST_LINES: Final = 500
# On top of the grace: longest wait for a starter's last line on a loaded machine
_SLACK_S: Final = 15.0
_NOT_STARTED: Final = 127
_NOT_ENDED: Final = -9


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a command's output."""

    # Time at which it was complete, in seconds since the epoch by the node's clock
    at: float
    stream: str  # stdout or stderr
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The outcome of a command: a value, never an exception."""

    argv: tuple[str, ...]
    # Exit status; -N: signal N; 127: failed to start; None: ended by the deadline
    code: int | None
    stdout: bytes
    stderr: bytes
    leftovers: tuple[str, ...] = ()  # command lines of descendants that had to be ended
    # When output came: stream, octets of it so far, seconds since the epoch by the node's clock.
    times: tuple[tuple[str, int, float], ...] = field(default=(), compare=False)

    @property
    def lines(self) -> list[Line]:
        """The last 500 lines of each stream, ordered by the time at which each was complete."""

        found: list[Line] = []
        for stream, octets in (("stdout", self.stdout), ("stderr", self.stderr)):
            # Times belong to pieces of output, not to lines: a line was complete with the
            # piece that has its newline.
            marks = [(end, at) for name, end, at in self.times if name == stream]
            ends = [end for end, _ in marks]

            end = len(octets)
            # From the end, as only the last lines are wanted of output that may be megabytes long.
            for text in reversed(octets.rsplit(b"\n", _MOST_LINES)[-_MOST_LINES:]):
                mark = min(bisect_left(ends, end), len(marks) - 1)
                if text and marks:
                    found.append(
                        Line(
                            at=marks[mark][1],
                            stream=stream,
                            text=text.decode("utf-8", "replace"),
                        )
                    )

                end -= len(text) + 1

        found.reverse()

        return sorted(found, key=lambda line: line.at)


class Supervised:
    """A command under way, from :meth:`impi.base.remote.commands.Commands.start`. Thread-safe.

    Methods raise LaunchError if the connection was lost before the outcome was known.

    Args:
        argv: the command.
        grace_s: the starter's seconds from TERM to KILL.
        send: sends a line, given without its newline; LaunchError: the connection is lost.
    """

    def __init__(
        self, argv: Sequence[str], grace_s: float, send: Callable[[bytes], None]
    ) -> None:
        self._argv = tuple(argv)
        self._grace_s, self._send = grace_s, send
        self._changed = threading.Condition()
        self._output = {"stdout": bytearray(), "stderr": bytearray()}
        self._dropped = {"stdout": 0, "stderr": 0}
        self._times: list[tuple[str, int, float]] = []
        self._code = _NOT_ENDED
        self._outcome: Completed | None = None
        self._lost = ""
        self.pid = 0

    def poll(self) -> Completed | None:
        """Return the outcome, or None while the command runs."""
        with self._changed:
            return self._result()

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the outcome; after ``timeout_s`` the command is ended, with ``code`` None."""

        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(self._over, max(0.0, deadline - time.monotonic()))
            outcome = self._result()

        if outcome is not None:
            return outcome

        # None and not the code of the TERM: the deadline is the cause, and
        # the code its consequence.
        return replace(self.stop(), code=None)

    def stop(self) -> Completed:
        """End the command now, by TERM and after the grace by KILL, and return the outcome."""

        with self._changed:
            outcome = self._result()

        if outcome is not None:
            return outcome

        # Not under the lock: a write may block while the other end writes reports, and the thread
        # that reads these needs the lock.
        self._send(b'{"do": "stop"}')
        with self._changed:
            self._changed.wait_for(self._over, self._grace_s + _SLACK_S)
            outcome = self._result()

        # The starter itself is gone or stuck. Its input is closed, so it ends all if it goes on.
        if outcome is None:
            self.close()
            raise LaunchError(
                f"{self._argv[0]} got the command to stop, and has not answered since"
            )

        return outcome

    def first_line(self, timeout_s: float) -> bytes:
        """Wait for the first line on stdout, and return it without its newline.

        It is empty if the command has ended without a line, or after ``timeout_s`` seconds.
        """
        output = self._output["stdout"]
        with self._changed:
            self._changed.wait_for(lambda: b"\n" in output or self._over(), timeout_s)
            return bytes(output).partition(b"\n")[0] if b"\n" in output else b""

    def stdout(self) -> bytes:
        with self._changed:
            return bytes(self._output["stdout"])

    def stderr(self) -> bytes:
        with self._changed:
            return bytes(self._output["stderr"])

    def close(self) -> None:
        """Abandon the command: its starter ends it, and you do not wait for that."""
        # A lost connection ends the command, too
        with contextlib.suppress(LaunchError):
            # An empty line ends this direction: the starter learns that no asker waits any more.
            self._send(b"")

    # -- under the lock

    def _over(self) -> bool:
        return self._outcome is not None or bool(self._lost)

    def _result(self) -> Completed | None:
        if self._outcome is None and self._lost:
            raise LaunchError(
                f"the outcome of {self._argv[0]} is unknown: {self._lost}"
            )

        return self._outcome

    # -- the thread that reads the channel

    def take(self, text: bytes) -> None:
        if not text:
            self.broke("its starter ended without a last word")
            return

        try:
            line = json.loads(text)
            with self._changed:
                self._take(line)
        except (ValueError, TypeError, KeyError):
            self.broke("its starter's lines make no sense")

    def broke(self, why: str) -> None:
        with self._changed:
            if self._outcome is None and not self._lost:
                # A broken channel has no words, but the command may have said why it broke.
                tail = (
                    bytes(self._output["stderr"][-500:])
                    .decode("utf-8", "replace")
                    .strip()
                )
                self._lost = f"{why}; it had said: {tail}" if tail else why

            self._changed.notify_all()

    def _take(self, line: Report) -> None:
        for name in STREAMS:
            if name in line:
                data, kept = unpack(line[name]), self._output[name]
                # A command that prints for ever must not fill the lab's memory.
                room = max(0, MOST_OUTPUT - len(kept))
                kept.extend(data[:room])
                self._dropped[name] += len(data) - min(room, len(data))

                self._changed.notify_all()
                if room:
                    self._times.append((name, len(kept), float(line["at"])))

        self.pid = int(line.get("pid", self.pid))

        # The exit comes before the leftovers, and only these complete the outcome.
        self._code = int(line.get("exit", self._code))
        if "error" in line:
            self._code = _NOT_STARTED
            self._output["stderr"] += f"{line['error']}\n".encode()

        if "leftovers" in line:
            self._outcome = Completed(
                argv=self._argv,
                code=self._code,
                stdout=self._kept("stdout"),
                stderr=self._kept("stderr"),
                leftovers=tuple(map(str, line["leftovers"])),
                times=tuple(self._times),
            )
            self._changed.notify_all()

    def _kept(self, name: str) -> bytes:
        dropped = self._dropped[name]
        note = (
            f"\n[impi: {dropped} more octets were dropped]\n".encode()
            if dropped
            else b""
        )
        return bytes(self._output[name]) + note
