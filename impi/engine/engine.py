"""The progress engine of a proc: the only place where a running job does I/O.

One per proc, single-threaded, non-blocking sockets and epoll. Whoever waits calls :meth:`Engine.wait`, which drives
*everything* of this proc, local and remote: while a packet of ours waits to be sent, a proc that blocks on a local
message must not stop serving its channels, or jobs deadlock.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from impi.collectives.tags import FAULT_TAG, REDUCE_TAG
from impi.engine.channels import Channels
from impi.engine.context import Context, ShortSend
from impi.engine.faults import Faults, Notice
from impi.engine.operations import SENT, Compound, CopyOperation, Message, Operation, ReceiveOperation, SendOperation
from impi.engine.payload import Source, Target
from impi.engine.waiting import ASKS, LONGEST_S, Patience
from impi.errors import JobError
from impi.job import Job
from impi.quirks import Quirks
from impi.semantics.blocks import SHORTEST
from impi.semantics.constants import ANY_SOURCE
from impi.transfer import Incoming, Transfer
from impi.vendors.base import Arrival, Vendor

__all__ = ["Engine"]

Inbox = tuple[Callable[[int, int], ReceiveOperation | None], dict[int, int], Context]

_NOTHING_STANDS: Final = (-1, -1, -1)

_NAP_S = 20e-6
"""First sleep of a wait on a vendor that must be polled; each is longer than the one before by a quarter of it."""
_LONGEST_NAP_S = 1e-3
_IDLE_S = 1.0
"""Longest sleep where every event has a descriptor; only a bound on the effect of a lost wake-up."""
_REMOTE_ONLY_S = 0.05
"""Longest sleep while only channels matter: the vendor may still owe its peers a push of what it took over (eager
sends).
"""
_DRAINS = 64
"""Most local messages that are taken in before the channels get their turn."""


class Engine:
    """Drives the channels and the vendor of one proc.

    Args:
        job: the negotiated facts.
        rank: this proc's rank in MPI_COMM_WORLD.
        vendor: the library behind the procs of this client.
        sockets: a connected socket for each host of another client, by global host index; or just the one with our
            own host, where that is an agent of its own.
        ranks: the ranks in MPI_COMM_WORLD of the procs of this client, in the vendor's order; they ascend unless given.
        agent: whether our host is an agent of its own.
        quirks: what to do as the other clients' hosts do, against the specification.
        patience: how long waits spin; without it they block at once.
        shortest: octets of the blocks, on the average, from which a message to another client is not packed.
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
        self.client = job.procs[rank].client
        self.vendor = vendor
        self.external = not (quirks.little_endian or job.native)
        """Whether messages between clients carry external32; else they are in native form, as local ones are."""
        self.long_size = job.long_size
        """Octets of MPI_LONG on the wire."""
        self._shortest = shortest
        self.reduce_on_p2p = quirks.reduce_on_p2p
        """Whether tag 190 is Reduce's alone: then its messages are told by it, as they are on the same context id."""
        self.transfer = Transfer(job, rank, agent=agent)
        self.vendor_ranks = {world: local for local, world in enumerate(ranks or job.client_procs(self.client))}
        """By rank in MPI_COMM_WORLD, of the procs of our client."""
        own = job.procs[rank].host
        self._host_of = [own if agent else proc.host for proc in job.procs]
        """By rank: whose channel leads there."""
        self._hosts = tuple(sockets)
        self._patience = patience or Patience(0.0)
        self._channels = Channels(
            self.transfer,
            sockets,
            self._patience,
            # With that quirk a tag tells what is collective; nothing needs to be fast there.
            deliver=None if quirks.reduce_on_p2p else self._deliver,
            arrived=self._remote_arrived,
            cancelled=self._remote_cancelled,
        )
        self._flush = self._channels.flush
        self._vendor_fd = vendor.fileno()
        self._longest_s = _REMOTE_ONLY_S if self._vendor_fd is None else _IDLE_S
        """Longest sleep of a wait for packets of one host."""
        self._others = len(self.vendor_ranks) > 1
        """Whether anybody but ourselves can send through the vendor."""
        self._channels.add_poller(self._vendor_fd, vendor.progress, others=self._others)
        self._contexts: dict[int, Context] = {}
        self._inboxes: dict[int, Inbox] = {}
        """By context id: what a message that comes in there concerns."""
        self._orphans: dict[int, list[Incoming]] = {}
        self._unmatched: dict[Incoming, Message] = {}
        self._active: list[Operation] = []
        self.asks = range(ASKS if self._patience.spin_s else 1)
        """How often a caller of the library may ask it before the engine has a turn."""
        self._standing = _NOTHING_STANDS
        """Sender (rank in MPI_COMM_WORLD), context id and tag of the message that :meth:`next_receiver` waits for."""
        self._place = memoryview(b"")
        """Where that message goes."""
        self._came = -1
        """Its octets, once it has come."""

    # ---- communicators -------------------------------------------------------------------------------

    def open(self, context: Context) -> None:
        """Make a communicator known; messages that came before it are matched now."""
        self._contexts[context.cid] = context
        context.faults = Faults(self, context)
        for collective in (0, 1):
            self._inboxes[context.cid + collective] = (context.matchers[collective].meet, context.rank_of, context)
        for cid in (context.cid, context.cid + 1):
            for incoming in self._orphans.pop(cid, ()):
                self._remote_arrived(incoming)

    def close(self, context: Context) -> None:
        """Forget a communicator that was freed."""
        self._contexts.pop(context.cid, None)
        self._inboxes.pop(context.cid, None)
        self._inboxes.pop(context.cid + 1, None)
        _ended(context)
        if context.shadow is not None:
            context.shadow.free()

    def make_context(self, cid: int, members: Sequence[int], peers: Sequence[int] | None = None) -> Context:
        """A communicator's engine side. Called by every member, as the vendor's shadow is made collectively."""
        local = self._local(members, peers)
        shadow = self.vendor.world.subset([self.vendor_ranks[world] for world in local], cid)
        context = Context(cid, members, list(members).index(self.rank), shadow, local, peers=peers)
        self.open(context)
        return context

    def start_copy(self, context: Context, cid: int, finish: Callable[[Context], None]) -> Operation:
        """Start to make a context of the same groups; ``finish`` gets it. Called by every member, in the same order."""
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
        """The procs of our own client among them, in an order that is the same for all of these."""
        union = members if peers is None else sorted([*members, *peers])
        return [world for world in union if self.job.procs[world].client == self.client]

    # ---- messages ------------------------------------------------------------------------------------

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
        """Start sending to rank ``dest`` of the communicator; the octets stay in use until it is done."""
        local = context.shadow_of.get(dest)
        if local is not None and context.shadow is not None:
            data = source.octets(external=False)
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
        """Start sending ``views`` of ``source`` to rank ``dest`` of another client, behind what is queued for it."""
        world = context.peers[dest]
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
        """Return what sends short messages to rank ``dest`` of another client with one system call.

        Not where Reduce shares the context of point-to-point messages (``reduce_on_p2p``).
        """
        known = context.short_senders[collective]
        send = known.get(dest)
        if send is None:
            world = context.peers[dest]
            make = self.transfer.short_sender(world, context.cid + collective, context.rank)
            known[dest] = send = self._channels.short_sender(self._host_of[world], world, make)
        return send

    def next_receiver(self, context: Context, source: int) -> Callable[[int, memoryview], int]:
        """Return ``receive(tag, place) -> nbytes`` for rank ``source`` of another client.

        It waits for the next message of ``source``, while no receive is posted and no message waits to be matched. A
        short message of the tag goes from the read-ahead buffer into ``place``. -1: something else came first, or is
        under way, and :meth:`receive` is to be called.
        """
        world, cid = context.peers[source], context.cid
        host, wait_on, patience = self._host_of[world], self._channels.wait_on, self._patience
        posted, unexpected = context.matchers[0].lines()

        def receive(tag: int, place: memoryview) -> int:
            spin_s = patience.spin_s
            self._standing, self._place, self._came = (world, cid, tag), place, -1
            try:
                while not (posted or unexpected or self._active or (self._others and self._awaits_local())):
                    moved = wait_on(host, spin_s, self._longest_s)
                    if self._came >= 0:
                        return self._came
                    spin_s = patience.spin_s if moved else 0.0
            finally:
                self._standing = _NOTHING_STANDS  # after an interrupt, too: the place is the program's again
            return -1

        return receive

    def is_external(self, context: Context, dest: int) -> bool:
        """Whether :meth:`send` sends external32 to rank ``dest``."""
        return self.external and dest not in context.shadow_of

    def receive(
        self, context: Context, source: int, tag: int, target: Target, *, collective: bool = False
    ) -> ReceiveOperation:
        """Post a receive from rank ``source`` (or ANY_SOURCE)."""
        if source == ANY_SOURCE:
            # A remote message may always be at hand, so that nothing else would ever look for local ones.
            self._drain(context)
        operation = ReceiveOperation(context, source, tag, target, collective=collective)
        message = context.matchers[collective].post(source, tag, operation)
        if message is None:
            if operation.maybe_local:
                context.waiting += 1
        else:
            self._matched(operation, message)
        return operation

    def receive_message(self, context: Context, message: Message, target: Target) -> ReceiveOperation:
        """Receive a message that a matched probe took off the queue."""
        operation = ReceiveOperation(context, message.source, message.tag, target, collective=False)
        self._matched(operation, message)
        return operation

    def withdraw(self, operation: ReceiveOperation) -> bool:
        """Cancel a receive; False if it is matched already."""
        if operation.message is not None or not operation.context.matchers[operation.collective].withdraw(operation):
            return False
        if operation.maybe_local:
            operation.context.waiting -= 1
        operation.done = operation.cancelled = True
        return True

    def cancel(self, operation: SendOperation) -> None:
        """Ask for a send to be taken back (IMPI 3.7.4). A local one is never: its message is the vendor's already."""
        if operation.remote is not None and not operation.done:
            self.transfer.cancel(operation.remote)
            self._flush(self._host_of[operation.remote.dest])

    def probe(self, context: Context, source: int, tag: int, *, take: bool = False) -> Message | None:
        """The message that a receive would match now, or None; ``take`` removes it (matched probe)."""
        matcher = context.matchers[0]
        if source == ANY_SOURCE:
            self._drain(context)  # as in receive()
        message = matcher.probe(source, tag)
        if message is None:
            self._drain(context)
            self.progress(0)
            message = matcher.probe(source, tag)
        if message is not None and take:
            message = matcher.take(source, tag)
        return message

    # ---- progress ------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[], bool], *, polling: bool = False) -> None:
        """Drive everything until ``ready()``. ``polling``: a local message may come although none is posted for
        (probe).
        """
        spins, begun, naps, timeout = self._patience.spin_s, 0.0, 0, 0.0
        while not ready():
            if self.progress(timeout):
                begun, naps, timeout = 0.0, 0, 0.0
                continue
            if spins:
                now = perf_counter()
                begun = begun or now
                if now - begun < spins:
                    continue
            if self._vendor_fd is not None:
                timeout = _IDLE_S
            elif not (polling and self._others) and not self._local_interest():
                timeout = _REMOTE_ONLY_S
            else:
                # The vendor has no descriptor: short sleeps, which a packet ends, leave the core to whoever is waited
                # for.
                timeout = min(_NAP_S * (1 + naps / 4), _LONGEST_NAP_S)
                naps += 1

    def wait_for(self, operation: Operation) -> None:
        """As :meth:`wait`, for one operation to be done."""
        spin_s = self._patience.spin_s
        if not self._others and isinstance(operation, ReceiveOperation) and operation.maybe_local:
            self.progress()  # brings messages to ourselves; there will be no more of these while we wait
        while not operation.done and (host := self._only_host(operation)) is not None:
            moved = self._channels.wait_on(host, spin_s, self._longest_s)
            spin_s = self._patience.spin_s if moved else 0.0
            if self._active:
                self._advance()
        if not operation.done:
            self.wait(lambda: operation.done)

    def progress(self, timeout: float = 0.0) -> bool:
        """One turn over vendor, channels and operations; sleeps at most ``timeout`` seconds. Whether anything moved."""
        self.vendor.progress()
        moved = False
        for context in tuple(self._contexts.values()):
            if context.waiting:
                moved |= self._drain(context)
        moved |= self._advance()
        moved |= self._channels.poll(0.0 if moved else timeout)
        return self._advance() or moved

    def ask(self, test: Callable[[], bool]) -> bool:
        """Ask a call of the library again and again, with turns for all else, as long as waits spin, at most 1 ms.

        Whether ``test`` has said yes. What it raises goes through.
        """
        spin_s = min(self._patience.spin_s, LONGEST_S)
        begun = 0.0
        while spin_s:
            self.progress()
            for _ in self.asks:
                if test():
                    return True
            now = perf_counter()
            begun = begun or now
            if now - begun > spin_s:
                break
        return test()

    def match_probed(self, context: Context, arrival: Arrival) -> None:
        """Match a point-to-point message that a caller took off the library's queue."""
        source = context.local_ranks[arrival.source]
        self._arrived(context, False, Message(source, arrival.tag // 2, arrival.nbytes, 0, arrival, None, False))

    def doze(self, seconds: float) -> None:
        """Sleep until a packet may have come, at most so long; any thread may call it."""
        self._channels.doze(seconds)

    def track(self, operation: Operation) -> None:
        """Let the engine drive an operation until it is done."""
        self._active.append(operation)

    @property
    def quiet(self) -> bool:
        """Whether nothing of ours is on its way: no operation, no packet not yet handed to TCP."""
        return not self._active and self.transfer.idle

    def shutdown(self) -> None:
        """IMPI 3.8: FINI on every channel both ways, then close. The barrier of Finalize comes before."""
        for context in self._contexts.values():
            _ended(context)
        self.wait(lambda: self.quiet)
        self.transfer.finish()
        for host in self._hosts:
            self._flush(host)
        self.wait(lambda: self.transfer.finished and self._channels.written)
        self._channels.close()

    # ---- inside --------------------------------------------------------------------------------------

    def _local_interest(self) -> bool:
        """Whether what the vendor brings, or has yet to say, matters to anything under way."""
        if self._others and self._awaits_local():
            return True
        return not all(map(_is_remote, self._active))

    def _awaits_local(self) -> bool:
        return any(context.waiting for context in self._contexts.values())

    def _only_host(self, operation: Operation) -> int | None:
        """The host whose packets alone can complete it, where nothing local matters just now."""
        host = None
        awaited = _awaited(operation)
        if isinstance(awaited, ReceiveOperation):
            if not awaited.maybe_local:
                host = self._host_of[awaited.context.peers[awaited.source]]
            elif awaited.source == ANY_SOURCE and not self._others and len(self._hosts) == 1:
                host = self._hosts[0]
        elif isinstance(awaited, SendOperation) and awaited.remote is not None:
            host = self._host_of[awaited.remote.dest]
        return None if host is None or self._local_interest() else host

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
            self._arrived(context, bool(collective), Message(source, tag, arrival.nbytes, 0, arrival, None, False))
        return any_came

    def _remote_arrived(self, incoming: Incoming) -> None:
        context = self._contexts.get(incoming.cid & ~1)
        if context is None:
            # A peer may leave the creation of a communicator, and use it, before we do.
            self._orphans.setdefault(incoming.cid, []).append(incoming)
            return
        source = context.rank_of.get(incoming.source)
        if source is None:
            raise JobError(
                f"a message of rank {incoming.source} came in on context {incoming.cid}, of which it is no member",
                clause="3.3",
            )
        message = Message(source, incoming.tag, incoming.nbytes, incoming.count, None, incoming, self.external)
        self._arrived(context, self._is_collective(incoming), message)

    def _remote_cancelled(self, incoming: Incoming) -> None:
        """IMPI 3.7.4: its sender took an unmatched message back."""
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

    def _arrived(self, context: Context, collective: bool, message: Message) -> None:
        if collective and message.tag == FAULT_TAG:
            target = Notice(context.faults, message.source)
            self._matched(ReceiveOperation(context, message.source, FAULT_TAG, target, collective=True), message)
            return
        operation = context.matchers[collective].arrive(message.source, message.tag, message)
        if operation is not None:
            if operation.maybe_local:
                context.waiting -= 1
            self._matched(operation, message)
        elif message.remote is not None:
            self._unmatched[message.remote] = message

    def _matched(self, operation: ReceiveOperation, message: Message) -> None:
        place = operation.place(message, self._shortest)
        if message.local is not None:
            if not isinstance(place, memoryview):
                place = memoryview(bytearray(message.nbytes))  # a vendor knows no other way to be rid of it
            operation.started(message.local.receive(place))
        elif message.remote is not None:
            self._unmatched.pop(message.remote, None)
            self.transfer.accept(message.remote, place)
            operation.started(None)
            self._flush(self._host_of[message.remote.source])
        if not operation.advance():
            self._active.append(operation)

    def _deliver(self, world: int, cid: int, tag: int, count: int, octets: memoryview) -> bool:
        """Give a whole short message of another client to the receive that waits for it; False: none does."""
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
            context.waiting -= 1
        operation.deliver(source, tag, count, octets, external=self.external)
        return True


def _ended(context: Context) -> None:
    if context.when_closed is not None:
        context.when_closed()
        context.when_closed = None


def _is_remote(operation: Operation) -> bool:
    """Whether only packets can move it."""
    awaited = _awaited(operation)
    if isinstance(awaited, SendOperation):
        return awaited.remote is not None
    # One that is not matched is among those that a collective waits for only.
    return isinstance(awaited, ReceiveOperation) and (awaited.is_remote or not awaited.maybe_local)


def _awaited(operation: Operation) -> Operation | None:
    """The operation itself, or of a collective the only one that it waits for just now, if there is just one."""
    return operation if not isinstance(operation, Compound) else operation.awaited
