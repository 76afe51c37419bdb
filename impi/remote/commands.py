"""Our end of a node's fork server: many commands at a time over one channel, whatever carries it."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from impi.errors import LaunchError
from impi.remote import errands, forkserver, supervisor
from impi.remote.supervised import Channel, Supervised

__all__ = ["Commands", "bootstrap"]

_CHUNK: Final = 1 << 18


def bootstrap(python: str) -> tuple[list[str], bytes]:
    """An argument vector for a node that has only ``python``, and what must first be written to its standard input.

    The programs' texts come over the channel, so nothing has to be installed there, and both ends are always of one
    version.
    """
    modules = {"impi": "", "impi.remote": ""}
    for module in (supervisor, errands, forkserver):
        modules[module.__name__] = Path(str(module.__file__)).read_text("utf-8")
    text = json.dumps(modules).encode()
    # Read to the octet, unbuffered: what follows is the fork server's.
    program = (
        "import os, sys, types, json\n"
        "text = b''\n"
        f"while len(text) < {len(text)}:\n"
        f" data = os.read(0, {len(text)} - len(text))\n"
        " if not data: raise SystemExit\n"
        " text += data\n"
        "for name, source in json.loads(text).items():\n"
        " module = sys.modules[name] = types.ModuleType(name)\n"
        " exec(compile(source, name, 'exec'), module.__dict__)\n"
        "module.main()"
    )
    return [python, "-I", "-S", "-c", program], text


class Commands:
    """The fork server behind ``channel``, which :func:`bootstrap` has started.

    A thread of its own reads the channel; all methods may be called from any thread.
    """

    def __init__(self, channel: Channel, where: str) -> None:
        self._channel = channel
        self._where = where
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        # Held until a number's first line is written: the fork server takes a lower number for an old one.
        self._numbering = threading.Lock()
        self._strands: dict[bytes, _Strand] = {}
        self._lost = ""
        threading.Thread(target=self._read, name=f"commands of {where}", daemon=True).start()

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        only: bool = False,
        cwd: str = "",
        stdin: bytes | None = None,
        grace_s: float = 2.0,
        settle_s: float = 0.5,
    ) -> Supervised:
        """Run ``argv`` under a supervisor of its own; ``env`` is laid over the fork server's variables, or is all.

        ``python -I -S ...`` with the fork server's own interpreter is a fork of it and costs no start.

        Raises:
            LaunchError: the connection is lost. (That ``argv`` cannot be started is an outcome, with code 127.)
        """
        with self._numbering:
            return Supervised(
                self._strand(),
                argv,
                env=env or {},
                only=only,
                cwd=cwd,
                stdin=stdin,
                grace_s=grace_s,
                settle_s=settle_s,
            )

    def ask(self, do: str, timeout_s: float, **errand: object) -> dict[str, Any]:
        """What the fork server does itself (:mod:`impi.remote.errands`): its answer.

        Raises:
            LaunchError: the connection is lost, or there is no answer in time.
        """
        with self._numbering:
            strand = self._strand()
            strand.write(json.dumps({"do": do, **errand}).encode() + b"\n")
        try:
            answer: dict[str, Any] = json.loads(strand.read_within(timeout_s))
        except queue.Empty:
            raise LaunchError(f"{self._where}: no answer to {do} within {timeout_s:g} s") from None
        finally:
            strand.release()
        return answer

    def _strand(self) -> _Strand:
        """A new one."""
        with self._lock:
            if self._lost:
                raise LaunchError(self._lost)
            number = b"%d" % next(self._numbers)
            strand = self._strands[number] = _Strand(self, number)
        return strand

    def close(self) -> None:
        """End all commands and the fork server, without waiting for it. Any number of times."""
        self._channel.close()

    def write(self, data: bytes) -> None:
        """Send a whole line."""
        self._channel.write(data)

    def forget(self, number: bytes) -> None:
        """That command is over."""
        with self._lock:
            self._strands.pop(number, None)

    def _read(self) -> None:
        rest = b""
        lost = f"{self._where}: the fork server ended"
        try:
            while data := self._channel.read(_CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    number, _, text = line.partition(b" ")
                    with self._lock:
                        strand = self._strands.get(number)
                    if strand is not None:
                        strand.arrived(text + b"\n" if text else b"")
        except LaunchError as error:
            lost = str(error)
        with self._lock:
            self._lost = lost
            strands = list(self._strands.values())
        for strand in strands:
            strand.broke(lost)
        self._channel.close()
        self._channel.release()


class _Strand:
    """One command's part of the channel. Implements :class:`impi.remote.supervised.Channel`."""

    def __init__(self, commands: Commands, number: bytes) -> None:
        self._commands = commands
        self._number = number
        self._arrived: queue.SimpleQueue[bytes | LaunchError] = queue.SimpleQueue()

    def read(self, size: int) -> bytes:
        return self.read_within(None)

    def read_within(self, timeout_s: float | None) -> bytes:
        """What has arrived; queue.Empty: nothing in time."""
        item = self._arrived.get(timeout=timeout_s)
        if isinstance(item, LaunchError):
            raise item
        return item

    def write(self, data: bytes) -> None:
        # A whole line at a time: Supervised writes nothing else.
        self._commands.write(self._number + b" " + data)

    def close(self) -> None:
        try:
            self._commands.write(self._number + b" \n")
        except LaunchError:
            pass  # then it ends all the same

    def release(self) -> None:
        self._commands.forget(self._number)

    def arrived(self, data: bytes) -> None:
        self._arrived.put(data)

    def broke(self, why: str) -> None:
        self._arrived.put(LaunchError(why))
