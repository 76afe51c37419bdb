"""Run many commands on a node over one connection, each under a starter that is a fork of this.

How it works: standard input and output have lines ``NUMBER SPACE TEXT``. A number above all earlier
ones is a new command, and gets a starter. TEXT is a line to or from that starter; an empty TEXT
ends that direction. The end of standard input ends everything. A new number with ``{"do": ...}`` is
an *errand*: this process does it itself and answers by one line. Errands are files and single
datagrams. They and their answers are JSON objects with octets in base64; a failed one answers
``{"error": "sentence"}``.

Each command has a starter of its own, because a starter is the subreaper: orphans come to it, and
so the owner of leftovers is known. This process has no threads, since it forks: a command
costs 11 ms that way, and 44 ms with a start of Python (docs/decisions/process-keeper.md).

Sent to the node together with :mod:`impi.base.remote.starter`; standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

# Modules of the lab's programs, imported here once: the programs run in forks of this process.
import hashlib  # noqa: F401  isort: skip
import pathlib  # noqa: F401  isort: skip

from impi.base.remote import processes, shown_process, starter

_CHUNK = 1 << 18
_ERRAND = b'{"do"'


class _Child:
    def __init__(self, number: bytes, pid: int, stdin: int) -> None:
        self.number, self.pid, self.stdin = number, pid, stdin
        self.said = b""

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            processes.write(self.stdin, data)

    def end_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1


class _ForkServer:
    def __init__(self, like: Sequence[str]) -> None:
        self._like = like
        self._selector = selectors.DefaultSelector()
        self._children: dict[bytes, _Child] = {}
        self._newest = 0
        self._rest = b""
        self._open = True

    def run(self) -> None:
        self._selector.register(0, selectors.EVENT_READ)
        while self._open or self._children:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    self._from_asker()
                else:
                    self._from_child(key.fd, key.data)

    def _from_asker(self) -> None:
        data = os.read(0, _CHUNK)
        # The end of input passes on to every starter: each ends its command, and this loop
        # ends behind the last one.
        if not data:
            self._open = False

            self._selector.unregister(0)
            for each in self._children.values():
                each.end_input()

            return

        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            number, _, text = line.partition(b" ")
            # Numbers only rise, so a late line for a command that has ended begins no new one.
            if int(number) > self._newest:
                self._newest = int(number)
                if text.startswith(_ERRAND):
                    self._say(
                        number
                        + b" "
                        + json.dumps(perform(json.loads(text))).encode()
                        + b"\n"
                    )
                    continue

                self._fork(number)

            child = self._children.get(number)
            if child is None:
                continue  # it has ended while the line was under way

            if text:
                child.write(text + b"\n")
            else:
                child.end_input()

    def _fork(self, number: bytes) -> None:
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        # The child keeps only its two ends. A copy of another starter's input would keep that one
        # alive when the asker has gone.
        pid = processes.fork(
            (stdin, stdout), lambda: starter.main(self._like), b"impi-starter"
        )
        os.close(stdin)
        os.close(stdout)
        child = self._children[number] = _Child(number, pid, to_child)
        self._selector.register(from_child, selectors.EVENT_READ, child)

    def _from_child(self, descriptor: int, child: _Child) -> None:
        data = os.read(descriptor, _CHUNK)
        if data:
            *lines, child.said = (child.said + data).split(b"\n")
            self._say(b"".join(child.number + b" " + line + b"\n" for line in lines))
            return

        self._selector.unregister(descriptor)
        os.close(descriptor)
        child.end_input()
        # Its output has ended, so it has ended or is about to.
        os.waitpid(child.pid, 0)
        del self._children[child.number]
        self._say(child.number + b" \n")

    def _say(self, data: bytes) -> None:
        # The asker is gone, and the end of our input says so
        with contextlib.suppress(OSError):
            processes.write(1, data)


def perform(errand: dict[str, Any]) -> dict[str, Any]:
    """Perform an errand, and return its answer or ``{"error": ...}``."""
    try:
        return {"read": _read, "write": _write, "datagram": _datagram}[errand["do"]](
            errand
        )
    except OSError as error:
        return {"error": error.strerror or str(error)}


def _read(errand: dict[str, Any]) -> dict[str, Any]:
    """Read at most ``most`` octets of ``path`` from ``offset``; no such file: ``data`` is null."""
    try:
        descriptor = os.open(errand["path"], os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return {"data": None}

    try:
        os.lseek(descriptor, errand["offset"], os.SEEK_SET)

        data = bytearray()
        # Until nothing comes: files in /proc have no size.
        while len(data) < errand["most"] and (
            part := os.read(descriptor, errand["most"] - len(data))
        ):
            data += part
    finally:
        os.close(descriptor)

    return {"data": base64.b64encode(data).decode()}


def _write(errand: dict[str, Any]) -> dict[str, Any]:
    """Write ``data`` to ``path`` with the access rights ``mode``; create the folders above it."""

    path = errand["path"]

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(errand["data"]))
        # Behind the creation, whose rights the umask has narrowed.
        os.fchmod(file.fileno(), errand["mode"])

    return {}


def _datagram(errand: dict[str, Any]) -> dict[str, Any]:
    """Send ``data`` in one UDP datagram to ``host`` and ``port``, from the address ``source``."""
    family = socket.AF_INET6 if ":" in errand["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        if errand["source"]:
            sock.bind((errand["source"], 0))

        sock.sendto(base64.b64decode(errand["data"]), (errand["host"], errand["port"]))

    return {}


def main(like: Sequence[str] = (sys.executable, "-I", "-S")) -> None:
    """Serve until standard input and all commands have ended.

    Args:
        like: the first words of commands that are forks of this process, with what it has loaded.
    """
    # A fork that cannot show its own command line would look like this process, which the lab's
    # sweep for leftovers spares.
    if "-m" in like and not shown_process.possible():
        like = ()

    # Ended by the end of input alone: the asker handles a terminal's signals. Handlers and not
    # SIG_IGN, which programs would inherit.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, lambda *_: None)

    _ForkServer(like).run()


if __name__ == "__main__":
    main()
