"""The engine of a proc in a resilient job: it goes on without procs that are lost.

impirun tells each of its procs who is lost, by the connection of :mod:`impi.vendors.presence`, in
the order in which the server has told it. A channel that merely ends says nothing: what is written
to it is dropped, and the news will follow. With the news

* receives from a lost proc, sends to it, and collectives of its communicators end with
  ERR_PROC_FAILED, those under way and all later ones;
* receives from MPI_ANY_SOURCE end with ERR_PROC_FAILED_PENDING, and wait on for their message once
  the program has acknowledged the loss (:meth:`SurvivingEngine.acknowledge`).

All messages pass the matchers: the fast paths of :mod:`impi.engine.engine`, and the blocking calls
of MPI libraries, could not be interrupted.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from impi.engine.collective import CollectiveOperation
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.operations import Message, Operation, ReceiveOperation, SendOperation
from impi.engine.payload import Source, Target
from impi.errors import ImpiError, JobError
from impi.semantics.constants import ANY_SOURCE, ERROR_CLASSES
from impi.semantics.errors import MPIException, error

_CHUNK: Final = 1 << 16
_PENDING: Final = ERROR_CLASSES["ERR_PROC_FAILED_PENDING"][0]
_SILENT_S: Final = 60.0
"""The longest wait for news on a channel that has ended: more than any other process takes."""


class SurvivingEngine(Engine):
    """See the module; :meth:`follow` makes it complete."""

    def follow(self, news: socket.socket) -> None:
        """Begin to hear the news, before all else."""
        self.failed: dict[int, str] = {}
        self._news = news
        self._received = b""
        self._ended: dict[int, float] = {}
        """Hosts whose channel has ended without news, and since when."""
        self._acknowledged: dict[int, set[int]] = {}
        """By context id, the lost procs that the program has acknowledged."""
        self._local_sends: list[tuple[SendOperation, Context, int]] = []
        """Sends to procs of our own client that may be under way."""
        self._channels.survive(self._has_ended)
        survive = getattr(self.vendor, "survive", None)
        if survive is not None:
            survive()
        news.setblocking(False)
        self._channels.add_poller(news.fileno(), self._serve, others=True)

    def _has_ended(self, host: int) -> None:
        self._ended[host] = monotonic()

    # ---- news ----------------------------------------------------------------------------

    def _serve(self) -> None:
        """Hear the news."""
        with suppress(BlockingIOError):
            try:
                octets = self._news.recv(_CHUNK)
            except ConnectionError:
                octets = b""
            if not octets:
                self._channels.remove_poller(self._news.fileno())  # impirun is gone: its starters end us
            *lines, self._received = (self._received + octets).split(b"\n")
            for line in lines:
                told = json.loads(line)
                self.lose(told["lost"], str(told["why"]))

    def progress(self, timeout: float = 0.0) -> bool:
        """See :class:`Engine`.

        Raises:
            JobError: a channel has ended long ago, and no news has come.
        """
        if self._ended:
            host, since = next(iter(self._ended.items()))
            if monotonic() - since > _SILENT_S:
                raise JobError(f"the channel to host {host} has ended, and nobody has lost that process", clause="3.8")
        return super().progress(timeout)

    def lose(self, worlds: Sequence[int], why: str) -> None:
        """Go on without these procs.

        Raises:
            JobError: this proc is one of them.
        """
        new = [world for world in worlds if world not in self.failed]
        if self.rank in new:
            raise JobError(f"the job goes on without this process: {why}")
        self.failed.update(dict.fromkeys(new, why))
        for host in self.job.hosts:
            if host.index in self._hosts and all(world in self.failed for world in host.procs):
                with suppress(ImpiError):  # what has come may be cut short
                    self._channels.drain(host.index)
                self._hosts = tuple(other for other in self._hosts if other != host.index)
                self._ended.pop(host.index, None)
        for context in list(self._contexts.values()):
            self._mark(context, new)
        self.recovery.lost(new)

    def open(self, context: Context) -> None:
        """See :class:`Engine`; a member may be lost already."""
        super().open(context)
        self._mark(context, tuple(self.failed))
        if context.shadow is not None and context.shadow.size > 1:
            context.count_waiting(1)  # a local proc may revoke it while we wait for something else

    # ---- what fails ----------------------------------------------------------------------

    def _mark(self, context: Context, worlds: Collection[int]) -> None:
        """Let fail what needs procs that were lost."""
        lost = {world for world in worlds if world in context.members or world in context.rank_of}
        if not lost or context.revoked is not None:
            return
        context.faults.lose(self._failure(min(lost)))
        dead = {context.rank_of[world] for world in lost if world in context.rank_of}
        self._end_unmatched(context, dead)
        for active in list(self._active):
            self._end_active(active, context, dead)
        for send, its, dest in self._local_sends:
            if its is context and dest in dead:
                send.give_up(self._failure(context.peers[dest]), context)

    def _end_unmatched(self, context: Context, dead: Collection[int]) -> None:
        """End posted receives, and forget messages that will never be whole."""
        for matcher in context.matchers:
            for operation in list(matcher.posted()):
                if operation.source in dead:
                    self.give_up(operation, self._failure(context.peers[operation.source]))
                elif dead and operation.source == ANY_SOURCE and not operation.collective:
                    self._suspend(operation)
            for message in list(matcher.unexpected()):
                if message.source in dead and not _is_whole(message):
                    matcher.discard(message)

    def _end_active(self, active: Operation, context: Context, dead: Collection[int]) -> None:
        if isinstance(active, SendOperation) and active.remote is not None:
            if active.remote.cid & ~1 == context.cid and active.remote.dest in self.failed:
                active.give_up(self._failure(active.remote.dest), context)
        elif isinstance(active, ReceiveOperation):
            self._end_matched(active, context, dead)
        elif isinstance(active, CollectiveOperation) and active.context is context:
            active.give_up(context.faults.failure())

    def _end_matched(self, operation: ReceiveOperation, context: Context, dead: Collection[int]) -> None:
        """End a receive whose message will never be whole."""
        message = operation.message
        if operation.context is context and message is not None and message.source in dead and not operation.advance():
            operation.failure, operation.done = self._failure(context.peers[message.source]), True

    def _failure(self, world: int) -> MPIException:
        return error("ERR_PROC_FAILED", f"rank {world} of MPI_COMM_WORLD is lost: {self.failed[world]}")

    def _matched(self, operation: ReceiveOperation, message: Message) -> None:
        operation.done, operation.failure = False, None  # it may have been pending
        super()._matched(operation, message)
        if self.failed and not operation.done:
            context = operation.context
            self._end_matched(operation, context, {context.rank_of.get(world, -1) for world in self.failed})

    # ---- pending receives ----------------------------------------------------------------

    def _unknown(self, context: Context) -> list[int]:
        """Return the lost peers that the program has not acknowledged."""
        known = self._acknowledged.get(context.cid, ())
        return [world for world in self.failed if world in context.rank_of and world not in known]

    def _suspend(self, operation: ReceiveOperation) -> None:
        """Let waits for a posted receive from MPI_ANY_SOURCE fail; it stays posted."""
        unknown = self._unknown(operation.context)
        if unknown:
            failure = self._failure(unknown[0])
            operation.failure = error(_PENDING, f"{failure.detail}; Ack_failed() lets the receive wait on")
            operation.done = True

    def acknowledge(self, context: Context, worlds: Sequence[int]) -> int:
        """The program knows of these losses; return of how many it knows."""
        known = self._acknowledged.setdefault(context.cid, set())
        known.update(worlds)
        if not self._unknown(context):
            for operation in context.matchers[0].posted():
                if operation.failure is not None and int(operation.failure) == _PENDING:
                    operation.failure, operation.done = None, False
        return len(known)

    def acknowledged(self, context: Context) -> list[int]:
        """Return the world ranks of the losses that the program has acknowledged."""
        return sorted(self._acknowledged.get(context.cid, ()))

    def settle(self, operation: ReceiveOperation) -> None:
        """A blocking receive from MPI_ANY_SOURCE cannot be pending: take it back."""
        if operation.failure is not None and int(operation.failure) == _PENDING:
            failure = self._failure(self._unknown(operation.context)[0])
            self.withdraw(operation)
            operation.failure, operation.cancelled = failure, False

    # ---- messages ------------------------------------------------------------------------

    def send(
        self,
        context: Context,
        dest: int,
        tag: int,
        source: Source,
        *,
        synchronous: bool = False,
        collective: bool = False,
    ) -> SendOperation:
        """See :class:`Engine`.

        Raises:
            Exception: ERR_PROC_FAILED: that proc is lost.
        """
        if self.failed and context.peers[dest] in self.failed:
            raise self._failure(context.peers[dest])
        operation = super().send(context, dest, tag, source, synchronous=synchronous, collective=collective)
        if operation.remote is None and not operation.done:
            self._local_sends = [one for one in self._local_sends if not one[0].done]
            self._local_sends.append((operation, context, dest))
        return operation

    def receive(
        self, context: Context, source: int, tag: int, target: Target, *, collective: bool = False
    ) -> ReceiveOperation:
        """See :class:`Engine`; what a lost proc has sent before can be received."""
        operation = super().receive(context, source, tag, target, collective=collective)
        if self.failed and operation.message is None and not operation.done:
            if source == ANY_SOURCE:
                if not collective:
                    self._suspend(operation)
            elif context.peers[source] in self.failed:
                self.give_up(operation, self._failure(context.peers[source]))
        return operation

    def probe(self, context: Context, source: int, tag: int, *, take: bool = False) -> Message | None:
        """See :class:`Engine`.

        Raises:
            Exception: ERR_PROC_FAILED: no message can come of a lost proc.
        """
        message = super().probe(context, source, tag, take=take)
        if message is None and self.failed:
            unknown = self._unknown(context)
            if source == ANY_SOURCE and unknown:
                raise self._failure(unknown[0])
            if source != ANY_SOURCE and context.peers[source] in self.failed:
                raise self._failure(context.peers[source])
        return message

    def interrupt(self, context: Context, failure: MPIException) -> None:
        """See :class:`Engine`; sends to procs of our own client end, too."""
        super().interrupt(context, failure)
        for send, its, _ in self._local_sends:
            if its is context:
                send.give_up(failure, context)

    def _only_host(self, operation: Operation) -> int | None:
        """Return None: a wait for one channel would not hear the news."""
        return None


def _is_whole(message: Message) -> bool:
    """Whether all octets of an unmatched message of a lost proc are here."""
    if message.remote is not None:
        return message.remote.filled == message.remote.nbytes
    return message.local is None or getattr(message.local, "is_here", False)
