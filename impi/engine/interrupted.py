"""The part of the engine for communicators that are revoked, and procs that are lost.

In a job that does not survive losses there are none, and what is said of them here is trivial;
:class:`impi.engine.surviving.SurvivingEngine` knows more.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from impi.engine.operations import SendOperation
from impi.semantics.errors import MPIException, again

if TYPE_CHECKING:
    from impi.engine.context import Context
    from impi.engine.operations import Operation, ReceiveOperation
    from impi.engine.recovery import Recovery


class Interrupted:
    """Base of :class:`impi.engine.engine.Engine`."""

    recovery: Recovery
    failed: Mapping[int, str] = MappingProxyType({})
    """World ranks of procs that are lost, in order, and why; empty if the job is not resilient."""
    _contexts: dict[int, Context]
    _active: list[Operation]

    if TYPE_CHECKING:

        def withdraw(self, operation: ReceiveOperation) -> bool:
            """See :meth:`Engine.withdraw`."""
            ...

    def follow(self, news: socket.socket) -> None:
        """Hear on this connection to impirun who is lost; here nobody is."""

    def context(self, cid: int) -> Context:
        """Return the open communicator with that id."""
        return self._contexts[cid]

    def known(self, cid: int) -> Context | None:
        """Return the open communicator with that id, if there is one."""
        return self._contexts.get(cid)

    def interrupt(self, context: Context, failure: MPIException) -> None:
        """Let all calls on a communicator fail, also those under way: it was revoked."""
        context.revoked = failure
        context.faults.lose(failure)
        for matcher in context.matchers:
            for operation in list(matcher.posted()):
                self.give_up(operation, failure)
        for active in self._active:
            if isinstance(active, SendOperation) and active.remote and active.remote.cid & ~1 == context.cid:
                active.give_up(again(failure), context)
        if context.when_revoked is not None:
            context.when_revoked()

    def give_up(self, operation: ReceiveOperation, failure: MPIException) -> None:
        """End a posted receive that gets no message any more."""
        if self.withdraw(operation):
            operation.cancelled = False
            operation.failure = again(failure)

    def acknowledge(self, context: Context, worlds: Sequence[int]) -> int:
        """The program knows of these losses; return of how many it knows. Here there are none."""
        return len(worlds)

    def acknowledged(self, context: Context) -> list[int]:
        """Return the world ranks of the losses that the program has acknowledged."""
        return []

    def settle(self, operation: ReceiveOperation) -> None:
        """End a blocking receive that has failed; only in a resilient job it may still wait."""
