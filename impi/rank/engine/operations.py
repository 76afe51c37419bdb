"""Sends and receives under way: driven by the engine, inspected by requests of the api.

How it works: the engine calls ``advance`` in each turn until the operation is ``done``. An
operation has at most one local part (a request of the MPI library) and one remote part (a message
of the transfer machine), and ends with the part that it has. It keeps its buffer alive until then:
the program may drop its own reference as soon as the call returns.

A failure is kept, not raised: the thread whose turn finds it need not be the one that waits for it.
The request's wait raises it (:mod:`impi.rank.api.p2p.completion`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException
from impi.protocol.transfer import Incoming, Outgoing
from impi.rank.engine.channels.payload import DirectTarget
from impi.rank.vendors.base import Arrival, Pending, Sending

if TYPE_CHECKING:
    from impi.rank.engine.channels.payload import Source, Target
    from impi.rank.engine.context import Context


class Operation(Protocol):
    """An activity of the engine that ends."""

    done: bool
    cancelled: bool

    def advance(self) -> bool:
        """Move on as far as possible; return :attr:`done`."""


class Compound:
    """An operation that consists of others."""

    __slots__ = ()

    @property
    def awaited(self) -> Operation | None:
        """The only operation that this one waits for; None: there are several, or none."""
        raise NotImplementedError


@record(frozen=False, eq=False)
class TakenMessage:
    """A message whose first packet, or vendor envelope, is here; it may not be matched yet."""

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
    """A send; done when its buffer is free (and, if synchronous, the message is matched)."""

    __slots__ = (
        "_keep",
        "_local",
        "_remote",
        "cancelled",
        "context",
        "done",
        "failure",
    )

    def __init__(
        self, local: Sending | None, remote: Outgoing | None, keep: Source | None
    ) -> None:
        self._local = local
        self._remote = remote
        self._keep = keep
        self.cancelled = False
        self.failure: MPIException | None = None
        self.done = local is None and remote is None
        # Asked at once: most sends are complete when they begin, and then no turn has to track
        # them.
        self.advance()

    def advance(self) -> bool:
        if not self.done:
            if self._remote is not None:
                self.cancelled = self._remote.cancelled is True
                self.done = self._remote.done
            elif self._local is not None:
                try:
                    done = self._local.test()
                    self.cancelled = self._local.cancelled
                    self.done = done
                except MPIException as failure:
                    # The wait raises: the engine's current driver need not have started the send.
                    self.failure, self.done = failure, True

            if self.done:
                # The program may keep the request for long; the octets need not live so.
                self._keep = None

        return self.done

    def give_up(self, failure: MPIException, context: Context) -> None:
        """End it: its message goes nowhere any more; ``context``: whose error handler is called."""
        if not self.done:
            self.failure, self.context, self.done = failure, context, True

    @property
    def local(self) -> Sending | None:
        """The vendor's side, if the destination is of our own client."""
        return self._local

    @property
    def remote(self) -> Outgoing | None:
        """The transfer machine's side, if the destination is of another client."""
        return self._remote


SENT: Final = SendOperation(None, None, None)
"""Every send that was complete at once; shared, because nothing of it can change."""


