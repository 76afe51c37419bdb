"""Sends and receives under way: what the engine drives and a request of the api looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from impi.engine.payload import DirectTarget
from impi.records import record
from impi.semantics.constants import ANY_SOURCE
from impi.semantics.errors import MPIException
from impi.transfer import Incoming, Outgoing
from impi.vendors.base import Arrival, Pending

if TYPE_CHECKING:
    from impi.engine.context import Context
    from impi.engine.payload import Source, Target

__all__ = ["SENT", "Compound", "CopyOperation", "Message", "Operation", "ReceiveOperation", "SendOperation"]


class Operation(Protocol):
    """Something under way in the engine."""

    done: bool
    cancelled: bool

    def advance(self) -> bool:
        """Look whether it is complete, moving it on where it can; returns :attr:`done`."""
        ...


class Compound:
    """One that consists of others."""

    __slots__ = ()

    @property
    def awaited(self) -> Operation | None:
        """The only one that it waits for just now; None: there are several, or none of these brings it on."""
        raise NotImplementedError


@record(frozen=False, eq=False)
class Message:
    """A message that has arrived (its first packet, or the vendor's envelope) but may not be matched yet."""

    source: int
    """Rank in the communicator."""
    tag: int
    nbytes: int
    count: int
    local: Arrival | None
    remote: Incoming | None
    external: bool
    """Whether its octets are external32."""


class SendOperation:
    """A send; done when the buffer may be used again (and, if synchronous, the message is matched)."""

    __slots__ = ("_keep", "_local", "_remote", "cancelled", "done")

    def __init__(self, local: Pending | None, remote: Outgoing | None, keep: Source | None) -> None:
        self._local = local
        self._remote = remote
        self._keep = keep
        self.cancelled = False
        self.done = local is None and remote is None
        self.advance()

    def advance(self) -> bool:
        """Ask the vendor or the transfer machine."""
        if not self.done:
            if self._remote is not None:
                self.done = self._remote.done
                self.cancelled = self._remote.cancelled is True
            elif self._local is not None:
                self.done = self._local.test()
            if self.done:
                self._keep = None
        return self.done

    @property
    def remote(self) -> Outgoing | None:
        """The transfer machine's side of it, where the destination is another client's proc."""
        return self._remote


SENT: Final = SendOperation(None, None, None)
"""Every send that was done with at once; nothing of it can change."""


class ReceiveOperation:
    """A receive; matched at most once, then done when its octets are in place."""

    __slots__ = (
        "_delivered",
        "_message",
        "_pending",
        "cancelled",
        "collective",
        "context",
        "done",
        "failure",
        "maybe_local",
        "source",
        "tag",
        "target",
        "truncated",
    )

    def __init__(self, context: Context, source: int, tag: int, target: Target, *, collective: bool) -> None:
        self.context = context
        self.source = source
        self.tag = tag
        self.target = target
        self.collective = collective
        self.maybe_local = source == ANY_SOURCE or source in context.shadow_of
        """Whether a proc of our own client can be its source."""
        self.done = False
        self.cancelled = False
        self.truncated = False
        self.failure: MPIException | None = None
        self._message: Message | None = None
        self._delivered: tuple[int, int, int, int, bool] | None = None
        self._pending: Pending | None = None

    @property
    def message(self) -> Message | None:
        """What it was matched with; None before."""
        if self._message is None and self._delivered is not None:
            source, tag, nbytes, count, external = self._delivered
            self._message = Message(source, tag, nbytes, count, None, None, external)
        return self._message

    @property
    def is_remote(self) -> bool:
        """Whether it was matched with a message of another client."""
        return self._message is not None and self._message.remote is not None

    def deliver(self, source: int, tag: int, count: int, octets: memoryview, *, external: bool) -> None:
        """It is matched with a message that is here as a whole; ``octets`` are good until this returns."""
        nbytes = len(octets)
        self._delivered = (source, tag, nbytes, count, external)
        self.done = True
        target = self.target
        if type(target) is DirectTarget:  # what follows, without the calls
            if nbytes <= len(target.view):
                target.view[:nbytes] = octets
            else:
                self.truncated = True
            return
        capacity = target.capacity(external=external)
        if capacity is not None and nbytes > capacity:
            self.truncated = True
            return
        target.landing(nbytes, external=external)[:] = octets
        try:
            target.finish(nbytes, count, external=external)
        except MPIException as failure:
            self.failure = failure  # as in advance()

    def place(self, message: Message, shortest: int) -> memoryview | list[memoryview] | None:
        """It is matched with ``message``: where the octets go; None for nowhere, as they are more than it takes.

        Several places only if it comes over a channel, and they have ``shortest`` octets, on the average.
        """
        self._message = message
        capacity = self.target.capacity(external=message.external)
        if capacity is not None and message.nbytes > capacity:
            self.truncated = True
            return None
        if message.remote is not None:
            places = self.target.places(message.nbytes, external=message.external, shortest=shortest)
            if places is not None:
                return places if len(places) > 1 else places[0]
        return self.target.landing(message.nbytes, external=message.external)

    def started(self, pending: Pending | None) -> None:
        """The vendor has begun to receive it (None: the transfer machine has)."""
        self._pending = pending

    def advance(self) -> bool:
        """Whether all octets are there; then converts them."""
        message = self._message
        if self.done or message is None:
            return self.done
        if message.remote is not None:
            arrived = message.remote.done
        else:
            arrived = self._pending is not None and self._pending.test()
        if arrived:
            self.done = True
            if not self.truncated:
                try:
                    self.target.finish(message.nbytes, message.count, external=message.external)
                except MPIException as failure:
                    # Whoever drives the engine just now is not who posted the receive: its completion raises.
                    self.failure = failure
        return self.done


class CopyOperation:
    """A communicator that the vendor makes; done when it can be used."""

    __slots__ = ("_complete", "_pending", "cancelled", "done")

    def __init__(self, pending: Pending, complete: Callable[[], None]) -> None:
        self._pending = pending
        self._complete = complete
        self.cancelled = False
        self.done = False
        self.advance()

    def advance(self) -> bool:
        """Ask the vendor."""
        if not self.done and self._pending.test():
            self.done = True
            self._complete()
        return self.done
