"""Turns of the engine, and waits: turn by turn, with sleeps until a packet may be here.

A turn serves *everything* of the proc, local and remote. Otherwise a proc that blocks on a local
message would not serve its channels, and jobs would deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import sched_yield
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final

from impi.protocol.semantics.constants import ANY_SOURCE
from impi.rank.engine.channels.entries import any_thread, checked_entry, entry
from impi.rank.engine.channels.threads import NOTICE_S
from impi.rank.engine.channels.waiting import ASKS, LONGEST_S, Patience
from impi.rank.engine.context import Context
from impi.rank.engine.operations import Operation, ReceiveOperation, SendOperation, awaited_by, is_remote
from impi.rank.vendors.base import Vendor

if TYPE_CHECKING:
    from impi.rank.engine.channels.host_ways import Ways
    from impi.rank.engine.matchers import Matching

# First sleep of a wait on a polled vendor, or outside (twice).
_NAP_S: Final = 20e-6
_LONGEST_NAP_S: Final = 1e-3
# Sleeps on a polled vendor grow with the wait: a message is late by a hundredth of it at most, and
# a proc that waits for seconds leaves its core alone.
_NAP_OF_WAIT: Final = 0.01
# Time outside of the engine after a long sleep in vain. Python does not count threads of C: one may
# wait for its turn.
_LET_IN_S: Final = 50e-6
_BRIEF_S: Final = 30e-6  # Spin on one channel of a wait that other threads may share
IDLE_S: Final = 1.0
"""Longest sleep if every event has a descriptor; bounds the effect of a lost wake-up."""
REMOTE_ONLY_S: Final = 0.05
"""Longest sleep while only channels matter: the vendor may have eager sends to push."""


class Turns:
    """Drives the operations of a proc, its vendor and its channels.

    Args:
        matching: the operations under way, and what takes local messages.
        ways: with the channels.
        vendor: the library behind the procs of this client.
        patience: how long waits spin.
        others: whether another proc can send to us through the vendor.
    """

    def __init__(self, matching: Matching, ways: Ways, vendor: Vendor, patience: Patience, *, others: bool) -> None:
        self.threads = matching.threads
        self.channels = ways.channels
        self.active = matching.active
        """Operations that are not done."""
        self.waiters = matching.waiters
        """Communicators that need local messages, by id."""
        self.patience = patience
        self.others = others
        """Whether another proc can send to us through the vendor."""
        self.asks = range(ASKS if patience.spin_s else 1)
        """How often a caller polls a library request before a turn of the engine."""
        self.watch: Callable[[], None] | None = None
        """Called in each turn. While there is one, no wait is for one channel alone."""
        self.closed = False
        """Whether the channels are closed."""
        self._drain = matching.drain
        self._ways = ways
        self._vendor = vendor
        self._vendor_fd = vendor.fileno()
        self.longest_s = REMOTE_ONLY_S if self._vendor_fd is None else IDLE_S
        """Longest sleep of a wait for packets of one host."""

    # ---- turns -------------------------------------------------------------------------

    @checked_entry
    def progress(self, timeout: float = 0.0) -> bool:
        """Run a turn of vendor, channels, operations; sleep <= ``timeout``. Whether any moved.

        Raises:
            JobError: the job cannot go on.
        """
        with self.threads.lock:
            return self._turn(timeout)

    def _turn(self, timeout: float = 0.0) -> bool:
        if self.watch is not None:
            self.watch()
        self._vendor.progress()
        moved = False
        for context in tuple(self.waiters.values()):
            moved |= self._drain(context)
        if self.active:
            moved |= self._advance()
        moved |= self.channels.poll(0.0 if moved else timeout)
        return (bool(self.active) and self._advance()) or moved

    def _advance(self) -> bool:
        """Advance all operations under way; return whether one has ended."""
        running = self.active.copy()
        self.active.clear()  # advancing a collective starts further operations
        unfinished = [operation for operation in running if not operation.advance()]
        self.active.extend(unfinished)
        return len(unfinished) != len(running)

    @entry
    def track(self, operation: Operation) -> None:
        self.active.append(operation)

    # ---- waits of the program ----------------------------------------------------------

    @checked_entry
    def wait(self, ready: Callable[[], bool], *, polling: bool = False) -> None:
        """Run turns until ``ready()``; ``polling``: for a local message that no receive awaits."""
        with self.threads.lock:
            threads, patience, begun, timeout = self.threads, self.patience, 0.0, 0.0
            while not (threads.shared or ready()):
                if self._turn(timeout):
                    begun, timeout = 0.0, 0.0
                    continue
                if timeout == self.longest_s:
                    threads.outside(sleep, _LET_IN_S)
                now = perf_counter()
                begun = begun or now
                if now - begun < patience.spin_s:
                    continue
                if threads.notice():
                    break
                if self._is_announced(polling=polling):
                    timeout = self.longest_s
                elif now - begun < patience.yield_s:
                    sched_yield()
                else:
                    # No descriptor: naps, which a packet ends, leave the core to the awaited proc.
                    longest_s = _LONGEST_NAP_S if any(map(_asks_library, self.active)) else REMOTE_ONLY_S
                    timeout = min(_NAP_S + (now - begun) * _NAP_OF_WAIT, longest_s)
            if threads.shared:
                self._wait_shared(ready, polling=polling)

    def _wait_shared(self, ready: Callable[[], bool], *, polling: bool) -> None:
        """Run turns until ``ready()``, and let other threads in between.

        It sleeps outside of the engine, longer after each turn without an event, until a packet
        is here. Once other threads call, they may read that packet: then the sleep is short.
        """
        threads, spin_s = self.threads, self.patience.spin_s
        outside_s, begun = _NAP_S, 0.0
        while not ready():
            if self._turn():
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
            threads.outside(self.channels.doze, outside_s)
            alone = not threads.crowded and self._is_announced(polling=polling)
            outside_s = min(outside_s * 1.25, NOTICE_S if alone else _LONGEST_NAP_S)

    def _is_announced(self, *, polling: bool) -> bool:
        """Whether all that a wait may wait for makes a descriptor readable."""
        return self._vendor_fd is not None or not ((polling and self.others) or self._local_interest())

    @checked_entry
    def wait_for(self, operation: Operation) -> None:
        """Run turns until one operation is done; block in one channel if only that matters."""
        with self.threads.lock:
            threads, spin_s = self.threads, self.patience.spin_s
            if not self.others and isinstance(operation, ReceiveOperation) and operation.maybe_local:
                self._turn()  # our messages to ourselves; none can follow while we wait
            while not operation.done and (host := self._only_host(operation)) is not None:
                if self.active and self._advance():
                    continue  # the end of one may be what another waits for
                if threads.shared:
                    # Others may wait so long; most answers come sooner. Then the wait is shared.
                    spin_s = min(spin_s, _BRIEF_S) if threads.crowded else spin_s
                    if threads.is_wanted() or not self.channels.wait_on(host, spin_s, 0.0):
                        break
                elif self.channels.wait_on(host, spin_s, self.longest_s):
                    spin_s = self.patience.spin_s
                else:
                    spin_s = 0.0
                    threads.notice()
            if not operation.done:
                self.wait(lambda: operation.done)

    def _local_interest(self) -> bool:
        """Whether any operation under way depends on the vendor."""
        if self.others and self.waiters:
            return True
        return not all(map(is_remote, self.active))

    def _only_host(self, operation: Operation) -> int | None:
        """Return the host whose packets alone can complete the operation, or None."""
        if self.watch is not None:
            return None  # a wait for one channel would not hear what is watched
        host = None
        awaited = awaited_by(operation)
        if isinstance(awaited, ReceiveOperation):
            sender = awaited.context.sender_of(awaited.source)  # now: of an LCO it changes
            if sender is not None:
                host = self._ways.host_of[sender]
            elif awaited.source == ANY_SOURCE and not self.others and len(self._ways.hosts) == 1:
                host = self._ways.hosts[0]
        elif isinstance(awaited, SendOperation) and awaited.remote is not None:
            host = self._ways.host_of[awaited.remote.dest]
        return None if host is None or self._local_interest() else host

    @any_thread
    def ask(self, test: Callable[[], bool]) -> bool:
        """Poll ``test`` between turns while waits spin, at most 1 ms; return its last result.

        Each round is an entry: what ``test`` compares may not change before it has found something.
        """
        spin_s, begun = min(self.patience.spin_s, LONGEST_S), 0.0
        while spin_s and not self.threads.is_wanted():
            if self._look(test):
                return True
            now = perf_counter()
            begun = begun or now
            if now - begun > spin_s:
                break
        return self._test(test)

    @entry
    def _look(self, test: Callable[[], bool]) -> bool:
        self._turn()
        for _ in self.asks:  # noqa: SIM110  (a generator would cost each test a frame)
            if test():
                return True
        return False

    @entry
    def _test(self, test: Callable[[], bool]) -> bool:
        return test()

    # ---- turns of helper threads -------------------------------------------------------

    @entry
    def start_serving(self, context: Context) -> None:
        """Take local messages of a context at any time; nothing else announces them."""
        if context.shadow.comm is not None and context.shadow.comm.size > 1:
            context.count_waiting(1)

    @entry
    def stop_serving(self, context: Context) -> None:
        if context.shadow.comm is not None and context.shadow.comm.size > 1:
            context.count_waiting(-1)

    @any_thread
    def arrivals(self) -> int:
        """Return a descriptor that is readable when messages may be here."""
        return self.channels.fileno()

    @any_thread
    def serve(self, contexts: Sequence[Context] = ()) -> bool | None:
        """Run a turn for a thread that is no program's; None: another thread is in the engine.

        ``contexts`` take local messages in this turn. Returns whether anything moved. The thread is
        a guest (:meth:`Threads.attempt`), so it enters by no guard.
        """
        if not self.threads.attempt():
            return None
        try:
            for context in contexts:
                context.count_waiting(1)
            try:
                return not self.closed and self.progress()
            finally:
                for context in contexts:
                    context.count_waiting(-1)
        finally:
            self.threads.restore()

    @any_thread
    def doze(self, seconds: float) -> None:
        """Sleep until a packet may be here, at most ``seconds``; for any thread."""
        self.channels.doze(seconds)


def _asks_library(operation: Operation) -> bool:
    """Whether a request of the library may be under way: it takes steps of which nothing tells."""
    awaited = awaited_by(operation)
    unmatched = isinstance(awaited, ReceiveOperation) and awaited.message is None
    return not (unmatched or is_remote(operation))
