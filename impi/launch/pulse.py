"""Heartbeats: each process sends signs of life, and one that is silent for too long is lost.

A stopped process (SIGSTOP) or a cut link ends no connection, so only silence shows it. Server and
clients send each other the command BEAT (:mod:`impi.protocol.startup.challenge`), impirun and its
starters a line each way. impirun's beats come from a thread (:class:`Pulse`), because its main
thread may block in a write, for instance under ``less``. A stopped process stops with all threads,
so a beat from a thread still proves that the process runs.

The main thread judges the silence of others, and only if nothing is left to read
(:func:`is_silent`): an impirun that has itself been blocked finds the beats of that time in the
socket. docs/decisions/heartbeats.md has the alternatives.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from impi.base.errors import ImpiError

BEAT_S: Final = 2.0
"""Seconds between two beats, and between two looks at those of others."""
_SOON_S: Final = 0.05
# Longest wait for the end of the thread, which may be inside a beat
_END_S: Final = 5.0


def silence(limit_s: float) -> str:
    """Return the end of a sentence about a process that was silent for ``limit_s`` seconds."""
    return f"has not been heard of for {limit_s:g} s: it is stopped, or cut off"


def is_silent(descriptor: int, heard: float, limit_s: float) -> bool:
    """Return whether nothing has come for over ``limit_s`` seconds.

    Args:
        descriptor: the connection; octets that wait there are a sign of life.
        heard: time of the last octets, on the monotonic clock.
        limit_s: the limit in seconds; 0: there is none.
    """

    if not limit_s or time.monotonic() - heard <= limit_s:
        return False

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)

    return not poll.poll(0)


def silent_in_s(heard: float, limit_s: float) -> float:
    """Return the seconds until :func:`is_silent` may hold: a look every two seconds is too late.

    It is never 0: where octets wait to be read, or a process for a processor, time alone does not
    tell. Infinite: there is no limit.
    """
    if not limit_s:
        return float("inf")

    return max(heard + limit_s - time.monotonic(), _SOON_S)


class Pulse:
    """Calls functions every :data:`BEAT_S` seconds, in a thread of its own.

    Args:
        beats: the functions; ImpiError and OSError are ignored, since the main thread sees a lost
            connection itself.
    """

    def __init__(self, *beats: Callable[[], object]) -> None:
        self._beats = beats
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Start the thread. From now on the process must not fork: a lock may be held."""
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            for beat in self._beats:
                with suppress(ImpiError, OSError):
                    beat()
