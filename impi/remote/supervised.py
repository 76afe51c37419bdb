"""Our end of a command under :mod:`impi.remote.supervisor`, whatever carries the lines."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from impi.errors import LaunchError
from impi.remote import supervisor

__all__ = ["MOST_OUTPUT", "Channel", "Outcome", "Supervised"]

MOST_OUTPUT: Final = 64 << 20
"""Octets of each stream that are kept; what a command prints beyond is dropped, and said so at the end."""

_SLACK_S = 15.0  # beyond the supervisor's own graces: the slowest way to its last line on a loaded machine


class Channel(Protocol):
    """A two-way stream of octets to a supervisor."""

    def read(self, size: int) -> bytes:
        """Block for some octets; empty at the end. LaunchError when the connection is lost."""
        ...

    def write(self, data: bytes) -> None:
        """All of ``data``. LaunchError when the connection is lost."""
        ...

    def close(self) -> None:
        """End our direction; the supervisor then ends its command and the stream. Any number of times, any thread."""
        ...

    def release(self) -> None:
        """Give everything back. Called once, by the reader, after the end of the stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended."""

    argv: tuple[str, ...]
    code: int | None
    """Exit status, ``-N`` for signal N, 127 where it could not be started, None where the deadline ended it."""
    stdout: bytes
    stderr: bytes
    leftovers: tuple[str, ...]
    """Command lines of its descendants that had to be ended after it."""
    times: tuple[tuple[str, int, float], ...] = field(default=(), compare=False)
    """(``stdout`` or ``stderr``, octets, when so many octets of it were there: seconds since the epoch on its node)."""


class Supervised:
    """A command under way. Made by :meth:`impi.remote.commands.Commands.start`.

    A thread of its own reads the channel, so that a talkative command never blocks. All methods may be called from any
    thread. LaunchError: the connection was lost before the outcome was known.
    """

    def __init__(
        self,
        channel: Channel,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        only: bool = False,
        cwd: str = "",
        stdin: bytes | None = None,
        grace_s: float = 2.0,
        settle_s: float = 0.5,
    ) -> None:
        self._channel = channel
        self._argv = tuple(argv)
        self._grace_s = grace_s
        self._changed = threading.Condition()
        self._output = {"stdout": bytearray(), "stderr": bytearray()}
        self._dropped = {"stdout": 0, "stderr": 0}
        self._times: list[tuple[str, int, float]] = []
        self._outcome: Outcome | None = None
        self._lost = ""
        self.pid = 0
        """Of the command on its node, once it is known."""
        spec = supervisor.Spec(
            argv=list(argv),
            env=dict(env),
            only=only,
            cwd=cwd,
            stdin=None if stdin is None else base64.b64encode(stdin).decode(),
            grace_s=grace_s,
            settle_s=settle_s,
        )
        channel.write((json.dumps(spec) + "\n").encode())
        threading.Thread(target=self._read, name=f"supervised {self._argv[0]}", daemon=True).start()

    def poll(self) -> Outcome | None:
        """The outcome, or None while it runs."""
        with self._changed:
            return self._result()

    def wait(self, timeout_s: float) -> Outcome:
        """Wait for the outcome; at the deadline all of it is ended and ``code`` is None."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(self._over, max(0.0, deadline - time.monotonic()))
            outcome = self._result()
        if outcome is not None:
            return outcome
        ended = self.stop()
        return replace(ended, code=None)

    def stop(self) -> Outcome:
        """End all of it now (TERM, and KILL after the grace) and say how it ended."""
        with self._changed:
            outcome = self._result()
        if outcome is not None:
            return outcome
        self._channel.write(b'{"do": "stop"}\n')
        with self._changed:
            self._changed.wait_for(self._over, self._grace_s + _SLACK_S)
            outcome = self._result()
        if outcome is None:
            self._channel.close()
            raise LaunchError(f"{self._argv[0]} was told to stop and nothing more was heard of it")
        return outcome

    def stdout(self) -> bytes:
        """What it has printed so far."""
        with self._changed:
            return bytes(self._output["stdout"])

    def close(self) -> None:
        """Let go of it: the supervisor ends whatever still runs. The outcome is not waited for."""
        self._channel.close()

    # -- under the lock

    def _over(self) -> bool:
        return self._outcome is not None or bool(self._lost)

    def _result(self) -> Outcome | None:
        if self._outcome is None and self._lost:
            raise LaunchError(f"the outcome of {self._argv[0]} is unknown: {self._lost}")
        return self._outcome

    # -- the reader

    def _read(self) -> None:
        rest = b""
        lost = "its supervisor ended without a last word"
        try:
            while self._outcome is None:
                data = self._channel.read(1 << 18)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except LaunchError as error:
            lost = str(error)
        except (ValueError, TypeError, KeyError):
            lost = "its supervisor's lines make no sense"
        with self._changed:
            if self._outcome is None:
                tail = bytes(self._output["stderr"][-500:]).decode("utf-8", "replace").strip()
                self._lost = f"{lost}; it had said: {tail}" if tail else lost
            self._changed.notify_all()
        self._channel.close()
        self._channel.release()

    def _take(self, line: dict[str, object]) -> None:
        with self._changed:
            for name, kept in self._output.items():
                if name in line:
                    data = base64.b64decode(str(line[name]))
                    room = max(0, MOST_OUTPUT - len(kept))
                    kept.extend(data[:room])
                    self._dropped[name] += len(data) - min(room, len(data))
                    if "at" in line and room:
                        self._times.append((name, len(kept), float(str(line["at"]))))
            if "pid" in line:
                self.pid = int(str(line["pid"]))
            if "exit" in line:
                leftovers = line["leftovers"]
                self._outcome = Outcome(
                    argv=self._argv,
                    code=int(str(line["exit"])),
                    stdout=self._kept("stdout"),
                    stderr=self._kept("stderr"),
                    leftovers=tuple(map(str, leftovers)) if isinstance(leftovers, list) else (),
                    times=tuple(self._times),
                )

    def _kept(self, name: str) -> bytes:
        dropped = self._dropped[name]
        note = f"\n[impi: {dropped} more octets were dropped]\n".encode() if dropped else b""
        return bytes(self._output[name]) + note
