"""Signals as a descriptor to select on, so that a program ends in order and without traceback.

A handler only notes the signal and writes an octet to a socket pair. The owner's loop wakes up by
that octet, and acts outside the handler. SIGINT, SIGTERM and others ask for an end. The signals in
:data:`PASSED` are for the procs: a batch system sends them to impirun, which passes them on.
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

PASSED: Final = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGURG,
)
"""Signals that impirun passes on to its procs, bypassing an mpiexec that has started them."""
_MOST: Final = 1 << 12  # octets of one read; each signal writes one
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)
# These end a process without a word unless it catches them. One that is ignored (nohup) stays so.
_ENDS_TOO: Final = (signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGALRM)


class Interrupts:
    """Catches signals inside a ``with``; ``fileno`` is readable once one has come.

    Python delivers signals to the main thread only: entered in another thread, it does nothing.

    Args:
        passes: whether to catch the signals in :data:`PASSED` as well, for :meth:`passed`.
    """

    def __init__(self, *, passes: bool = False) -> None:
        self._passes = passes
        self._passed: list[int] = []
        # The first signal; a program that ends by it exits with 128 + its number
        self.signum: int | None = None
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._previous: dict[
            int, Callable[[int, FrameType | None], Any] | int | None
        ] = {}

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
        """Empty the descriptor for the next signal, unless one has asked for an end."""
        # After a request to end it stays readable: every loop below must return at once.
        with suppress(BlockingIOError):
            while self.signum is None and self._inside.recv(_MOST):
                pass

    def passed(self) -> list[int]:
        """Return the signals to pass on that have come since the last call."""
        came, self._passed = self._passed, []
        return came

    def passed_on(self, signum: int) -> None:
        """Apply a signal to this process itself, after its procs: SIGTSTP (Ctrl-Z) stops it."""
        # It is caught here, so SIGSTOP does what the shell expects
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
