"""The engine of a proc: the sends, receives and communicators of a running job.

How it works: a process has one engine, and one thread at a time is in it
(:mod:`impi.rank.engine.channels.entries`). The api sees the engine alone; behind it are these
objects:

* :class:`~.matchers.Matching`: messages and receives meet, whatever way the messages come.
* :class:`~.turns.Turns`: progress of all operations, and the waits.
* :class:`~.channels.host_ways.Ways`: the transfer machine, its channels, and the hosts that these
  lead to.
* :class:`~.losses.Losses` and :class:`~.recovery.Recovery`: lost procs, revoked communicators.
* :class:`~.other_jobs.OtherJobs`: procs of other jobs, which come and go.

Data flow:

- To a proc of the own client: the vendor library, on the shadow, with ``2 * tag + collective``.
- To another client: :class:`impi.protocol.transfer.Transfer` makes packets, :class:`Channels`
  writes them.
- Inbound: both sources meet in the matchers of the :class:`Context`. A receive that finds its
  message gives the place for the octets; a message without a receive waits in the matcher.
- Operations that are not done stand in ``turns.active``; each turn advances them.

Direct calls of the vendor library (:mod:`impi.rank.engine.library_call`,
:mod:`impi.rank.engine.job.progress_thread`) serve everything of the proc, too, while they last.

Invariant: ``UnderWay.waiting`` counts operations that a local message could complete; only then is
a shadow drained.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from impi.base.records import replaced
from impi.protocol.collectives.tags import RECOVERY_TAG, REDUCE_TAG
from impi.protocol.job import STRICT_VERSION, Host, Job, Proc
from impi.protocol.quirks import Quirks
from impi.protocol.semantics.constants import ANY_SOURCE
from impi.protocol.semantics.errors import again
from impi.protocol.semantics.values.blocks import SHORTEST
from impi.rank.engine.channels.channels import Channels, ShortSender
from impi.rank.engine.channels.entries import any_thread, checked_entry, entry
from impi.rank.engine.channels.host_ways import Ways
from impi.rank.engine.channels.payload import Source, Target
from impi.rank.engine.channels.threads import Threads
from impi.rank.engine.channels.waiting import Patience
from impi.rank.engine.context import Context
from impi.rank.engine.faults import Faults
from impi.rank.engine.losses import Losses
from impi.rank.engine.matchers import Matching
from impi.rank.engine.operations import (
    SENT,
    CopyOperation,
    Operation,
    ReceiveOperation,
    SendOperation,
    TakenMessage,
)
from impi.rank.engine.other_jobs import OtherJobs
from impi.rank.engine.recovery import Recovery
from impi.rank.engine.standing_receive import StandingReceive
from impi.rank.engine.turns import Turns
from impi.rank.vendors.base import Arrival, LocalComm, Vendor


class Engine:
    """Sends, receives and communicators of one proc.

    Args:
        job: the negotiated facts.
        rank: this proc's rank in MPI_COMM_WORLD.
        vendor: the library behind the procs of this client.
        sockets: a connected socket for each host of another client, by global host index; with an
            agent just the one to our own host.
        ranks: the world ranks of this client's procs in the vendor's order; default ascending.
        agent: whether our host is a separate agent process.
        quirks: deviations of the other clients from the specification, to be followed.
        patience: how long waits spin; default: they block at once.
        shortest: average octets of a block from which a message to another client is not packed.
    """

    def __init__(
        self,
        job: Job,
        rank: int,
        vendor: Vendor,
        sockets: dict[int, socket.socket],
        *,
        ranks: Sequence[int] = (),
        agent: bool = False,
        quirks: Quirks = Quirks(),  # noqa: B008  (immutable)
        patience: Patience | None = None,
        shortest: int = SHORTEST,
    ) -> None:
        self.job = job
        self.rank = rank
        self.vendor = vendor
        # One lock for all parts: which part a packet concerns is known only after it was read
        # (docs/decisions/threads.md).
        self.threads = Threads()
        self.neighbours = frozenset([rank])
        """World ranks of our client's procs that share /dev/shm, this proc among them."""
        # 1.2.2: external32, unless all clients have agreed on the native form, or a peer is known
        # to send it without an agreement (LAM/MPI).
        self.external = not (quirks.little_endian or job.native)
        """Whether messages between clients carry external32; else native form, like local ones."""
        self.reduce_on_p2p = quirks.reduce_on_p2p
        """Whether tag 190 alone tells Reduce messages, which share the point-to-point context."""
        # World ranks go by hosts first (2.3.5), so they need not be in the library's order.
        self.vendor_ranks = {
            world: local
            for local, world in enumerate(ranks or job.client_procs(self.client))
        }
        """World rank to rank at the vendor, for procs of our client."""
        patience = patience or Patience(0.0)
        # A proc alone in its client gets local messages from itself only. Its waits need not poll
        # the library, and may block in a channel.
        others = len(self.vendor_ranks) > 1
        self.ways = ways = Ways(job, rank, tuple(sockets), agent=agent)
        self.matching = matching = Matching(
            ways,
            self.threads,
            external=self.external,
            shortest=shortest,
            reduce_on_p2p=self.reduce_on_p2p,
        )
        # With the quirk a tag decides which matcher gets a message, and in a resilient job a
        # receive must be interruptible: neither can use the short path, which sees no object.
        ways.channels = Channels(
            ways.transfer,
            sockets,
            patience,
            deliver=None
            if quirks.reduce_on_p2p or job.is_resilient
            else matching.deliver,
            arrived=matching.remote_arrived,
            cancelled=matching.remote_cancelled,
            foreign=job.version == STRICT_VERSION,
        )
        ways.channels.add_poller(vendor.fileno(), vendor.progress, others=others)
        vendor.withdraw = matching.local_cancelled
        self.turns = Turns(matching, ways, vendor, patience, others=others)
        self.other_jobs = OtherJobs(matching, ways)
        # By context id and source
        self._collective_receives: dict[int, dict[int, StandingReceive]] = {}
        # In a resilient job Survival takes its place, once all parts of the engine are there.
        self.losses = Losses()
        self.recovery = Recovery(self)

    @property
    @any_thread
    def client(self) -> int:
        """The number of this proc's client."""
        return self.job.procs[self.rank].client

    @property
    @any_thread
    def is_polled(self) -> bool:
        """Whether messages can come that :meth:`Turns.arrivals` does not tell of."""
        return self.other_jobs.encrypted or (
            self.turns.others and self.vendor.fileno() is None
        )

    # ---- communicators -----------------------------------------------------------------

    @entry
    def open(self, context: Context) -> None:
        """Register a communicator and match the messages that came before it."""

        # Orphans last: one of them may be a notice, for which Faults and Recovery must be there.
        self.matching.register(context)
        context.faults = Faults(self, context)
        self.recovery.opened(context)
        self.matching.adopt(context)
        self.losses.opened(context)

    @entry
    def close(self, context: Context) -> None:
        """Remove a freed communicator."""

        self.matching.forget(context)
        self._collective_receives.pop(context.cid, None)
        # A turn drains the shadows in the table of waiting contexts, and this one is freed below.
        context.leave()

        context.api.end()
        if context.shadow.comm is not None:
            context.shadow.comm.free()

        # After forget(): a proc of another job gets FINI (3.8) if no communicator that is still in
        # the tables has it.
        self.other_jobs.part(context)

    @entry
    def make_context(
        self,
        cid: int,
        members: Sequence[int],
        peers: Sequence[int] | None = None,
        around: Callable[[Callable[..., LocalComm]], Callable[..., LocalComm]]
        | None = None,
    ) -> Context:
        """Create and open a context. Collective: the vendor creates the shadow with all members.

        ``around`` wraps that call where the vendor may block in it and allows several threads.
        """

        local = self._local(members, peers)
        subset, ranks = (
            self.vendor.world.subset,
            [self.vendor_ranks[world] for world in local],
        )
        # The library's creation blocks until all members call it. Outside of the engine the helper
        # serves our channels meanwhile; else a member that waits for us there would never call it.
        shadow = (
            subset(ranks, cid)
            if around is None
            else self.threads.outside(around(subset), ranks, cid)
        )
        # From here on nothing blocks: members may come out of the library's creation at different
        # times, and their first messages wait as orphans until open().
        context = Context(
            cid, members, list(members).index(self.rank), shadow, local, peers=peers
        )
        self.open(context)

        return context

    @entry
    def start_copy(
        self, context: Context, cid: int, finish: Callable[[Context], None]
    ) -> Operation:
        """Start a copy of a context; ``finish`` gets it. Collective, in one order everywhere."""

        # MPI_Comm_idup must not wait for the other members, so the library duplicates without
        # blocking, and the engine polls that like a send.
        assert context.shadow.comm is not None, (
            "a communicator of this client's library is lacking"
        )
        shadow, pending = context.shadow.comm.duplicate(cid)
        peers = context.peers if context.is_inter else None
        local = self._local(context.members, peers)
        copy = Context(cid, context.members, context.rank, shadow, local, peers=peers)

        def complete() -> None:
            # Only now: messages for the copy are orphans until the library's side can be used.
            self.open(copy)
            finish(copy)

        operation = CopyOperation(pending, complete)
        if not operation.done:
            self.turns.active.append(operation)

        return operation

    def _local(self, members: Sequence[int], peers: Sequence[int] | None) -> list[int]:
        """Return the procs of our client in a group or two, in an order equal on all of them."""
        # The shadow of an intercommunicator is one intracommunicator, so its order must not depend
        # on which of the two groups asks.
        union = members if peers is None else sorted([*members, *peers])
        return [world for world in union if self.job.procs[world].client == self.client]

    # ---- messages ----------------------------------------------------------------------

    @checked_entry
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
        """Start a send to rank ``dest``; ``source`` stays in use until the send is done.

        Raises:
            Exception: ERR_PROC_FAILED, ERR_REVOKED: that proc is lost, the communicator revoked.
        """
        with self.threads.lock:
            if self.losses.failed:
                self.losses.check_dest(context.peers[dest])

            # A notice goes out on a revoked MPI_COMM_WORLD, too: it tells of the revocation.
            if context.api.revoked is not None and tag != RECOVERY_TAG:
                raise again(context.api.revoked)

            # IMPI 1.1: interoperability must not slow down local communication. So a proc of our
            # own client is reached by the library itself.
            local = context.shadow.rank_of.get(dest)
            if local is not None and context.shadow.comm is not None:
                data = source.octets(external=context.shadow.external)
                pending = context.shadow.comm.isend(
                    local, 2 * tag + collective, data, sync=synchronous
                )
                operation = SendOperation(pending, None, source)
            else:
                # Synchronous messages need a SYNCACK and so an object; with the quirk the context
                # id depends on the tag, and a short sender has one id.
                views = source.views(
                    external=self.external, shortest=self.matching.shortest
                )
                if (
                    len(views) == 1
                    and not (synchronous or self.reduce_on_p2p)
                    and self.short_sender(context, dest, collective=collective).send(
                        tag, views[0], source.count
                    )
                ):
                    return SENT

                # Longer than a packet, or no credit, or something is queued before it: the transfer
                # machine takes the message and sends it when its turn has come.
                return self.enqueue(
                    context,
                    dest,
                    tag,
                    source,
                    views,
                    synchronous=synchronous,
                    collective=collective,
                )

            if not operation.done:
                self.turns.active.append(operation)
                # The library does not tell which send is whose
                if self.losses.survives:
                    self.losses.sent(operation, context, dest)

            return operation

    @checked_entry
    def enqueue(
        self,
        context: Context,
        dest: int,
        tag: int,
        source: Source,
        views: Sequence[memoryview],
        *,
        synchronous: bool = False,
        collective: bool = False,
    ) -> SendOperation:
        """Queue ``views`` of ``source`` for rank ``dest`` of another client, and start sending."""
        with self.threads.lock:
            ways, world = self.ways, context.peers[dest]
            # In a lazy job the first message makes the channel. That waits for the helper of the
            # other host, not for its program (docs/decisions/lazy-channels.md).
            if ways.dance is not None:
                ways.dance.reach(ways.host_of[world])

            # With the quirk, Reduce stays on the point-to-point id, where LAM/MPI has it against
            # 4.3.
            outgoing = ways.transfer.send(
                world,
                cid=context.cid
                + (collective and not (self.reduce_on_p2p and tag == REDUCE_TAG)),
                tag=tag,
                lsrank=context.rank,
                views=views,
                synchronous=synchronous,
                count=source.count,
            )
            # At once, not at the next turn: the program may compute for long before it calls MPI
            # again.
            ways.channels.flush(ways.host_of[world])

            operation = SendOperation(None, outgoing, source)
            if not operation.done:
                self.turns.active.append(operation)

            return operation

    @entry
    def _make_short_sender(
        self, context: Context, dest: int, *, collective: bool
    ) -> ShortSender:
        """Make the sender of :meth:`short_sender`; in a lazy job, have the channel first."""

        ways, world = self.ways, context.peers[dest]

        host = ways.host_of[world]
        if ways.dance is not None:
            ways.dance.reach(host)

        make = ways.transfer.short_sender(world, context.cid + collective, context.rank)

        return ways.channels.short_sender(host, world, make, self.threads)

    @any_thread
    def short_sender(
        self, context: Context, dest: int, *, collective: bool = False
    ) -> ShortSender:
        """Return a sender of short messages to another client; not with ``reduce_on_p2p``.

        The first thread that asks makes it, in an entry.
        """

        known = context.short_senders[collective]

        # Two threads may make one each. Either is right: credit and frame belong to the path, which
        # all senders share.
        sender = known.get(dest)
        if sender is None:
            known[dest] = sender = self._make_short_sender(
                context, dest, collective=collective
            )

        return sender

    @any_thread
    def standing_receive(
        self, context: Context, source: int, *, collective: bool = False
    ) -> StandingReceive:
        """Return an object that receives from rank ``source`` of another client without matchers.

        It needs no entry, because it is made only of parts that never change.
        """
        host = self.ways.host_of[context.peers[source]]
        transfer, deliver = self.ways.transfer, self.matching.deliver

        return StandingReceive(
            self.turns, transfer, deliver, context, source, host, collective=collective
        )

    @any_thread
    def collective_receive(self, context: Context, source: int) -> StandingReceive:
        """Return the standing receive for collective messages of rank ``source``, of another
        client."""

        known = self._collective_receives.setdefault(context.cid, {})

        receive = known.get(source)
        # Kept for each source: a collective is called often, and what it needs never changes.
        if receive is None:
            known[source] = receive = self.standing_receive(
                context, source, collective=True
            )

        return receive

    @any_thread
    def is_straight(self, context: Context) -> bool:
        """Whether receives of collectives may stand: messages come from other clients alone."""
        # With local procs a message could come by the library, which a wait in one channel would
        # not see; subclasses of Context (LCOs) have receivers of their own.
        ours = type(context) is Context and not context.is_inter
        return ours and not (
            self.turns.others or self.reduce_on_p2p or self.job.is_resilient
        )

    @any_thread
    def is_external(self, context: Context, dest: int) -> bool:
        """Whether :meth:`send` sends external32 to rank ``dest``."""
        return context.shadow.external or (
            self.external and dest not in context.shadow.rank_of
        )

    @checked_entry
    def receive(
        self,
        context: Context,
        source: int,
        tag: int,
        target: Target,
        *,
        collective: bool = False,
    ) -> ReceiveOperation:
        """Post a receive from rank ``source`` (or ANY_SOURCE)."""
        with self.threads.lock:
            if context.api.revoked is not None:
                raise again(context.api.revoked)

            if source == ANY_SOURCE:
                # Local messages that came first must match first. Where a remote message matches
                # every such receive at once, nothing else would ever drain the shadow.
                self.vendor.progress()
                self.matching.drain(context)

            operation = ReceiveOperation(
                context, source, tag, target, collective=collective
            )

            # post() looks among the unexpected messages first, and queues the receive only if none
            # fits. So the two queues never hold a pair that would match.
            message = context.matchers[collective].post(source, tag, operation)
            if message is not None:
                self.matching.begin(operation, message)
                return operation

            # While it is posted, each turn drains this shadow. Receives from other clients alone
            # cost no call of the library.
            if operation.maybe_local:
                context.count_waiting(1)

            if self.losses.failed:
                self.losses.posted(operation)

            return operation

    @entry
    def receive_message(
        self, context: Context, message: TakenMessage, target: Target
    ) -> ReceiveOperation:
        """Receive a message that a matched probe took off the queue."""
        # MPI has matched probes for point-to-point messages only.
        operation = ReceiveOperation(
            context, message.source, message.tag, target, collective=False
        )
        self.matching.begin(operation, message)

        return operation

    @entry
    def cancel(self, operation: SendOperation) -> None:
        """Cancel a send, by IMPI 3.7.4 or by the vendor; the completion tells the outcome."""

        if operation.done:
            return

        if operation.local is not None:
            operation.local.cancel()
        elif operation.remote is not None:
            ways = self.ways
            # A send that the peer does not know, or has matched, is decided here. For all else a
            # CANCEL goes out; it is always answered (3.7.4), and it counts as a packet (3.6).
            ways.transfer.cancel(operation.remote)
            ways.channels.flush(ways.host_of[operation.remote.dest])

    @checked_entry
    def probe(
        self, context: Context, source: int, tag: int, *, take: bool = False
    ) -> TakenMessage | None:
        """Return the message that a receive would match now; ``take`` removes it from the queue.

        Raises:
            Exception: ERR_PROC_FAILED: no message can come of a lost proc.
        """
        with self.threads.lock:
            if context.api.revoked is not None:
                raise again(context.api.revoked)

            # A probe is local (3.7.3): a message counts once its first packet was read, and has the
            # length of pk_msglen.
            matcher = context.matchers[0]
            if source == ANY_SOURCE:
                self.vendor.progress()
                self.matching.drain(context)  # see receive()

            message = matcher.probe(source, tag)
            # A turn before the answer "nothing": MPI_Iprobe in a loop must make progress by itself.
            if message is None:
                self.matching.drain(context)
                self.turns.progress(0)
                message = matcher.probe(source, tag)

            if message is not None and take:
                # Off the queue: after MPI_Mprobe no receive of another thread may match it.
                message = matcher.take(source, tag)

            if message is None and self.losses.failed:
                self.losses.check_probe(context, source)

            return message

    @entry
    def match_probed(self, context: Context, arrival: Arrival) -> None:
        """Match a message that a caller took off the library's queue."""
        # A matched probe cannot be undone, so whatever was probed has to pass the matcher.
        self.matching.match_local(context, arrival)

    # ---- hosts, and the end ------------------------------------------------------------

    @entry
    def admit(
        self,
        hosts: Sequence[Host],
        procs: Sequence[Proc],
        sockets: dict[int, socket.socket],
        tag_ub: int,
    ) -> None:
        """Add hosts of another job, numbered behind the known ones; see :meth:`Hosts.admit`."""
        self.job = replaced(
            self.job, hosts=(*self.job.hosts, *hosts), procs=(*self.job.procs, *procs)
        )
        self.ways.admit(self.job, hosts, procs, sockets, tag_ub)

    @property
    @any_thread
    def quiet(self) -> bool:
        """Whether nothing of ours is under way: no operation, no packet outside of TCP."""
        return not self.turns.active and self.ways.transfer.idle

    @entry
    def shutdown(self) -> None:
        """Exchange FINI on every channel and close (IMPI 3.8); after the barrier of Finalize."""

        # 2.4: the barrier of Finalize came before. Octets may still be queued, for credit or for a
        # full socket, and FINI goes behind them (3.8).
        for context in self.matching.contexts.values():
            context.api.end()

        ways, turns = self.ways, self.turns

        turns.wait(lambda: self.quiet)
        # Connections that the helper has answered are channels, even if no message came. They must
        # be admitted before FINI goes out, because their hosts wait for it (3.8).
        if ways.dance is not None:
            ways.dance.close()

        # After its own FINI a host sends acknowledgements only (3.8).
        ways.transfer.finish()
        for host in ways.hosts:
            ways.channels.flush(host)

        # 3.8: reading and acknowledging goes on until all FINIs have come. A socket that is closed
        # before would reset, and the peer would lose octets that it has not read yet.
        turns.wait(lambda: ways.transfer.finished and not ways.channels.writing)
        # Helper threads of windows may try a turn even now (Turns.serve).
        turns.closed = True
        ways.channels.close()
