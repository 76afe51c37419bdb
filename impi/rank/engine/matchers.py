"""Messages and receives of a proc meet here, whatever way the messages come.

How it works: local messages come off the shadows of communicators (:meth:`Matching.drain`), those
of other clients from the channels: short ones whole (:meth:`Matching.deliver`), the rest by their
first packet (:meth:`Matching.remote_arrived`). A message of an unknown context is an orphan until
:meth:`Matching.adopt`.

One matcher for both sources keeps MPI's order: a receive from MPI_ANY_SOURCE may match a
local or a remote message, and the MPI library knows only one of them. So the engine takes every
message off the library before it matches, with a probe for any source and tag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from impi.base.errors import JobError
from impi.protocol.collectives.tags import REDUCE_TAG
from impi.protocol.semantics.errors import MPIException, again
from impi.protocol.transfer import Incoming
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.context import Context
from impi.rank.engine.operations import Operation, ReceiveOperation, TakenMessage

if TYPE_CHECKING:
    from impi.protocol.semantics.matching import Matcher
    from impi.rank.engine.channels.host_ways import Ways
    from impi.rank.engine.channels.threads import Threads
    from impi.rank.vendors.base import Arrival

Inbox: TypeAlias = tuple[
    Callable[[int, int], ReceiveOperation | None], dict[int, int], Context
]

_DRAINS: Final = 64  # Most local messages per turn; then the channels are served


class Matching:
    """The communicators of a proc and their messages, up to the start of each matched receive.

    Args:
        ways: the channels by which a matched message is accepted.
        threads: of this proc.
        external: whether messages between clients carry external32.
        shortest: average octets of a block from which a message to another client is not packed.
        reduce_on_p2p: whether tag 190 alone tells Reduce messages.
    """

    def __init__(
        self,
        ways: Ways,
        threads: Threads,
        *,
        external: bool,
        shortest: int,
        reduce_on_p2p: bool,
    ) -> None:
        self.threads = threads
        self.shortest = shortest
        self.contexts: dict[int, Context] = {}
        """Open communicators by context id; read only."""
        self.waiters: dict[int, Context] = {}
        """Open communicators that need local messages, by id."""
        self.active: list[Operation] = []
        """Operations that are not done; always the same list, so others may keep it."""
        self.unknown: Callable[[Incoming], Context | None] = self._keep
        """Returns the context of a message that has none yet; None: it is taken care of."""
        self.unfinished: Callable[[ReceiveOperation], None] | None = None
        """Called with each matched receive that is not done at once; None: no proc can be lost."""
        # Two tables: `contexts` for whatever needs the communicator, `_inboxes` with the bound
        # method and the tables that deliver() needs for each short message.
        self._ways = ways
        self._external = external
        self._reduce_on_p2p = reduce_on_p2p
        # Context id to the matcher of its messages
        self._inboxes: dict[int, Inbox] = {}
        self._orphans: dict[int, list[Incoming]] = {}
        self._unmatched: dict[Incoming, TakenMessage] = {}

    # ---- communicators -----------------------------------------------------------------

    @any_thread
    def register(self, context: Context) -> None:
        """Take messages of a communicator; :meth:`adopt` follows."""
        self.contexts[context.cid] = context

        context.under_way.waiters = self.waiters
        # IMPI 4.3: point-to-point has the even id, collectives the next odd one. Either has a
        # matcher of its own, so that a tag of the program never meets one of chapter 4.
        for collective in (0, 1):
            self._inboxes[context.cid + collective] = (
                context.matchers[collective].meet,
                context.rank_of,
                context,
            )

    @any_thread
    def adopt(self, context: Context) -> None:
        # In the order of arrival, as messages of one pair must not overtake each other (MPI 4.1,
        # 3.5).
        for cid in (context.cid, context.cid + 1):
            for incoming in self._orphans.pop(cid, ()):
                self.remote_arrived(incoming)

    @any_thread
    def forget(self, context: Context) -> None:
        self.contexts.pop(context.cid, None)
        self._inboxes.pop(context.cid, None)
        self._inboxes.pop(context.cid + 1, None)

    @entry
    def hand_over(
        self, context: Context, matcher: Matcher[ReceiveOperation, TakenMessage]
    ) -> None:
        """Let ``matcher`` have the point-to-point messages of a context that has had none yet."""
        context.matchers = (matcher, context.matchers[1])
        self._inboxes[context.cid] = (matcher.meet, context.rank_of, context)

    # ---- receives ----------------------------------------------------------------------

    @entry
    def withdraw(self, operation: ReceiveOperation) -> bool:
        """Cancel a receive; False: it is matched already."""

        if operation.message is not None or not operation.context.matchers[
            operation.collective
        ].withdraw(operation):
            return False

        if operation.maybe_local:
            operation.context.count_waiting(-1)

        operation.done = operation.cancelled = True

        return True

    @any_thread
    def give_up(self, operation: ReceiveOperation, failure: MPIException) -> None:
        if self.withdraw(operation):
            operation.cancelled = False
            operation.failure = again(failure)

    @any_thread
    def begin(self, operation: ReceiveOperation, message: TakenMessage) -> None:
        """Begin a matched receive: give its message the place for the octets."""

        # It may have been pending (ULFM)
        operation.done, operation.failure = False, None

        # The place is asked for before the message is accepted: a message that is too long has
        # none, and its octets are then dropped on arrival, at no cost in memory.
        place = operation.place(message, self.shortest)
        if message.local is not None:
            if not isinstance(place, memoryview):
                # MPI can only discard by receiving
                place = memoryview(bytearray(message.nbytes))

            operation.started(message.local.receive(place))
        elif message.remote is not None:
            self._unmatched.pop(message.remote, None)
            ways = self._ways
            ways.transfer.accept(message.remote, place)
            operation.started(None)
            # accept() may have queued a SYNCACK, for which a long message waits.
            ways.channels.flush(ways.host_of[message.remote.source])

        if not operation.advance():
            self.active.append(operation)
            if self.unfinished is not None:
                self.unfinished(operation)

    # ---- messages ----------------------------------------------------------------------

    @any_thread
    def drain(self, context: Context) -> bool:
        """Match the local messages of a communicator in the order of their arrival."""

        shadow = context.shadow
        if shadow.comm is None:
            return False

        any_came = False
        # Bounded: a flood of local messages must not keep the channels unread.
        for _ in range(_DRAINS):
            # A matched probe: what was seen is ours, whatever receives of the library other threads
            # start.
            arrival = shadow.comm.improbe()
            if arrival is None:
                break

            any_came = True
            self.match_local(context, arrival)

        return any_came

    @any_thread
    def match_local(self, context: Context, arrival: Arrival) -> None:
        """Match a message that was taken off the library's queue, or keep it."""

        # One shadow serves both context ids, so the lowest bit of the native tag tells them apart:
        # 2 * tag, plus 1 for collectives.
        source = context.shadow.peers[arrival.source]
        tag, collective = divmod(arrival.tag, 2)
        if arrival.octets is not None and self._handed_over(
            context, collective, source, tag, arrival.octets
        ):
            return

        self.arrived(
            context,
            bool(collective),
            TakenMessage(source, tag, arrival.nbytes, 0, arrival, None, False),
        )

    def _handed_over(
        self,
        context: Context,
        collective: int,
        source: int,
        tag: int,
        octets: memoryview,
    ) -> bool:
        """Give a local message that is here to its receive at once; False: none is posted."""

        # As deliver() does for a message of another client, without an object for it.
        if collective and tag in context.takers:
            return False

        operation = context.matchers[collective].meet(source, tag)
        if operation is None:
            return False

        if operation.maybe_local:
            context.count_waiting(-1)

        operation.deliver(source, tag, 0, octets, external=False)

        return True

    @any_thread
    def arrived(
        self, context: Context, collective: bool, message: TakenMessage
    ) -> None:
        """Give a message to what takes those of its tag, or to its receive, or keep it."""
        # Notices (faults, recovery, LCO packets) have no receive: the program never asks for them.
        if collective and (take := context.takers.get(message.tag)):
            target = take(message.source)
            self.begin(
                ReceiveOperation(
                    context, message.source, message.tag, target, collective=True
                ),
                message,
            )
            return

        operation = context.matchers[collective].arrive(
            message.source, message.tag, message
        )
        if operation is not None:
            # It waits for no local message any more, whichever way its own has come.
            if operation.maybe_local:
                context.count_waiting(-1)

            self.begin(operation, message)
        elif message.remote is not None:
            # A CANCEL names the packet (3.7.4), so the message must be found by it.
            self._unmatched[message.remote] = message

    @any_thread
    def remote_arrived(self, incoming: Incoming) -> None:
        """Match a message of another client whose first packet is here."""

        # Both ids of a communicator lead to one context (4.3).
        context = self.contexts.get(incoming.header.cid & ~1) or self.unknown(incoming)
        if context is None:
            return

        # Not by the header's lsrank: that is the sender's word alone, while address and pid were
        # checked against the channel (3.2).
        source = context.rank_of.get(incoming.source)
        if source is None:
            raise JobError(
                f"a message of rank {incoming.source} came in on context {incoming.header.cid}, "
                "of which it is not a member",
                clause="3.3",
            )

        header = incoming.header
        message = TakenMessage(
            source,
            header.tag,
            incoming.nbytes,
            header.count,
            None,
            incoming,
            self._external,
        )
        self.arrived(context, self._is_collective(incoming), message)

    def _keep(self, incoming: Incoming) -> None:
        # A peer may leave the creation of a communicator, and use it, before we do. Its message is
        # not accepted meanwhile, so of a long one only the first packet is here.
        self._orphans.setdefault(incoming.header.cid, []).append(incoming)

    @any_thread
    def remote_cancelled(self, incoming: Incoming) -> None:
        """Drop an unmatched message that its sender cancelled (IMPI 3.7.4)."""
        message = self._unmatched.pop(incoming, None)
        if message is None:
            if incoming in (orphans := self._orphans.get(incoming.header.cid, [])):
                orphans.remove(incoming)
        else:
            self.contexts[incoming.header.cid & ~1].matchers[
                self._is_collective(incoming)
            ].discard(message)

    @any_thread
    def local_cancelled(self, arrival: Arrival) -> bool:
        """Drop an unmatched message of our own client; False: a receive has matched it."""
        # A search through all that wait: MPI_Cancel of a send is rare.
        return any(
            message.local is arrival and matcher.discard(message)
            for context in self.contexts.values()
            for matcher in context.matchers
            for message in tuple(matcher.unexpected())
        )

    def _is_collective(self, incoming: Incoming) -> bool:
        # LAM/MPI reduces on the point-to-point id, against 4.3; then only tag 190 tells.
        return bool(incoming.header.cid & 1) or (
            self._reduce_on_p2p and incoming.header.tag == REDUCE_TAG
        )

    @any_thread
    def deliver(
        self, world: int, cid: int, tag: int, count: int, octets: memoryview
    ) -> bool:
        """Give a whole short message of another client to its receive; False: there is none."""

        # The fast path of every short message that a posted receive awaits. Each False leaves the
        # message where it is: remote_arrived() gets it then, and names the fault if there is one.
        inbox = self._inboxes.get(cid)
        if inbox is None:
            return False

        meet, rank_of, context = inbox

        source = rank_of.get(world)
        if source is None:
            return False

        operation = meet(source, tag)
        if operation is None:
            return False

        if operation.maybe_local:
            context.count_waiting(-1)

        operation.deliver(source, tag, count, octets, external=self._external)

        return True
