"""Blocking receives of messages from one process of another client, without the matchers.

How it works: :meth:`StandingReceive.receive` waits in
:meth:`impi.rank.engine.channels.channels.Channels.wait_on`, and hands itself down with each read.
The reader of the channel (:meth:`impi.protocol.transfer.inbound.Inbound.short_reader`) calls
:meth:`StandingReceive.take` with each whole short message, in place of
:meth:`impi.rank.engine.matchers.Matching.deliver`. For a longer message the first header is enough:
:meth:`StandingReceive.claim` gives the message its place. The rest is read directly into that
place.

A standing receive saves the object of a receive, the way through the matcher and a turn of the
engine. MPI's order holds, because the receive stands only while no receive is posted and no message
is unmatched. Then it is the oldest receive, and no message is older.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Final, Literal, Protocol

from impi.protocol.semantics.constants import ANY_TAG
from impi.rank.engine.channels.entries import any_thread, checked_entry
from impi.rank.engine.turns import longer

if TYPE_CHECKING:
    from impi.protocol.transfer import Deliver, Incoming, Transfer
    from impi.rank.engine.context import Context
    from impi.rank.engine.turns import Turns

_NOTHING: Final = (-1, -1)


class Filled(Protocol):
    """A status that takes the envelope of a message."""

    def fill(self, *, source: int, tag: int, nbytes: int) -> None:
        """Take the envelope of a message."""


class Taken:
    """A message that a standing receive has taken; it is an operation until its rest is here."""

    __slots__ = ("_incoming", "cancelled", "done", "octets", "tag")

    def __init__(self, tag: int, octets: memoryview, incoming: Incoming | None) -> None:
        self.tag = tag
        self.octets = octets
        """The octets of the message, valid once :attr:`done`."""
        self._incoming = incoming
        self.done = incoming is None
        self.cancelled = False

    def advance(self) -> bool:
        self.done = self._incoming is None or self._incoming.done
        return self.done


class StandingReceive:
    """Receives the next message of one process straight into the program's buffer.

    It works while no receive of the communicator is posted, no message is unmatched, and nothing
    else is under way.

    Args:
        turns: of this proc.
        transfer: its transfer machine.
        deliver: takes other messages that come meanwhile.
        context: the communicator.
        source: rank of the sender in that communicator.
        host: the host whose channel brings the sender's messages.
        collective: whether the messages are those of collectives.
    """

    __slots__ = (
        "_accept", "_awaited", "_deliver", "_host", "_place", "_posted", "_source", "_tag", "_turns", "_unexpected",
        "_way", "taken", "threads",
    )  # fmt: skip

    def __init__(
        self,
        turns: Turns,
        transfer: Transfer,
        deliver: Deliver,
        context: Context,
        source: int,
        host: int,
        *,
        collective: bool = False,
    ) -> None:
        self.threads = turns.threads
        self._turns = turns
        self._accept = transfer.accept
        self._deliver = deliver
        self._host = host
        self._source = source
        self._way = (context.peers[source], context.cid + collective)
        # Live views: each turn of a wait tests them, so they must cost no call.
        self._posted: Sized
        self._unexpected: Sized
        self._posted, self._unexpected = context.matchers[collective].lines()
        # Sender (world rank) and context id of the message that is waited for.
        self._awaited = _NOTHING
        self._tag = ANY_TAG  # Tag of that message, or MPI_ANY_TAG
        self._place: memoryview | None = None  # Its place; None: new memory
        self.taken: Taken | None = None
        """The message of the last wait, once its header is here; an interrupt does not lose it."""

    @checked_entry
    def receive(self, tag: int, place: memoryview, status: Filled | None) -> bool:
        """Wait for the next message with ``tag``, or with any (MPI_ANY_TAG), and put it in place.

        False: something else came first or is under way; call :meth:`Engine.receive`.
        """
        with self.threads.lock:
            taken = self._await(tag, place, None)
            return taken is not None and self._finish(taken, status)

    @checked_entry
    def receive_octets(self, tag: int, status: Filled | None) -> memoryview | None:
        """Receive a message of any length into new memory; None: :meth:`receive` gives False."""
        with self.threads.lock:
            taken = self._await(tag, None, None)
            return (
                taken.octets
                if taken is not None and self._finish(taken, status)
                else None
            )

    def _finish(self, taken: Taken, status: Filled | None) -> Literal[True]:
        # Its header is here, so its octets come. The wait serves everything else meanwhile.
        if not taken.done:
            self._turns.wait(taken.advance)

        if status is not None:
            status.fill(source=self._source, tag=taken.tag, nbytes=len(taken.octets))

        return True

    @checked_entry
    def receive_until(
        self, tag: int, place: memoryview | None, given_up: Callable[[], bool]
    ) -> None:
        """Wait for the next message with ``tag`` until ``given_up()``; put it in place.

        If ``place`` is None, a message of any length goes into new memory. Afterwards
        :attr:`taken` is the message, which need not be done yet. It is None where :meth:`receive`
        would return False.
        """
        with self.threads.lock:
            self._await(tag, place, given_up)

    def _await(
        self, tag: int, place: memoryview | None, given_up: Callable[[], bool] | None
    ) -> Taken | None:
        turns, threads = self._turns, self.threads
        # Anything else under way ends this shortcut: a posted or unexpected message comes first in
        # MPI's order, an active operation needs turns, another thread must be let in.
        self._awaited, self._tag, self._place = self._way, tag, place
        self._forget()

        spin_s, sleep_s = turns.patience.spin_s, turns.longest_s
        try:
            # Tested in each round: octets of the channel may be for another receive, and another
            # thread may have come.
            while not (
                self._posted
                or self._unexpected
                or turns.active
                or threads.crowded
                or (turns.others and turns.waiters)
            ):
                moved = turns.channels.wait_on(
                    self._host, spin_s, 0.0 if threads.shared else sleep_s, self
                )
                if (self.taken is not None and self.taken.advance()) or (
                    given_up is not None and given_up()
                ):
                    break

                # After an event the next event is likely to be near. After a wait in vain the next
                # wait blocks at once, and for longer.
                if moved:
                    spin_s, sleep_s = turns.patience.spin_s, turns.longest_s
                else:
                    spin_s, sleep_s = 0.0, longer(sleep_s)
                    if threads.notice():
                        break  # to sleep outside of the engine
        finally:
            # An interrupt, too, gives the place back
            self._awaited, self._place = _NOTHING, None

        return self.taken

    def _forget(self) -> None:
        self.taken = None

    @any_thread
    def take(
        self, world: int, cid: int, tag: int, count: int, octets: memoryview
    ) -> bool:
        """Put the awaited message into its place; deliver each other message as usual."""

        # Called for each message of the channel while this receive stands. Messages for other
        # receives must reach them all the same, else the senders would wait for us.
        nbytes = len(octets)
        if not self._is_it(world, cid, tag, nbytes):
            return self._deliver(world, cid, tag, count, octets)

        place = self._place
        if place is None:
            # A copy: the octets lie in the reader's buffer, which the next read fills again.
            place = memoryview(bytearray(octets))
        else:
            place = place[:nbytes]
            place[:] = octets

        self.taken = Taken(tag, place, None)

        return True

    @any_thread
    def claim(self, incoming: Incoming) -> bool:
        """Give the awaited message its place before all of it is here; False: it is another one."""

        nbytes = incoming.nbytes
        if not self._is_it(
            incoming.source, incoming.header.cid, incoming.header.tag, nbytes
        ):
            return False

        place = (
            memoryview(bytearray(nbytes))
            if self._place is None
            else self._place[:nbytes]
        )
        self.taken = Taken(incoming.header.tag, place, incoming)
        self._accept(incoming, place)

        return True

    def _is_it(self, world: int, cid: int, tag: int, nbytes: int) -> bool:
        """Whether a message is the awaited one, and fits; no later message is the awaited one."""
        # A message that is too long is left to the matchers: there the error of class ERR_TRUNCATE
        # is made, with the length. Nothing is awaited then: the next message must not overtake it.
        if self._awaited != (world, cid) or self._tag not in (tag, ANY_TAG):
            return False

        self._awaited = _NOTHING

        return self._place is None or nbytes <= len(self._place)
