"""The part of the engine for helper threads, and for callers that poll a library themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING

from impi.engine.threads import Threads
from impi.engine.waiting import LONGEST_S, Patience

if TYPE_CHECKING:
    from impi.engine.channels import Channels
    from impi.engine.context import Context
    from impi.engine.operations import Message, ReceiveOperation
    from impi.semantics.matching import Matcher
    from impi.vendors.base import Vendor

    Inbox = tuple[Callable[[int, int], ReceiveOperation | None], dict[int, int], Context]


class Served:
    """Base of :class:`impi.engine.engine.Engine`."""

    threads: Threads
    vendor: Vendor
    encrypted: bool
    _channels: Channels
    _inboxes: dict[int, Inbox]
    _others: bool
    _patience: Patience
    asks: range

    closed = False
    """Whether the channels are closed."""

    def hand_over(self, context: Context, matcher: Matcher[ReceiveOperation, Message]) -> None:
        """Let ``matcher`` have the point-to-point messages of a context that has had none yet."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        context.matchers = (matcher, context.matchers[1])
        self._inboxes[context.cid] = (matcher.meet, context.rank_of, context)

    def start_serving(self, context: Context) -> None:
        """Take local messages of a context at any time; nothing else announces them."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if context.shadow is not None and context.shadow.size > 1:
            context.count_waiting(1)

    def stop_serving(self, context: Context) -> None:
        """Reverse :meth:`start_serving`."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if context.shadow is not None and context.shadow.size > 1:
            context.count_waiting(-1)

    def arrivals(self) -> int:
        """Return a descriptor that is readable when messages may be here."""
        return self._channels.fileno()

    @property
    def is_polled(self) -> bool:
        """Whether messages can come that :meth:`arrivals` does not tell of."""
        return self.encrypted or (self._others and self.vendor.fileno() is None)

    def serve(self, contexts: Sequence[Context] = ()) -> bool | None:
        """Run a turn for a thread that is no program's; None: another thread is in the engine.

        ``contexts`` take local messages in this turn. Returns whether anything moved.
        """
        former = self.threads.attempt()
        if former is None:
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
            self.threads.restore(former)

    def doze(self, seconds: float) -> None:
        """Sleep until a packet may be here, at most ``seconds``; for any thread."""
        self._channels.doze(seconds)

    def ask(self, test: Callable[[], bool]) -> bool:
        """Poll ``test`` between turns while waits spin, at most 1 ms; return its last result."""
        spin_s = min(self._patience.spin_s, LONGEST_S)
        begun = 0.0
        while spin_s and not self.threads.is_wanted():
            self.progress()
            for _ in self.asks:
                if test():
                    return True
            now = perf_counter()
            begun = begun or now
            if now - begun > spin_s:
                break
        return test()

    def progress(self, timeout: float = 0.0) -> bool:
        """See :meth:`impi.engine.engine.Engine.progress`."""
        raise NotImplementedError
