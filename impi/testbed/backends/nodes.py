"""Nodes and commands of :mod:`impi.testbed.lab.interface`, made of :mod:`impi.remote`."""

from __future__ import annotations

import contextlib
import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from impi.errors import LabError, LaunchError
from impi.remote.ssh import Connection
from impi.remote.supervised import Outcome, Supervised
from impi.testbed.lab.interface import Completed, Line, RunningCommand

_T = TypeVar("_T")
_R = TypeVar("_R")
_MOST_THREADS = 16
_MOST_LINES = 500


@contextlib.contextmanager
def lab_fault(where: str, fate: Callable[[], str] = str) -> Iterator[None]:
    """Turn a failed connection into a fault of the lab, whatever the cell under test did.

    ``fate`` gives what else is known of the machine, as the end of the sentence.
    """
    try:
        yield
    except LaunchError as error:
        raise LabError(f"{where}: {error}{fate()}") from error


def in_parallel(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """``[work(x) for x in items]`` by threads; waits for all, then raises the first error."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_MOST_THREADS, len(items))) as pool:
        return [future.result() for future in [pool.submit(work, item) for item in items]]


def completed(outcome: Outcome) -> Completed:
    """Return the outcome in the interface's terms."""
    return Completed(
        argv=outcome.argv,
        code=outcome.code,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        leftovers=outcome.leftovers,
        lines=tuple(_lines(outcome)),
    )


def _lines(outcome: Outcome) -> list[Line]:
    """The last lines of both streams, each with the time at which its end was there."""
    found: list[Line] = []
    for stream, octets in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        marks = [(end, at) for name, end, at in outcome.times if name == stream]
        ends = [end for end, _ in marks]
        end = len(octets)
        for text in reversed(octets.rsplit(b"\n", _MOST_LINES)[-_MOST_LINES:]):
            mark = min(bisect_left(ends, end), len(marks) - 1)
            if text and marks:
                found.append(Line(at=marks[mark][1], stream=stream, text=text.decode("utf-8", "replace")))
            end -= len(text) + 1
    found.reverse()
    return sorted(found, key=lambda line: line.at)


class Command:
    """A command under way on a node; a :class:`impi.testbed.lab.interface.RunningCommand`."""

    def __init__(self, supervised: Supervised, where: str, fate: Callable[[], str] = str) -> None:
        self._supervised = supervised
        self._where, self._fate = where, fate

    @property
    def pid(self) -> int:
        """Its process id on the node; 0: not known yet."""
        return self._supervised.pid

    def poll(self) -> Completed | None:
        """The outcome, or None while it runs."""
        with lab_fault(self._where, self._fate):
            outcome = self._supervised.poll()
        return None if outcome is None else completed(outcome)

    def wait(self, timeout_s: float) -> Completed:
        """The outcome; at the deadline all of it is ended."""
        with lab_fault(self._where, self._fate):
            return completed(self._supervised.wait(timeout_s))

    def stdout(self) -> bytes:
        """The output so far."""
        return self._supervised.stdout()

    def stderr(self) -> bytes:
        """The errors and reports so far."""
        return self._supervised.stderr()

    def stop(self) -> Completed:
        """End all of it now."""
        with lab_fault(self._where, self._fate):
            return completed(self._supervised.stop())


class SshNode:
    """A container behind SSH, a :class:`~.interface.Node`. Relative paths are below ``home``."""

    def __init__(
        self, name: str, address: str, connection: Connection, home: str, fate: Callable[[], str] = str
    ) -> None:
        self.name = name
        self.address = address
        self.connection = connection
        self._home, self._fate = home, fate

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> RunningCommand:
        """Start it under a starter, in the home folder."""
        with lab_fault(self.name, self._fate):
            return Command(self.connection.start(argv, env=env, cwd=self._home), self.name, self._fate)

    def read(self, path: str) -> bytes | None:
        """A file's content, or None."""
        with lab_fault(self.name, self._fate):
            return self.connection.read(posixpath.join(self._home, path))

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Put a file there, with the folders above it."""
        with lab_fault(self.name, self._fate):
            self.connection.write(posixpath.join(self._home, path), data, mode=mode)
