"""The progress engine of a proc: sends, receives, matching and waits of a running job.

One engine per proc, one thread in it at a time (:mod:`impi.engine.threads`). The api (requests,
collectives, windows) calls :meth:`send`, :meth:`receive`, :meth:`probe` and the waits. Data flow:

- To a proc of the own client: the vendor library, on the shadow, with ``2 * tag + collective``.
- To another client: :class:`impi.transfer.Transfer` makes packets, :class:`Channels` writes them.
- Inbound: both sources meet in the matchers of the :class:`Context`. A receive that finds its
  message gives the place for the octets; a message without a receive waits in the matcher.
- Operations that are not done stand in ``_active``; each turn advances them.

A wait drives *everything* of the proc, local and remote. Otherwise a proc that blocks on a local
message would not serve its channels, and jobs would deadlock. Direct calls of the vendor library
(:mod:`impi.engine.library_call`, :mod:`impi.engine.progress_thread`) keep the same rule.

Invariants: ``context.waiting`` counts what a local message could complete; only then is a shadow
drained. A message of an unknown context is an orphan until :meth:`open`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Final

from impi.collectives.tags import RECOVERY_TAG, REDUCE_TAG
from impi.engine.channels import Channels
from impi.engine.context import Context, ShortSend
from impi.engine.faults import Faults
from impi.engine.interrupted import Interrupted
from impi.engine.operations import (
    SENT,
    CopyOperation,
    Message,
    Operation,
    ReceiveOperation,
    SendOperation,
)
from impi.engine.payload import Source, Target
from impi.engine.recovery import Recovery
from impi.engine.served import Served
from impi.engine.threads import Threads
from impi.engine.turns import IDLE_S, REMOTE_ONLY_S, Waits
from impi.engine.visited import Visited
from impi.engine.waiting import ASKS, Patience
from impi.errors import JobError
from impi.job import STRICT_VERSION, Job
from impi.quirks import Quirks
from impi.semantics.blocks import SHORTEST
from impi.semantics.constants import ANY_SOURCE
from impi.semantics.errors import again
from impi.transfer import Incoming, Transfer
from impi.vendors.base import Arrival, LocalComm, Vendor

Inbox = tuple[Callable[[int, int], ReceiveOperation | None], dict[int, int], Context]

_NOTHING_STANDS: Final = (-1, -1, -1)

_DRAINS = 64
"""Most local messages per turn; then the channels are served."""


class Engine(Visited, Waits, Served, Interrupted):
    """Drives the channels and the vendor of one proc.

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

    Attributes:
        neighbours: world ranks of our client's procs that share /dev/shm with this one; it is in.
        unknown: returns the context of a message that has none yet; None: it is taken care of.
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
        super().__init__(job)
        self.job, self.rank, self.vendor = job, rank, vendor
        self.client, self.neighbours = job.procs[rank].client, frozenset([rank])
        self.external = not (quirks.little_endian or job.native)
        """Whether messages between clients carry external32; else native form, like local ones."""
        self.threads, self._shortest = Threads(), shortest
        self.reduce_on_p2p = quirks.reduce_on_p2p
        """Whether tag 190 alone tells Reduce messages, which share the point-to-point context."""
        self.transfer = Transfer(job, rank, agent=agent)
        self.vendor_ranks = {world: local for local, world in enumerate(ranks or job.client_procs(self.client))}
        """World rank to rank at the vendor, for procs of our client."""
        own = job.procs[rank].host
        self._host_of = [own if agent else proc.host for proc in job.procs]
        """World rank to the host whose channel leads there."""
        self._hosts = tuple(sockets)
        self._patience = patience or Patience(0.0)
        self._channels = Channels(
            self.transfer,
            sockets,
            self._patience,
            deliver=None if quirks.reduce_on_p2p or job.is_resilient else self._deliver,
            arrived=self._remote_arrived,
            cancelled=self._remote_cancelled,
            foreign=job.version == STRICT_VERSION,
        )
        self._flush = self._channels.flush
        self._vendor_fd = vendor.fileno()
        self._longest_s = REMOTE_ONLY_S if self._vendor_fd is None else IDLE_S
        """Longest sleep of a wait for packets of one host."""
        self._others = len(self.vendor_ranks) > 1
        """Whether another proc can send to us through the vendor."""
        self._channels.add_poller(self._vendor_fd, vendor.progress, others=self._others)
        self.recovery = Recovery(self)
        self._contexts: dict[int, Context] = {}
        self._waiters: dict[int, Context] = {}
        self._inboxes: dict[int, Inbox] = {}
        """Context id to the matcher of its messages."""
        self._orphans: dict[int, list[Incoming]] = {}
        self.unknown: Callable[[Incoming], Context | None] = self._keep
        self._unmatched: dict[Incoming, Message] = {}
        self._active: list[Operation] = []
        self.asks = range(ASKS if self._patience.spin_s else 1)
        """How often a caller polls a library request before a turn of the engine."""
        self._standing = _NOTHING_STANDS
        """Sender (world rank), context id and tag that :meth:`next_receiver` waits for."""
        self._place, self._came = memoryview(b""), -1
        """Destination of that message, and its octets once it is here."""

    # ---- communicators -----------------------------------------------------------------

    def open(self, context: Context) -> None:
        """Register a communicator and match the messages that came before it."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        self._contexts[context.cid] = context
        context.waiters = self._waiters
        context.faults = Faults(self, context)
        for collective in (0, 1):
            self._inboxes[context.cid + collective] = (context.matchers[collective].meet, context.rank_of, context)
        self.recovery.opened(context)
        for cid in (context.cid, context.cid + 1):
            for incoming in self._orphans.pop(cid, ()):
                self._remote_arrived(incoming)

    def close(self, context: Context) -> None:
        """Remove a freed communicator."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        self._contexts.pop(context.cid, None)
        self._inboxes.pop(context.cid, None)
        self._inboxes.pop(context.cid + 1, None)
        context.leave()
        context.end()
        if context.shadow is not None:
            context.shadow.free()
        self.part(context)

    def make_context(
        self,
        cid: int,
        members: Sequence[int],
        peers: Sequence[int] | None = None,
        around: Callable[[Callable[..., LocalComm]], Callable[..., LocalComm]] | None = None,
    ) -> Context:
        """Create and open a context. Collective: the vendor creates the shadow with all members.

        ``around`` wraps that call where the vendor may block in it, and stands several threads.
        """
        if get_ident() != self.threads.owner:
            self.threads.enter()
        local = self._local(members, peers)
        subset, ranks = self.vendor.world.subset, [self.vendor_ranks[world] for world in local]
        shadow = subset(ranks, cid) if around is None else self.threads.outside(around(subset), ranks, cid)
        context = Context(cid, members, list(members).index(self.rank), shadow, local, peers=peers)
        self.open(context)
        return context

    def start_copy(self, context: Context, cid: int, finish: Callable[[Context], None]) -> Operation:
        """Start a copy of a context; ``finish`` gets it. Collective, in one order everywhere."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        assert context.shadow is not None
        shadow, pending = context.shadow.duplicate(cid)
        peers = context.peers if context.is_inter else None
        local = self._local(context.members, peers)
        copy = Context(cid, context.members, context.rank, shadow, local, peers=peers)

        def complete() -> None:
            self.open(copy)
            finish(copy)

        operation = CopyOperation(pending, complete)
        if not operation.done:
            self._active.append(operation)
        return operation

    def _local(self, members: Sequence[int], peers: Sequence[int] | None) -> list[int]:
        """Return the procs of our client in a group or two, in an order equal on all of them."""
        union = members if peers is None else sorted([*members, *peers])
        return [world for world in union if self.job.procs[world].client == self.client]

    # ---- messages ----------------------------------------------------------------------

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
        """Start a send to rank ``dest``; ``source`` stays in use until the send is done."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if context.revoked is not None and tag != RECOVERY_TAG:
            raise again(context.revoked)
        local = context.shadow_of.get(dest)
        if local is not None and context.shadow is not None:
            data = source.octets(external=context.external)
            pending = context.shadow.isend(local, 2 * tag + collective, data, sync=synchronous)
            operation = SendOperation(pending, None, source)
        else:
            views = source.views(external=self.external, shortest=self._shortest)
            if (
                len(views) == 1
                and not (synchronous or self.reduce_on_p2p)
                and self.short_sender(context, dest, collective=collective)(tag, views[0], source.count)
            ):
                return SENT
            return self.enqueue(context, dest, tag, source, views, synchronous=synchronous, collective=collective)
        if not operation.done:
            self._active.append(operation)
        return operation

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
        if get_ident() != self.threads.owner:
            self.threads.enter()
        world = context.peers[dest]
        if self.dance is not None:
            self.dance.reach(self._host_of[world])
        outgoing = self.transfer.send(
            world,
            cid=context.cid + (collective and not self._is_p2p_reduce(tag)),
            tag=tag,
            lsrank=context.rank,
            views=views,
            synchronous=synchronous,
            count=source.count,
        )
        self._flush(self._host_of[world])
        operation = SendOperation(None, outgoing, source)
        if not operation.done:
            self._active.append(operation)
        return operation

    def short_sender(self, context: Context, dest: int, *, collective: bool = False) -> ShortSend:
        """Return a sender of short messages to another client; not with ``reduce_on_p2p``."""
        known = context.short_senders[collective]
        send = known.get(dest)
        if send is None:
            world = context.peers[dest]
            if self.dance is not None:
                self.dance.reach(self._host_of[world])
            make = self.transfer.short_sender(world, context.cid + collective, context.rank)
            known[dest] = send = self._channels.short_sender(self._host_of[world], world, make, self.threads)
        return send

    def next_receiver(self, context: Context, source: int) -> Callable[[int, memoryview], int]:
        """Return ``receive(tag, place) -> nbytes`` for rank ``source`` of another client.

        ``receive`` waits for the next message of ``source`` while no receive is posted and no
        message is unmatched. A short message with ``tag`` goes from the read-ahead buffer into
        ``place``. -1: something else came first or is under way; call :meth:`Engine.receive`.
        """
        world, cid = context.peers[source], context.cid
        host, wait_on, patience, threads = self._host_of[world], self._channels.wait_on, self._patience, self.threads
        posted, unexpected = context.matchers[0].lines()

        def receive(tag: int, place: memoryview) -> int:
            if get_ident() != threads.owner:
                threads.enter()
            spin_s = patience.spin_s
            self._standing, self._place, self._came = (world, cid, tag), place, -1
            try:
                while not (posted or unexpected or self._active or threads.crowded or (self._others and self._waiters)):
                    moved = wait_on(host, spin_s, self._longest_s)
                    if self._came >= 0:
                        return self._came
                    spin_s = patience.spin_s if moved else 0.0
            finally:
                self._standing = _NOTHING_STANDS  # an interrupt, too, gives the place back
            return -1

        return receive

    def is_external(self, context: Context, dest: int) -> bool:
        """Whether :meth:`send` sends external32 to rank ``dest``."""
        return context.external or (self.external and dest not in context.shadow_of)

    def receive(
        self, context: Context, source: int, tag: int, target: Target, *, collective: bool = False
    ) -> ReceiveOperation:
        """Post a receive from rank ``source`` (or ANY_SOURCE)."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if context.revoked is not None:
            raise again(context.revoked)
        if source == ANY_SOURCE:
            # Remote messages may match every receive, and then nothing else would drain the shadow.
            self._drain(context)
        operation = ReceiveOperation(context, source, tag, target, collective=collective)
        message = context.matchers[collective].post(source, tag, operation)
        if message is None:
            if operation.maybe_local:
                context.count_waiting(1)
        else:
            self._matched(operation, message)
        return operation

    def receive_message(self, context: Context, message: Message, target: Target) -> ReceiveOperation:
        """Receive a message that a matched probe took off the queue."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        operation = ReceiveOperation(context, message.source, message.tag, target, collective=False)
        self._matched(operation, message)
        return operation

    def withdraw(self, operation: ReceiveOperation) -> bool:
        """Cancel a receive; False: it is matched already."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if operation.message is not None or not operation.context.matchers[operation.collective].withdraw(operation):
            return False
        if operation.maybe_local:
            operation.context.count_waiting(-1)
        operation.done = operation.cancelled = True
        return True

    def cancel(self, operation: SendOperation) -> None:
        """Cancel a send (IMPI 3.7.4). A local send stays: the vendor has its message already."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if operation.remote is not None and not operation.done:
            self.transfer.cancel(operation.remote)
            self._flush(self._host_of[operation.remote.dest])

    def probe(self, context: Context, source: int, tag: int, *, take: bool = False) -> Message | None:
        """Return the message that a receive would match now; ``take`` removes it from the queue."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        if context.revoked is not None:
            raise again(context.revoked)
        matcher = context.matchers[0]
        if source == ANY_SOURCE:
            self._drain(context)  # see receive()
        message = matcher.probe(source, tag)
        if message is None:
            self._drain(context)
            self.progress(0)
            message = matcher.probe(source, tag)
        if message is not None and take:
            message = matcher.take(source, tag)
        return message

    # ---- progress ----------------------------------------------------------------------

    def progress(self, timeout: float = 0.0) -> bool:
        """Run a turn of vendor, channels, operations; sleep <= ``timeout``. Whether any moved."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        self.vendor.progress()
        moved = False
        for context in tuple(self._waiters.values()):
            moved |= self._drain(context)
        moved |= self._advance()
        moved |= self._channels.poll(0.0 if moved else timeout)
        return self._advance() or moved

    def match_probed(self, context: Context, arrival: Arrival) -> None:
        """Match a point-to-point message that a caller took off the library's queue."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        source = context.local_ranks[arrival.source]
        self.arrived(context, False, Message(source, arrival.tag // 2, arrival.nbytes, 0, arrival, None, False))

    def track(self, operation: Operation) -> None:
        """Drive an operation until it is done."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        self._active.append(operation)

    @property
    def quiet(self) -> bool:
        """Whether nothing of ours is under way: no operation, no packet outside of TCP."""
        return not self._active and self.transfer.idle

    def shutdown(self) -> None:
        """Exchange FINI on every channel and close (IMPI 3.8); after the barrier of Finalize."""
        if get_ident() != self.threads.owner:
            self.threads.enter()
        for context in self._contexts.values():
            context.end()
        self.wait(lambda: self.quiet)
        if self.dance is not None:
            self.dance.close()
        self.transfer.finish()
        for host in self._hosts:
            self._flush(host)
        self.wait(lambda: self.transfer.finished and self._channels.written)
        self.closed = True
        self._channels.close()

    # ---- internals ---------------------------------------------------------------------

    def _advance(self) -> bool:
        if not self._active:
            return False
        running = self._active
        self._active = []  # advancing a collective starts further operations
        unfinished = [op for op in running if not op.advance()]
        self._active.extend(unfinished)
        return len(unfinished) != len(running)

    def _drain(self, context: Context) -> bool:
        """Match the local messages of a communicator in the order of their arrival."""
        if context.shadow is None:
            return False
        any_came = False
        for _ in range(_DRAINS):
            arrival = context.shadow.improbe()
            if arrival is None:
                break
            any_came = True
            source = context.local_ranks[arrival.source]
            tag, collective = divmod(arrival.tag, 2)
            self.arrived(context, bool(collective), Message(source, tag, arrival.nbytes, 0, arrival, None, False))
        return any_came

    def _remote_arrived(self, incoming: Incoming) -> None:
        context = self._contexts.get(incoming.cid & ~1) or self.unknown(incoming)
        if context is None:
            return
        source = context.rank_of.get(incoming.source)
        if source is None:
            raise JobError(
                f"a message of rank {incoming.source} came in on context {incoming.cid}, of which it is no member",
                clause="3.3",
            )
        message = Message(source, incoming.tag, incoming.nbytes, incoming.count, None, incoming, self.external)
        self.arrived(context, self._is_collective(incoming), message)

    def _keep(self, incoming: Incoming) -> None:
        # A peer may leave the creation of a communicator, and use it, before we do.
        self._orphans.setdefault(incoming.cid, []).append(incoming)

    def _remote_cancelled(self, incoming: Incoming) -> None:
        """Drop an unmatched message that its sender cancelled (IMPI 3.7.4)."""
        message = self._unmatched.pop(incoming, None)
        if message is None:
            if incoming in (orphans := self._orphans.get(incoming.cid, [])):
                orphans.remove(incoming)
        else:
            self._contexts[incoming.cid & ~1].matchers[self._is_collective(incoming)].discard(message)

    def _is_p2p_reduce(self, tag: int) -> bool:
        return self.reduce_on_p2p and tag == REDUCE_TAG

    def _is_collective(self, incoming: Incoming) -> bool:
        return bool(incoming.cid & 1) or self._is_p2p_reduce(incoming.tag)

    def arrived(self, context: Context, collective: bool, message: Message) -> None:
        """Give a message to what takes those of its tag, or to its receive, or keep it."""
        if collective and (take := context.takers.get(message.tag)):
            target = take(message.source)
            self._matched(ReceiveOperation(context, message.source, message.tag, target, collective=True), message)
            return
        operation = context.matchers[collective].arrive(message.source, message.tag, message)
        if operation is not None:
            if operation.maybe_local:
                context.count_waiting(-1)
            self._matched(operation, message)
        elif message.remote is not None:
            self._unmatched[message.remote] = message

    def _matched(self, operation: ReceiveOperation, message: Message) -> None:
        place = operation.place(message, self._shortest)
        if message.local is not None:
            if not isinstance(place, memoryview):
                place = memoryview(bytearray(message.nbytes))  # the vendor's only way to discard it
            operation.started(message.local.receive(place))
        elif message.remote is not None:
            self._unmatched.pop(message.remote, None)
            self.transfer.accept(message.remote, place)
            operation.started(None)
            self._flush(self._host_of[message.remote.source])
        if not operation.advance():
            self._active.append(operation)

    def _deliver(self, world: int, cid: int, tag: int, count: int, octets: memoryview) -> bool:
        """Give a whole short message of another client to its receive; False: there is none."""
        if self._standing == (world, cid, tag) and len(octets) <= len(self._place):
            self._came = nbytes = len(octets)
            self._place[:nbytes] = octets
            self._standing = _NOTHING_STANDS
            return True
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
        operation.deliver(source, tag, count, octets, external=self.external)
        return True
