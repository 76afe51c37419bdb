"""The part of the engine that waits: turn by turn, with sleeps until a packet may be here."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Final

from impi.engine.operations import ReceiveOperation, SendOperation, awaited_by, is_remote
from impi.engine.threads import Threads, longest_sleep
from impi.engine.waiting import Patience
from impi.semantics.constants import ANY_SOURCE

if TYPE_CHECKING:
    from impi.engine.channels import Channels
    from impi.engine.context import Context
    from impi.engine.operations import Operation

_NAP_S: Final = 20e-6
"""First sleep of a wait on a polled vendor (each next one is 5 us longer), or outside (twice)."""
_LONGEST_NAP_S: Final = 1e-3
_BRIEF_S: Final = 30e-6
"""Spin on one channel of a wait that other threads may share."""
IDLE_S: Final = 1.0
"""Longest sleep if every event has a descriptor; bounds the effect of a lost wake-up."""
REMOTE_ONLY_S: Final = 0.05
"""Longest sleep while only channels matter: the vendor may have eager sends to push."""


class Waits:
    """Base of :class:`impi.engine.engine.Engine`."""

    threads: Threads
    _active: list[Operation]
    _channels: Channels
    _hosts: tuple[int, ...]
    _longest_s: float
    _host_of: list[int]
    _others: bool
    _patience: Patience
    _vendor_fd: int | None
    _waiters: dict[int, Context]

    def wait(self, ready: Callable[[], bool], *, polling: bool = False) -> None:
        """Run turns until ``ready()``; ``polling``: for a local message that no receive awaits."""
        threads = self.threads
        if get_ident() != threads.owner:
            threads.enter()
        spins, begun, naps, timeout = self._patience.spin_s, 0.0, 0, 0.0
        while not ready():
            if threads.crowded:
                return self._wait_shared(ready)
            if self.progress(timeout):
                begun, naps, timeout = 0.0, 0, 0.0
                continue
            if spins:
                now = perf_counter()
                begun = begun or now
                if now - begun < spins:
                    continue
            if self._vendor_fd is not None:
                timeout = longest_sleep(IDLE_S)
            elif not (polling and self._others) and not self._local_interest():
                timeout = REMOTE_ONLY_S
            else:
                # No descriptor: naps, which a packet ends, leave the core to the awaited proc.
                timeout = min(_NAP_S * (1 + naps / 4), _LONGEST_NAP_S)
                naps += 1
        return None

    def _wait_shared(self, ready: Callable[[], bool]) -> None:
        """Run turns until ``ready()``, and let other threads in between.

        It sleeps outside of the engine, longer after each turn without an event, until a packet
        is here. Another thread may read that packet: so the sleep is short.
        """
        threads, spin_s = self.threads, self._patience.spin_s
        outside_s, begun = _NAP_S, 0.0
        while not ready():
            if self.progress():
                outside_s, begun = _NAP_S, 0.0
                if not threads.is_wanted():
                    continue
            elif not threads.is_wanted() and spin_s:
                now = perf_counter()
                begun = begun or now
                if now - begun < spin_s:
                    continue
            if ready():
                return
            threads.outside(self._channels.doze, outside_s)
            outside_s = min(outside_s * 1.25, _LONGEST_NAP_S)
            if get_ident() != threads.owner:
                threads.come_back()

    def wait_for(self, operation: Operation) -> None:
        """Run turns until one operation is done; block in one channel if only that matters."""
        threads = self.threads
        if get_ident() != threads.owner:
            threads.enter()
        spin_s = self._patience.spin_s
        if not self._others and isinstance(operation, ReceiveOperation) and operation.maybe_local:
            self.progress()  # our messages to ourselves; none can follow while we wait
        while not operation.done and (host := self._only_host(operation)) is not None:
            if self._active and self._advance():
                continue  # the end of one may be what another waits for
            if threads.crowded:
                # Others wait for that long; most answers come sooner. Then the wait is shared.
                if threads.is_wanted() or not self._channels.wait_on(host, min(spin_s, _BRIEF_S), 0.0):
                    break
            else:
                moved = self._channels.wait_on(host, spin_s, self._longest_s)
                spin_s = self._patience.spin_s if moved else 0.0
        if not operation.done:
            self.wait(lambda: operation.done)

    def _local_interest(self) -> bool:
        """Whether any operation under way depends on the vendor."""
        if self._others and self._waiters:
            return True
        return not all(map(is_remote, self._active))

    def _only_host(self, operation: Operation) -> int | None:
        """Return the host whose packets alone can complete the operation, or None."""
        host = None
        awaited = awaited_by(operation)
        if isinstance(awaited, ReceiveOperation):
            sender = awaited.context.sender_of(awaited.source)  # now: of an LCO it changes
            if sender is not None:
                host = self._host_of[sender]
            elif awaited.source == ANY_SOURCE and not self._others and len(self._hosts) == 1:
                host = self._hosts[0]
        elif isinstance(awaited, SendOperation) and awaited.remote is not None:
            host = self._host_of[awaited.remote.dest]
        return None if host is None or self._local_interest() else host

    def _advance(self) -> bool:
        """Advance all operations under way; return whether one has ended."""
        raise NotImplementedError

    def progress(self, timeout: float = 0.0) -> bool:
        """See :meth:`impi.engine.engine.Engine.progress`."""
        raise NotImplementedError
