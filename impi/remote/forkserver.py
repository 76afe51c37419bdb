"""Many commands of a node over one connection: each has a starter, a fork of this process.

Sent to the node with :mod:`impi.remote.starter`; standard library only. Standard input and output
have lines ``NUMBER SPACE TEXT``. A number above all before is a new command. TEXT is a line to or
from its starter; an empty TEXT ends that direction. The end of standard input ends all. A new
number with ``{"do": ...}`` is an errand (:mod:`impi.remote.errands`), answered by one line. Each
command has its own starter, because orphans come to it: so leftovers have an owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys

# Modules of the lab's programs, imported once for all: these run in forks of this process.
import hashlib  # noqa: F401  isort: skip
import pathlib  # noqa: F401  isort: skip

from impi.remote import errands, processes, starter

_CHUNK = 1 << 18
_ERRAND = b'{"do"'


class _Child:
    """One starter: its process, the pipe to it, and its unfinished line."""

    def __init__(self, number: bytes, pid: int, stdin: int) -> None:
        self.number = number
        self.pid = pid
        self.stdin = stdin
        self.said = b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError):  # it has ended
            while view:
                view = view[os.write(self.stdin, view) :]

    def end_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1


class _ForkServer:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[bytes, _Child] = {}
        self._newest = 0
        self._rest = b""
        self._open = True

    def run(self) -> None:
        """Run until our input and all commands have ended."""
        self._selector.register(0, selectors.EVENT_READ)
        while self._open or self._children:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    self._from_asker()
                else:
                    self._from_child(key.fd, key.data)

    def _from_asker(self) -> None:
        data = os.read(0, _CHUNK)
        if not data:
            self._open = False
            self._selector.unregister(0)
            for each in self._children.values():
                each.end_input()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            number, _, text = line.partition(b" ")
            if int(number) > self._newest:
                self._newest = int(number)
                if text.startswith(_ERRAND):
                    self._say(number + b" " + json.dumps(errands.perform(json.loads(text))).encode() + b"\n")
                    continue
                self._fork(number)
            child = self._children.get(number)
            if child is None:
                continue  # it has ended meanwhile
            if text:
                child.write(text + b"\n")
            else:
                child.end_input()

    def _fork(self, number: bytes) -> None:
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        like = [sys.executable, "-I", "-S"]
        pid = processes.fork((stdin, stdout), lambda: starter.main(like), b"impi-starter")
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
        os.waitpid(child.pid, 0)
        del self._children[child.number]
        self._say(child.number + b" \n")

    def _say(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError:  # the asker is gone; the end of our input tells, too
            pass


def main() -> None:
    """Serve until standard input and all commands have ended."""
    # The loop sees both ends; the asker handles a terminal's signals.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, lambda *_: None)
    _ForkServer().run()


if __name__ == "__main__":
    main()
