"""Heartbeats: every process of a job that runs says so, and whoever is silent for long is lost.

Server and clients send each other the command BEAT (:mod:`impi.protocol.startup.challenge`),
impirun and its starters a line each way. The beats of impirun go out from a thread
(:class:`Pulse`), because the main thread may wait for whoever reads its output. A stopped process
stops with all its threads.

The silence of others is judged by the main thread, and only where nothing is left to be read
(:func:`is_silent`): an impirun that has itself waited for long finds the beats of that time.
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
_END_S: Final = 5.0  # the longest wait for the end of the thread, which may be in the middle of a beat


def silence(limit_s: float) -> str:
    """Return the words on a process that has been silent for so many seconds."""
    return f"has not been heard of for {limit_s:g} s: it is stopped, or cut off"


def is_silent(descriptor: int, heard: float, limit_s: float) -> bool:
    """Whether nothing has come for over ``limit_s`` seconds.

    Args:
        descriptor: what it comes by; octets that wait there are a sign of life.
        heard: the time of the last octets, on the monotonic clock.
        limit_s: 0: there is no limit.
    """
    if not limit_s or time.monotonic() - heard <= limit_s:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


class Pulse:
    """Calls some functions every :data:`BEAT_S` seconds, from a thread of its own.

    Args:
        beats: they may raise ImpiError and OSError, which the main thread hears of elsewhere.
    """

    def __init__(self, *beats: Callable[[], object]) -> None:
        self._beats = beats
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin; the process must not fork from now on."""
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
