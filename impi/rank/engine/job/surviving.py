"""Losses in a resilient job: a proc goes on without procs that are lost.

How it works: impirun reports each loss to its procs, by the connection of
:mod:`impi.rank.vendors.presence`, in the order in which the server has told it. A channel that
merely ends says nothing: octets written to it are dropped, and the news will follow. With the news

* receives from a lost proc, sends to it, and collectives of its communicators end with
  ERR_PROC_FAILED, those under way and all later ones;
* receives from MPI_ANY_SOURCE end with ERR_PROC_FAILED_PENDING, and wait on for their message once
  the program has acknowledged the loss (:meth:`Survival.acknowledge`).

All messages pass the matchers: the fast paths of the engine, and the blocking calls of MPI
libraries, could not be interrupted.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from impi.base.errors import ImpiError, JobError
from impi.protocol.semantics.constants import ANY_SOURCE, ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.collective import CollectiveOperation
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.losses import Losses
from impi.rank.engine.operations import (
    Operation,
    ReceiveOperation,
    SendOperation,
    TakenMessage,
)

if TYPE_CHECKING:
    from impi.rank.vendors.secure_socket import SecureSocket

_CHUNK: Final = 1 << 16
_PENDING: Final = ERROR_CLASSES["ERR_PROC_FAILED_PENDING"][0]
# The longest wait for news on a channel that has ended: more than any other process takes.
_SILENT_S: Final = 60.0


class Survival(Losses):
    """A proc's knowledge of the procs that its job has lost.

    Args:
        engine: of this proc; it reports sends, receives and communicators here from now on.
        news: the connection to impirun.
    """

    survives = True

    def __init__(self, engine: Engine, news: socket.socket | SecureSocket) -> None:
        super().__init__()
        self.threads = engine.threads
        self._engine = engine
        self._news = news
        self._received = b""
        # Hosts whose channel has ended without news, and the time of that.
        self._ended: dict[int, float] = {}
        # Lost procs that the program has acknowledged, by context id: ULFM acknowledges for each
        # communicator.
        self._acknowledged: dict[int, set[int]] = {}
        # Sends to procs of our own client that may be under way. Only here: an operation of the
        # vendor knows neither communicator nor destination.
        self._local_sends: list[tuple[SendOperation, Context, int]] = []
        engine.losses = self
        engine.turns.watch = self._check_silence
        engine.matching.unfinished = self._check_matched
        channels = engine.ways.channels
        channels.survive(self._has_ended)

        survive = getattr(engine.vendor, "survive", None)
        if survive is not None:
            survive()

        # Read in turns of the engine, as channels are: so a loss never changes anything beside a
        # thread that is in the engine.
        news.setblocking(False)
        channels.add_poller(news.fileno(), self._serve, others=True)

    def _has_ended(self, host: int) -> None:
        # Not a loss yet: the server alone decides who is lost, so that all procs hear of losses in
        # one order. A channel may also break although both ends live.
        self._ended[host] = monotonic()

    # ---- news ----------------------------------------------------------------------------

    def _serve(self) -> None:
        room = memoryview(bytearray(_CHUNK))
        with suppress(BlockingIOError):
            while (
                True
            ):  # to the end: no event announces octets that TLS has read already
                try:
                    nbytes = self._news.recv_into(room)
                except ConnectionError:
                    nbytes = 0

                if not nbytes:
                    # impirun is gone: its starters end us.
                    self._engine.ways.channels.remove_poller(self._news.fileno())
                    return

                # A read may end inside a line, whose rest comes with the next one.
                *lines, self._received = (self._received + bytes(room[:nbytes])).split(
                    b"\n"
                )
                for line in lines:
                    told = json.loads(line)
                    self.lose(told["lost"], str(told["why"]))

    def _check_silence(self) -> None:
        """Raise JobError if a channel has ended long ago, and no news has come."""
        if self._ended:
            host, since = next(iter(self._ended.items()))
            if monotonic() - since > _SILENT_S:
                raise JobError(
                    f"the channel to host {host} has ended, but no process has reported it as lost",
                    clause="3.8",
                )

    @any_thread
    def lose(self, worlds: Sequence[int], why: str) -> None:
        """Go on without these procs.

        Raises:
            JobError: this proc is one of them.
        """

        engine = self._engine

        new = [world for world in worlds if world not in self.failed]
        if engine.rank in new:
            raise JobError(f"the job goes on without this process: {why}")

        self.failed.update(dict.fromkeys(new, why))
        # The channels are read to their end before anything fails: whole messages that a lost proc
        # has sent may still be received.
        for host in engine.job.hosts:
            if host.index in engine.ways.hosts and all(
                world in self.failed for world in host.procs
            ):
                with suppress(ImpiError):  # the last message may be cut short
                    engine.ways.channels.drain(host.index)

                engine.ways.drop(host.index)
                self._ended.pop(host.index, None)

        # Only now do calls fail: whatever could still be received is in the matchers.
        for context in list(engine.matching.contexts.values()):
            self._mark(context, new)

        engine.recovery.lost(new)

    @any_thread
    def opened(self, context: Context) -> None:
        # A communicator may be made when some of its members are lost already.
        self._mark(context, tuple(self.failed))
        if context.shadow.comm is not None and context.shadow.comm.size > 1:
            # A local proc may revoke it while we wait for something else
            context.count_waiting(1)

    # ---- what fails ----------------------------------------------------------------------

    def _mark(self, context: Context, worlds: Collection[int]) -> None:
        lost = {
            world
            for world in worlds
            if world in context.members or world in context.rank_of
        }
        # revoked: everything has failed already
        if not lost or context.api.revoked is not None:
            return

        # All its collectives, from now on: each member gets the same news, so no notice is due and
        # no member is left waiting.
        context.faults.lose(self._failure(min(lost)))
        dead = {context.rank_of[world] for world in lost if world in context.rank_of}

        self._end_unmatched(context, dead)
        for active in list(self._engine.turns.active):
            self._end_active(active, context, dead)

        for send, its, dest in self._local_sends:
            if its is context and dest in dead:
                send.give_up(self._failure(context.peers[dest]), context)

    def _end_unmatched(self, context: Context, dead: Collection[int]) -> None:
        for matcher in context.matchers:
            # ULFM: a receive from a lost proc fails. One from MPI_ANY_SOURCE may still match a
            # message of another proc, so it only becomes pending.
            for operation in list(matcher.posted()):
                if operation.source in dead:
                    self._engine.matching.give_up(
                        operation, self._failure(context.peers[operation.source])
                    )
                elif (
                    dead and operation.source == ANY_SOURCE and not operation.collective
                ):
                    self._suspend(operation)

            # The rest of a message that is not whole never comes, and a receive that matched it
            # would wait for ever.
            for message in list(matcher.unexpected()):
                if message.source in dead and not _is_whole(message):
                    matcher.discard(message)

    def _end_active(
        self, active: Operation, context: Context, dead: Collection[int]
    ) -> None:
        # The header of its packet names communicator and destination. Sends by the library have
        # none, hence _local_sends.
        if isinstance(active, SendOperation) and active.remote is not None:
            if (
                active.remote.header.cid & ~1 == context.cid
                and active.remote.dest in self.failed
            ):
                active.give_up(self._failure(active.remote.dest), context)
        elif isinstance(active, ReceiveOperation):
            self._end_matched(active, context, dead)
        elif isinstance(active, CollectiveOperation) and active.context is context:
            active.give_up(context.faults.failure())

    def _end_matched(
        self, operation: ReceiveOperation, context: Context, dead: Collection[int]
    ) -> None:
        message = operation.message
        # Asked by advance(), not done: a message that is whole by now may still be received.
        if (
            operation.context is context
            and message is not None
            and message.source in dead
            and not operation.advance()
        ):
            operation.failure, operation.done = (
                self._failure(context.peers[message.source]),
                True,
            )

    def _failure(self, world: int) -> MPIException:
        return error(
            "ERR_PROC_FAILED",
            f"rank {world} of MPI_COMM_WORLD is lost: {self.failed[world]}",
        )

    def _check_matched(self, operation: ReceiveOperation) -> None:
        """End a receive that was matched just now if its message will never be whole."""
        if self.failed:
            context = operation.context
            self._end_matched(
                operation,
                context,
                {context.rank_of.get(world, -1) for world in self.failed},
            )

    # ---- pending receives ----------------------------------------------------------------

    def _unknown(self, context: Context) -> list[int]:
        """Return the lost peers of a communicator that the program has not acknowledged."""
        known = self._acknowledged.get(context.cid, ())
        return [
            world
            for world in self.failed
            if world in context.rank_of and world not in known
        ]

    def _suspend(self, operation: ReceiveOperation) -> None:
        """Let waits for a posted receive from MPI_ANY_SOURCE fail; it stays posted."""
        unknown = self._unknown(operation.context)
        if unknown:
            failure = self._failure(unknown[0])
            operation.failure = error(
                _PENDING, f"{failure.detail}; Ack_failed() lets the receive wait on"
            )
            operation.done = True

    @entry
    def acknowledge(self, context: Context, worlds: Sequence[int]) -> int:
        """Note that the program knows of these losses; return the number that it knows."""

        known = self._acknowledged.setdefault(context.cid, set())

        known.update(worlds)
        # Only if the program knows of all losses in the communicator: any of the lost procs could
        # have been the sender.
        if not self._unknown(context):
            for operation in context.matchers[0].posted():
                if operation.failure is not None and int(operation.failure) == _PENDING:
                    operation.failure, operation.done = None, False

        return len(known)

    @entry
    def acknowledged(self, context: Context) -> list[int]:
        return sorted(self._acknowledged.get(context.cid, ()))

    @entry
    def settle(self, operation: ReceiveOperation) -> None:
        """Take back a blocking receive from MPI_ANY_SOURCE that has become pending.

        A pending operation needs a request, and a blocking call has none to return.
        """
        if operation.failure is not None and int(operation.failure) == _PENDING:
            failure = self._failure(self._unknown(operation.context)[0])
            self._engine.matching.withdraw(operation)
            operation.failure, operation.cancelled = failure, False

    # ---- messages ------------------------------------------------------------------------

    @any_thread
    def check_dest(self, world: int) -> None:
        """Check that a send can go to a proc.

        Raises:
            Exception: ERR_PROC_FAILED: that proc is lost.
        """
        if world in self.failed:
            raise self._failure(world)

    @any_thread
    def sent(self, operation: SendOperation, context: Context, dest: int) -> None:
        self._local_sends = [one for one in self._local_sends if not one[0].done]
        self._local_sends.append((operation, context, dest))

    @any_thread
    def posted(self, operation: ReceiveOperation) -> None:
        """See :class:`Losses`; messages that a lost proc has sent before can be received."""
        # Called only if no message matched, so nothing whole of that proc is here.
        source, context = operation.source, operation.context
        if source == ANY_SOURCE:
            if not operation.collective:
                self._suspend(operation)
        elif context.peers[source] in self.failed:
            self._engine.matching.give_up(
                operation, self._failure(context.peers[source])
            )

    @any_thread
    def check_probe(self, context: Context, source: int) -> None:
        """Check that a message can still come.

        Raises:
            Exception: ERR_PROC_FAILED: no message can come of a lost proc.
        """
        unknown = self._unknown(context)
        if source == ANY_SOURCE and unknown:
            raise self._failure(unknown[0])

        if source != ANY_SOURCE and context.peers[source] in self.failed:
            raise self._failure(context.peers[source])

    @any_thread
    def interrupt(self, context: Context) -> None:
        for send, its, _ in self._local_sends:
            if its is context and context.api.revoked is not None:
                send.give_up(context.api.revoked, context)


def _is_whole(message: TakenMessage) -> bool:
    """Whether all octets of an unmatched message of a lost proc are here."""
    if message.remote is not None:
        return message.remote.filled == message.remote.nbytes

    return message.local is None or getattr(message.local, "is_here", False)
