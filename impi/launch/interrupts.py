"""Signals as a descriptor to select on: programs end in order, without traceback.

SIGINT, SIGTERM and what else asks for an end are noted; those of :data:`PASSED` are for the procs
of a job: a batch system sends them to impirun, which passes them on.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

PASSED: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTSTP, signal.SIGURG)
"""Signals that impirun passes on to its procs, past an mpiexec that has started them."""
_MOST: Final = 1 << 12  # octets of one read, one for each signal
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)
# They end a process without a word unless it catches them; one that ignores them has been told to.
_ENDS_TOO: Final = (signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGALRM)


class Interrupts:
    """Catches signals in a ``with``; readable (``fileno``) after the first.

    Python delivers signals to the main thread only: entered in another thread, it does nothing.

    Args:
        passes: whether those of :data:`PASSED` are caught, too, for :meth:`passed`.
    """

    def __init__(self, *, passes: bool = False) -> None:
        self._passes = passes
        self._passed: list[int] = []
        self.signum: int | None = None  # the first signal; a program that ends by it exits with 128 + its number
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def fileno(self) -> int:
        return self._inside.fileno()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for signum in (*_ENDS, *_ENDS_TOO):
                if signum in _ENDS or signal.getsignal(signum) == signal.SIG_DFL:
                    self._previous[signum] = signal.signal(signum, self._on_signal)
            for signum in PASSED if self._passes else ():
                self._previous[signum] = signal.signal(signum, self._on_passed)
        return self

    def __exit__(self, *_exc: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._inside.close()
        self._outside.close()

    def drain(self) -> None:
        """Let the descriptor wait for the next signal, if none has asked for an end."""
        with suppress(BlockingIOError):
            while self.signum is None and self._inside.recv(_MOST):
                pass

    def passed(self) -> list[int]:
        """Return the signals that have come since the last call, to be passed on."""
        came, self._passed = self._passed, []
        return came

    def passed_on(self, signum: int) -> None:
        """Do what a signal means for this process itself: SIGTSTP (Ctrl-Z) stops it."""
        if signum == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _on_passed(self, signum: int, _frame: FrameType | None) -> None:
        self._passed.append(signum)
        with suppress(OSError):
            self._outside.send(b"\0")

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is None:
            self.signum = signum
            with suppress(OSError):
                self._outside.send(b"\0")
