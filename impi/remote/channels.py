"""The supervisor on this machine, through a pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from impi.errors import LaunchError
from impi.remote import supervisor
from impi.remote.supervised import Supervised

__all__ = ["start"]

_END_S: Final = 15.0


class _Pipe:
    """A supervisor as a child of ours. Implements :class:`impi.remote.supervised.Channel`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        try:
            # A session of its own: Ctrl-C at our terminal is ours to hand on, in order.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(env),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LaunchError(f"the supervisor cannot be started with {sys.executable}: {error}") from error
        self._closing = threading.Lock()

    def read(self, size: int) -> bytes:
        stream = self._process.stdout
        if stream is None or stream.closed:
            return b""
        return stream.read(size) or b""

    def write(self, data: bytes) -> None:
        stream = self._process.stdin
        view = memoryview(data)
        try:
            while view and stream is not None:
                view = view[os.write(stream.fileno(), view) :]
        except (OSError, ValueError) as error:
            raise LaunchError(f"the supervisor on this machine is gone: {error}") from error

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


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str = "",
    stdin: bytes | None = None,
    grace_s: float = 2.0,
    settle_s: float = 0.5,
) -> Supervised:
    """Run ``argv`` on this machine with exactly the variables ``env``, under a supervisor of its own.

    Raises:
        LaunchError: the supervisor cannot be started. (That ``argv`` cannot is an outcome, with code 127.)
    """
    return Supervised(_Pipe(env), argv, env={}, cwd=cwd, stdin=stdin, grace_s=grace_s, settle_s=settle_s)
