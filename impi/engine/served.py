"""The part of the engine for windows: a helper thread that serves a proc which computes."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

from impi.engine.threads import Threads

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

    def serve(self) -> bool | None:
        """Run a turn for a thread that is no program's; None: another thread is in the engine.

        Returns whether anything moved.
        """
        former = self.threads.attempt()
        if former is None:
            return None
        try:
            return not self.closed and self.progress()
        finally:
            self.threads.restore(former)

    def progress(self, timeout: float = 0.0) -> bool:
        """See :meth:`impi.engine.engine.Engine.progress`."""
        raise NotImplementedError
