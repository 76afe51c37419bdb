"""The fork server on this machine, through a pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Final

from impi.errors import LaunchError
from impi.remote.commands import Commands, bootstrap

__all__ = ["this_machine"]

_END_S: Final = 15.0


class _Pipe:
    """A fork server as a child of ours. Implements :class:`impi.remote.supervised.Channel`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        command, text = bootstrap(sys.executable)
        try:
            # A session of its own: Ctrl-C at our terminal is ours to hand on, in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(env),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LaunchError(f"the fork server cannot be started with {sys.executable}: {error}") from error
        self._closing = threading.Lock()
        self._writing = threading.Lock()
        self.write(text)

    def read(self, size: int) -> bytes:
        stream = self._process.stdout
        if stream is None or stream.closed:
            return b""
        return stream.read(size) or b""

    def write(self, data: bytes) -> None:
        stream = self._process.stdin
        view = memoryview(data)
        try:
            with self._writing:
                while view and stream is not None:
                    view = view[os.write(stream.fileno(), view) :]
        except (OSError, ValueError) as error:
            raise LaunchError(f"the fork server on this machine is gone: {error}") from error

    def close(self) -> None:
        with self._closing:
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()

    def release(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def this_machine(env: Mapping[str, str]) -> Commands:
    """Commands on this machine; ``env`` is all that the fork server itself has.

    Raises:
        LaunchError: it cannot be started.
    """
    return Commands(_Pipe(env), "this machine")
