"""Turns of the engine, and waits, which repeat turns and sleep between them.

How it works: a turn calls the vendor, takes local messages, advances all operations, and reads and
writes the channels. It serves *everything* of the proc, whatever the program waits for. Otherwise
a proc that blocks on a local message would not serve its channels, and jobs would deadlock.

A wait repeats turns. While nothing happens it goes through stages: it spins for the time that
:class:`~.channels.waiting.Patience` gives, then sleeps until a descriptor wakes it. If the MPI
library has no descriptor, the wait takes naps, which become longer. In a process of several threads
the wait sleeps outside of the engine (:meth:`Turns._wait_shared`). A wait that one channel alone
can end reads that channel directly (:meth:`Turns.wait_for`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final

from impi.protocol.semantics.constants import ANY_SOURCE
from impi.rank.engine.channels.entries import any_thread, checked_entry, entry
from impi.rank.engine.channels.threads import NOTICE_S
from impi.rank.engine.channels.waiting import ASKS, LONGEST_S, Patience
from impi.rank.engine.context import Context
from impi.rank.engine.operations import (
    Operation,
    ReceiveOperation,
    SendOperation,
    awaited_by,
    is_remote,
)
from impi.rank.vendors.base import Vendor

if TYPE_CHECKING:
    from impi.rank.engine.channels.host_ways import Ways
    from impi.rank.engine.matchers import Matching

# First sleep of a wait on a polled vendor, and of one outside of the engine.
_NAP_S: Final = 20e-6
_LONGEST_NAP_S: Final = 1e-3
# Sleeps on a polled vendor grow with the wait, by which a message is late by a hundredth at most. A
# proc that waits for seconds leaves its core alone.
_NAP_OF_WAIT: Final = 0.01
# Time outside of the engine after a long sleep without an event. A thread of C may be waiting to
# come in, which Python does not count.
_LET_IN_S: Final = 50e-6
# Time of a wait in which long messages inside the library are pushed. A longer wait is for a proc
# that is late, and leaves the core alone.
_PUSH_S: Final = 0.2
_BRIEF_S: Final = 30e-6  # Longest spin on one channel once other threads call, too
IDLE_S: Final = 1.0
"""Longest sleep; bounds the effect of a lost wake-up."""
REMOTE_ONLY_S: Final = 0.05
"""First sleep while only channels matter: a polled vendor may have eager sends to push."""


class Turns:
    """Drives the operations of a proc, its vendor and its channels.

    Args:
        matching: the operations under way, and the matchers of local messages.
        ways: the ways to other hosts, with the channels.
        vendor: the library behind the procs of this client.
        patience: how long waits spin.
        others: whether another proc can send to us through the vendor.
    """

    def __init__(
        self,
        matching: Matching,
        ways: Ways,
        vendor: Vendor,
        patience: Patience,
        *,
        others: bool,
    ) -> None:
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
        """A range: a caller polls a library request that often, and then the engine has a turn."""
        self.watch: Callable[[], None] | None = None
        """Called in each turn. While it is set, no wait reads one channel alone, without turns."""
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
        """Run a turn that sleeps for at most ``timeout``; return whether anything moved.

        Raises:
            JobError: the job cannot go on.
        """
        with self.threads.lock:
            return self._turn(timeout)

    def _turn(self, timeout: float = 0.0) -> bool:
        # Local messages before operations, so that a receive that is matched now may end now. The
        # channels come last and may sleep, but only if nothing else has moved.
        if self.watch is not None:
            self.watch()

        # A library moves its messages in calls only. Without this call its sends would not go on
        # while the program waits for packets.
        self._vendor.progress()

        moved, heard = self._take_local(), len(self.waiters)
        if self.active:
            moved |= self._advance_operations()

        # Packets of this turn may end operations. Without a second round the wait would see that
        # only after its next sleep. And the messages of a communicator that waits only since this
        # turn may be here: no descriptor tells of them again.
        if moved or not timeout or len(self.waiters) > heard:
            moved |= self.channels.poll(0.0)
        elif self.channels.poll(timeout):
            self._take_local()  # the event may have been local messages
            moved = True

        if moved and self.active:
            self._advance_operations()

        return moved

    def _take_local(self) -> bool:
        """Take the local messages that the library has; return whether there was any."""
        any_came = False
        # A copy: a message that is drained may end the last receive of its communicator. The
        # communicator then leaves the table.
        for context in tuple(self.waiters.values()):
            any_came |= self._drain(context)

        return any_came

    def _advance_operations(self) -> bool:
        """Advance all operations under way; return whether one has ended."""

        # The list itself stays the same object, because others hold it.
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
        """Run turns until ``ready()``.

        ``polling``: a local message for which no receive is posted may end the wait.
        """
        with self.threads.lock:
            threads, patience, begun, timeout = self.threads, self.patience, 0.0, 0.0
            dozes = patience.dozes and self._vendor_fd is not None
            spin_s = 0.0 if dozes else patience.spin_s
            if dozes and not threads.notice():
                timeout = self._sleep_after(0.0, polling=polling)

            # As long as there is one thread, it sleeps inside of the engine, in the poll of a turn:
            # no other thread could want in.
            while not (threads.shared or ready()):
                if self._turn(timeout):
                    # The next event is likely to be near: spin again
                    begun, timeout = 0.0, 0.0
                    continue

                if timeout >= REMOTE_ONLY_S:
                    threads.outside(sleep, _LET_IN_S)

                # The clock starts at the first turn without an event, so a wait that ends at once
                # never asks for the time.
                now = perf_counter()

                begun = begun or now
                # First a spin: an answer often comes sooner than a sleep would end.
                if now - begun < spin_s:
                    patience.pause()
                    continue

                # Asked after the spin, which is short. A sleep in here would keep others out.
                if threads.notice():
                    break

                timeout = self._sleep_after(now - begun, polling=polling)

            if threads.shared:
                self._wait_shared(ready, polling=polling)

    def _sleep_after(self, waited_s: float, *, polling: bool) -> float:
        """Return how long a wait may sleep in its next turn; 0: it has given its core away."""

        # All that can end the wait makes a descriptor readable: epoll wakes us, however long we
        # sleep.
        if self._is_announced(polling=polling):
            return min(self.longest_s + waited_s * _NAP_OF_WAIT, IDLE_S)

        if waited_s < self.patience.yield_s:
            # Ranks share cores: the awaited one may need this core now
            self.patience.pause()
            return 0.0

        # No descriptor: naps, which a packet ends, leave the core to the awaited proc.
        longest_s = _LONGEST_NAP_S if self._push_library(waited_s) else IDLE_S

        return min(_NAP_S + waited_s * _NAP_OF_WAIT, longest_s)

    def _wait_shared(self, ready: Callable[[], bool], *, polling: bool) -> None:
        """Run turns until ``ready()``, and let other threads in between.

        It sleeps outside of the engine, longer after each turn without an event, until a packet
        is here. Once other threads call, they may read that packet: then the sleep is short.
        """
        threads, spin_s = self.threads, self.patience.spin_s

        outside_s, begun = _NAP_S, 0.0
        # This thread has the lock in each turn. Only outside() below leaves the engine, however
        # deep the entries on this stack are nested.
        while not ready():
            if self._turn():
                outside_s, begun = _NAP_S, 0.0
                if not threads.is_wanted():
                    continue
            elif not threads.is_wanted() and spin_s:
                now = perf_counter()

                begun = begun or now
                # No other thread wants in, so the spin delays none.
                if now - begun < spin_s:
                    self.patience.pause()
                    continue

            # This thread's turn or another thread's may have ended the wait already.
            if ready():
                return

            begun = begun or perf_counter()
            self._push_library(perf_counter() - begun)
            # doze() reads nothing. Another thread's turn may read the packet that this one waits
            # for. Then no descriptor wakes this thread, so it sleeps briefly once others call.
            threads.outside(self.channels.doze, outside_s)
            alone = not threads.crowded and self._is_announced(polling=polling)
            outside_s = min(outside_s * 1.25, NOTICE_S if alone else _LONGEST_NAP_S)

    def _push_library(self, waited_s: float) -> bool:
        """Let the library move a long message before a nap; whether it may have one under way."""

        if self._vendor_fd is not None or not any(map(_asks_library, self.active)):
            return False

        # Where it copies by shared memory, one call moves 8 to 32 KiB. With one call a nap, 4 MiB
        # took 500 naps.
        if waited_s < _PUSH_S:
            for _ in range(ASKS):
                self._vendor.progress()

        return True

    def _is_announced(self, *, polling: bool) -> bool:
        """Whether each event that can end a wait makes a descriptor readable."""
        return self._vendor_fd is not None or not (
            (polling and self.others) or self._local_interest()
        )

    @checked_entry
    def wait_for(self, operation: Operation) -> None:
        """Run turns until one operation is done; block in one channel if only that matters."""
        with self.threads.lock:
            # The fast path of Recv and Wait: one channel, one recv, no epoll and no turn. It holds
            # while that channel's packets alone can end the operation.
            threads, spin_s = self.threads, self.patience.spin_s
            sleep_s = self.longest_s
            if (
                not self.others
                and isinstance(operation, ReceiveOperation)
                and operation.maybe_local
            ):
                self._turn()  # our messages to ourselves; none can follow while we wait

            while (
                not operation.done and (host := self._only_host(operation)) is not None
            ):
                # Octets that the last wait has read may complete operations under way.
                if self.active and self._advance_operations():
                    continue  # the end of one may complete another

                if threads.shared:
                    # Most answers come within a brief spin. A longer one would delay other threads,
                    # so the wait is then shared.
                    spin_s = min(spin_s, _BRIEF_S) if threads.crowded else spin_s
                    if threads.is_wanted() or not self.channels.wait_on(
                        host, spin_s, 0.0
                    ):
                        break
                elif self.channels.wait_on(host, spin_s, sleep_s):
                    spin_s, sleep_s = self.patience.spin_s, self.longest_s
                else:
                    # Nothing came for sleep_s, so the next round sleeps at once.
                    spin_s, sleep_s = 0.0, longer(sleep_s)
                    threads.notice()

            # The operation is not done: other threads share the wait, or more than this channel
            # matters now.
            if not operation.done:
                self.wait(lambda: operation.done)

    def _local_interest(self) -> bool:
        """Whether any operation under way depends on the vendor."""
        # A posted receive, a probe or a collective that a local message could complete.
        if self.others and self.waiters:
            return True

        # A send or a local phase in the library: only its own test tells the end.
        return not all(map(is_remote, self.active))

    def _only_host(self, operation: Operation) -> int | None:
        """Return the host whose packets alone can complete the operation, or None."""

        # A wait in one channel would never call watch(), and would miss a local message.
        if self.watch is not None or self._local_interest():
            return None

        host = None

        awaited = awaited_by(operation)
        if isinstance(awaited, ReceiveOperation):
            # Asked in each round, because the sender of an LCO changes
            sender = awaited.context.sender_of(awaited.source)
            if sender is not None:
                host = self._ways.host_of[sender]
            elif (
                awaited.source == ANY_SOURCE
                and not self.others
                and len(self._ways.hosts) == 1
            ):
                host = self._ways.hosts[0]
        elif isinstance(awaited, SendOperation) and awaited.remote is not None:
            # A send ends by packets of its destination: credit (3.6), a SYNCACK (3.7), or the
            # answer to a CANCEL (3.7.4).
            host = self._ways.host_of[awaited.remote.dest]

        return host

    @any_thread
    def ask(self, test: Callable[[], bool]) -> bool:
        """Poll ``test`` between turns while waits spin, at most 1 ms; return its last result.

        Each round is an entry of the engine, so no other thread changes values that ``test``
        compares.
        """
        spin_s, begun = min(self.patience.spin_s, LONGEST_S), 0.0
        # Without a spin, or with threads that want in, the caller's own wait takes over: it sleeps,
        # and lets others in.
        while spin_s and not self.threads.is_wanted():
            if self._turn_and_test(test):
                return True

            now = perf_counter()

            begun = begun or now
            if now - begun > spin_s:
                break

        return self._test_inside(test)

    @entry
    def _turn_and_test(self, test: Callable[[], bool]) -> bool:
        self._turn()
        for _ in self.asks:  # noqa: SIM110  (a generator would cost each test a frame)
            if test():
                return True

        return False

    @entry
    def _test_inside(self, test: Callable[[], bool]) -> bool:
        return test()

    # ---- turns of helper threads -------------------------------------------------------

    @entry
    def start_serving(self, context: Context) -> None:
        """Take local messages of a context in each turn from now on: nothing announces them."""
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
        """Run a turn for a helper thread of impi's own; None: another thread is in the engine.

        ``contexts`` take local messages in this turn. Returns whether anything moved. The thread is
        a guest (:meth:`Threads.attempt`), so it enters by no guard.
        """
        # A guest never waits for the lock: whoever is in takes turns itself, or leaves soon.
        if not self.threads.attempt():
            return None

        # Local messages of these communicators are taken even if no receive of the engine waits for
        # one. The program is in a call of the library on them, and a notice of a fault may come.
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


def longer(sleep_s: float) -> float:
    """Return the next sleep of a wait, after one in which nothing came.

    With this factor, each sleep lasts a hundredth of all sleeps before it, and as long as the
    first. A wait of that kind needs no clock.
    """
    return min(sleep_s * (1 + _NAP_OF_WAIT), IDLE_S)


def _asks_library(operation: Operation) -> bool:
    """Whether a request of the library may be under way, whose steps no descriptor announces."""
    awaited = awaited_by(operation)
    unmatched = isinstance(awaited, ReceiveOperation) and awaited.message is None

    return not (unmatched or is_remote(operation))