class ReceiveOperation:
    """A receive; matched at most once, then done when its octets are in place.

    A thread of the program reads ``done`` without entering the engine, where another thread may be
    in the middle of this operation: a helper thread, or another one of the program. So ``done`` is
    set when nothing else is left to do.
    """

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

    def __init__(
        self,
        context: Context,
        source: int,
        tag: int,
        target: Target,
        *,
        collective: bool,
    ) -> None:
        self.context = context
        self.source = source
        self.tag = tag
        self.target = target
        self.collective = collective
        self.maybe_local = context.sender_of(source) is None
        """Whether a proc of our own client can be the source."""
        self.done = False
        self.cancelled = False
        self.truncated = False
        self.failure: MPIException | None = None
        self._message: TakenMessage | None = None
        # The envelope of a message that came whole. An object of it is made only if a status or a
        # probe asks (:attr:`message`): most receives never do.
        self._delivered: tuple[int, int, int, int, bool] | None = None
        self._pending: Pending | None = None

    @property
    def message(self) -> TakenMessage | None:
        if self._message is None and self._delivered is not None:
            source, tag, nbytes, count, external = self._delivered
            self._message = TakenMessage(
                source, tag, nbytes, count, None, None, external
            )

        return self._message

    @property
    def external(self) -> bool:
        """Whether the octets of its message are external32."""
        if self._delivered is not None:
            return self._delivered[4]

        return self._message is not None and self._message.external

    @property
    def is_remote(self) -> bool:
        return self._message is not None and self._message.remote is not None

    def deliver(
        self, source: int, tag: int, count: int, octets: memoryview, *, external: bool
    ) -> None:
        """Take a whole message, already matched; ``octets`` are valid until this returns."""

        nbytes = len(octets)
        self._delivered = (source, tag, nbytes, count, external)

        # ``done`` comes last on each way: see the class.
        target = self.target
        if type(target) is DirectTarget:  # the code below, without its calls
            if nbytes <= len(target.view):
                target.view[:nbytes] = octets
            else:
                self.truncated = True

            self.done = True
            return

        capacity = target.capacity(external=external)
        # Too long: nothing is written, and the end of the request raises ERR_TRUNCATE.
        if capacity is not None and nbytes > capacity:
            self.truncated = True
            self.done = True
            return

        try:
            target.landing(nbytes, external=external)[:] = octets
            target.finish(nbytes, count, external=external)
        except MPIException as failure:
            self.failure = failure  # see advance()
        finally:
            self.done = True

    def place(
        self, message: TakenMessage, shortest: int
    ) -> memoryview | list[memoryview] | None:
        """Match ``message``; return where its octets go, or None if it is too long.

        Several places only for a message of a channel, with ``shortest`` octets on the average.
        """

        # The capacity depends on the form: an external32 long may have 4 octets, ours has 8.
        self._message = message

        capacity = self.target.capacity(external=message.external)
        if capacity is not None and message.nbytes > capacity:
            self.truncated = True
            return None

        # Only a channel fills several places, by one system call. The library takes one.
        if message.remote is not None:
            places = self.target.places(
                message.nbytes, external=message.external, shortest=shortest
            )
            if places is not None:
                return places if len(places) > 1 else places[0]

        return self.target.landing(message.nbytes, external=message.external)

    def started(self, pending: Pending | None) -> None:
        """Note that the receive has begun at the vendor (None: at the transfer machine)."""
        self._pending = pending

    def advance(self) -> bool:
        """Whether all octets are here; converts them then."""

        message = self._message
        if self.done or message is None:
            return self.done

        if message.remote is not None:
            arrived = message.remote.done
        else:
            arrived = self._pending is not None and self._pending.test()

        if arrived:
            try:
                if not self.truncated:
                    self.target.finish(
                        message.nbytes, message.count, external=message.external
                    )
            except MPIException as failure:
                # The wait raises: the engine's current driver need not have posted the receive.
                self.failure = failure
            finally:
                self.done = True

        return self.done


class CopyOperation:
    """A communicator under construction at the vendor; done when it can be used."""

    __slots__ = ("_complete", "_pending", "cancelled", "done")

    def __init__(self, pending: Pending, complete: Callable[[], None]) -> None:
        self._pending = pending
        self._complete = complete
        self.cancelled = False
        self.done = False
        self.advance()

    def advance(self) -> bool:
        if not self.done and self._pending.test():
            try:
                self._complete()
            finally:
                self.done = True  # last, as in a receive

        return self.done


def is_remote(operation: Operation) -> bool:
    """Whether only packets can complete the operation."""
    awaited = awaited_by(operation)
    if isinstance(awaited, SendOperation):
        return awaited.remote is not None

    # Only a collective waits for receives that are not matched.
    return isinstance(awaited, ReceiveOperation) and (
        awaited.is_remote or not awaited.maybe_local
    )


def awaited_by(operation: Operation) -> Operation | None:
    """Return the operation; for a collective the one operation that it waits for, or None."""
    return operation if not isinstance(operation, Compound) else operation.awaited
