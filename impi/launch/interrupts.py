"""SIGINT and SIGTERM as a descriptor to select on: programs end in order, without traceback."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any


class Interrupts:
    """Catches both signals in a ``with``; readable (``fileno``) after the first.

    Python delivers signals to the main thread only: entered in another thread, it does nothing.
    """

    def __init__(self) -> None:
        self.signum: int | None = None  # the first signal; a program that ends by it exits with 128 + its number
        self._inside, self._outside = socket.socketpair()
        self._outside.setblocking(False)
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def fileno(self) -> int:
        return self._inside.fileno()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._previous[signum] = signal.signal(signum, self._on_signal)
        return self

    def __exit__(self, *_exc: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._inside.close()
        self._outside.close()

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum
            with suppress(OSError):
                self._outside.send(b"\0")
