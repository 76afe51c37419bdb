"""An engine that several threads of a proc wait in: each wait leaves it between two turns.

:class:`impi.engine.threads.Threads` lets one thread at a time into the engine. A wait of the usual
engine stays inside until it is over, so other threads could not make the call that it waits for.
:func:`share` makes waits of an engine take a turn, step outside for a moment, and come back. It is
called once, by what gives threads communicators of their own; other programs never have it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Final

from impi.engine.engine import Engine
from impi.engine.operations import Operation

_FIRST_S: Final = 20e-6
_LONGEST_S: Final = 1e-3
"""First and longest time outside, which a packet ends; longer after each turn without any."""


class SharedEngine(Engine):
    """The engine of a proc with several threads in blocking calls."""

    def wait(self, ready: Callable[[], bool], *, polling: bool = False) -> None:
        """Run turns until ``ready()``, and let other threads in between."""
        threads, spin_s = self.threads, self._patience.spin_s
        outside_s, begun = _FIRST_S, 0.0
        if get_ident() != threads.owner:
            threads.enter()
        while not ready():
            if self.progress():
                outside_s, begun = _FIRST_S, 0.0
                if not threads.is_wanted():
                    continue
            elif not threads.is_wanted() and spin_s:
                now = perf_counter()
                begun = begun or now
                if now - begun < spin_s:
                    continue
            if ready():
                return
            threads.rest(self.doze, outside_s)
            outside_s = min(outside_s * 2, _LONGEST_S)
            if get_ident() != threads.owner:
                threads.come_back()

    def wait_for(self, operation: Operation) -> None:
        """Run turns until one operation is done."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        self.wait(lambda: operation.done)


def share(engine: Engine) -> None:
    """Let several threads wait in an engine from now on."""
    if not isinstance(engine, SharedEngine):
        engine._others = True  # no wait may block in one channel
        engine.__class__ = SharedEngine
