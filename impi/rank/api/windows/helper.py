"""The helper thread of a proc with windows: targets make progress while their program computes.

How it works: it sleeps until octets arrive. Then it takes one turn of the engine, unless a thread
of the program is in an MPI call, which serves the windows itself. Then the helper looks again a
millisecond later. Where the MPI library tells of no arrivals (MPICH, Open MPI), and procs of the
same client have the window, too, it asks the library at least each millisecond.

Without windows the thread sleeps for good.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from typing import Final

from impi.rank.engine.channels.threads import start_helper
from impi.rank.engine.engine import Engine

_LOOK_S: Final = 1e-3
# First sleep between two turns of a library that is asked; the next ones are longer
_NAP_S: Final = 20e-6
_IDLE_S: Final = 1.0  # longest sleep; bounds the effect of a lost wake-up


class Helper:
    """The thread, and the number of windows that need it.

    Args:
        engine: of this proc.
        failed: called in the thread, at its end, with an exception that ends the job.
    """

    def __init__(self, engine: Engine, failed: Callable[[Exception], None]) -> None:
        self._engine, self._failed = engine, failed
        self._windows = 0
        self._wanted = threading.Event()  # set while there are windows
        self._thread: threading.Thread | None = None

    def enter(self) -> None:
        self._windows += 1

        self._wanted.set()
        if self._thread is None:
            self._thread = start_helper(self._run, "impi windows")

    def leave(self) -> None:
        self._windows -= 1
        if not self._windows:
            self._wanted.clear()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as failure:
            if not self._engine.turns.closed:
                self._failed(failure)

    def _serve(self) -> None:
        engine = self._engine
        poller = select.poll()
        poller.register(engine.turns.arrivals(), select.POLLIN)

        nap = _NAP_S
        while not engine.turns.closed:
            self._wanted.wait()
            if engine.is_polled and nap < _LOOK_S:
                time.sleep(nap)
            else:
                # The descriptor is that of epoll. To poll it takes no event from the thread whose
                # turn is next.
                poller.poll(1e3 * (_LOOK_S if engine.is_polled else _IDLE_S))

            moved = engine.turns.serve()

            nap = _NAP_S if moved else min(nap * 1.25, _LOOK_S)
            # A thread of the program is in the engine and reads what is here: poll() would return
            # at once, over and over.
            if moved is None:
                time.sleep(_LOOK_S)
