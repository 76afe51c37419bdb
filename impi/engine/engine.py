"""The progress engine of a proc: the only place where a running job does I/O.

One per proc, single-threaded, non-blocking sockets and epoll. Whoever waits calls :meth:`Engine.wait`, which drives
*everything* of this proc, local and remote: while a packet of ours waits to be sent, a proc that blocks on a local
message must not stop serving its channels, or jobs deadlock.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence

from impi.collectives.tags import FAULT_TAG, REDUCE_TAG
from impi.engine.context import Context
from impi.engine.faults import Faults, Notice
from impi.engine.operations import CopyOperation, Message, Operation, ReceiveOperation, SendOperation
from impi.engine.payload import Source, Target
from impi.errors import JobError
from impi.job import Job
from impi.quirks import Quirks
from impi.semantics.constants import ANY_SOURCE
from impi.transfer import Arrived, Cancelled, Incoming, Transfer
from impi.vendors.base import Vendor

__all__ = ["Engine"]

_SPINS = 200
"""Turns without any progress before a wait on a vendor that must be polled begins to sleep."""
_NAP_S = 20e-6
_LONGEST_NAP_S = 1e-3
_IDLE_S = 1.0
"""Longest sleep where every event has a descriptor; only a bound on the effect of a lost wake-up."""
_REMOTE_ONLY_S = 0.05
"""Longest sleep while only channels matter: the vendor may still owe its peers a push of what it took over (eager
sends).
"""
_READS = 16
"""Most reads from one channel before the next gets its turn."""
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
    ) -> None:
        self.job = job
        self.rank = rank
        self.client = job.procs[rank].client
        self.vendor = vendor
        self.external = not quirks.little_endian
        """Whether messages between clients carry external32; else they are in native form, as local ones are."""
        self.reduce_on_p2p = quirks.reduce_on_p2p
        """Whether tag 190 is Reduce's alone: then its messages are told by it, as they are on the same context id."""
        self.transfer = Transfer(job, rank, agent=agent)
        self._vendor_ranks = {world: local for local, world in enumerate(ranks or job.client_procs(self.client))}
        own = job.procs[rank].host
        self._host_of = [own if agent else proc.host for proc in job.procs]
        """By rank: whose channel leads there."""
        self._sockets = sockets
        self._hosts = {sock.fileno(): host for host, sock in sockets.items()}
        self._writing: set[int] = set()
        self._epoll = select.epoll()
        for fd in self._hosts:
            self._epoll.register(fd, select.EPOLLIN)
        self._vendor_fd = vendor.fileno()
        if self._vendor_fd is not None:
            self._epoll.register(self._vendor_fd, select.EPOLLIN)
        self._contexts: dict[int, Context] = {}
        self._orphans: dict[int, list[Incoming]] = {}
        self._unmatched: dict[Incoming, Message] = {}
        self._active: list[Operation] = []

    # ---- communicators -------------------------------------------------------------------------------

    def open(self, context: Context) -> None:
        """Make a communicator known; messages that came before it are matched now."""
        self._contexts[context.cid] = context
        context.faults = Faults(self, context)
        for cid in (context.cid, context.cid + 1):
            for incoming in self._orphans.pop(cid, ()):
                self._remote_arrived(incoming)

    def close(self, context: Context) -> None:
        """Forget a communicator that was freed."""
        self._contexts.pop(context.cid, None)
        if context.shadow is not None:
            context.shadow.free()

    def make_context(self, cid: int, members: Sequence[int], peers: Sequence[int] | None = None) -> Context:
        """A communicator's engine side. Called by every member, as the vendor's shadow is made collectively."""
        local = self._local(members, peers)
        shadow = self.vendor.world.subset([self._vendor_ranks[world] for world in local], cid)
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
            world = context.peers[dest]
            outgoing = self.transfer.send(
                world,
                cid=context.cid + (collective and not self._is_p2p_reduce(tag)),
                tag=tag,
                lsrank=context.rank,
                views=[source.octets(external=self.external)],
                synchronous=synchronous,
                count=source.count,
            )
            self._flush(self._host_of[world])
            operation = SendOperation(None, outgoing, source)
        if not operation.done:
            self._active.append(operation)
        return operation

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
            if self._maybe_local(context, source):
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
        if self._maybe_local(operation.context, operation.source):
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
        idle = 0
        while not ready():
            timeout = 0.0
            if self._vendor_fd is not None:
                timeout = _IDLE_S if idle else 0.0
            elif not (polling or self._local_interest()):
                timeout = _REMOTE_ONLY_S if idle else 0.0
            elif idle > _SPINS:
                # epoll cannot sleep for less than a millisecond, and the vendor has no descriptor: a short nap
                # leaves the core to the procs that we wait for.
                time.sleep(min(_NAP_S * (1 + (idle - _SPINS) / 64), _LONGEST_NAP_S))
            idle = 0 if self.progress(timeout) else idle + 1

    def progress(self, timeout: float = 0.0) -> bool:
        """One turn over vendor, channels and operations; sleeps at most ``timeout`` seconds. Whether anything moved."""
        self.vendor.progress()
        moved = False
        for context in tuple(self._contexts.values()):
            if context.waiting:
                moved |= self._drain(context)
        moved |= self._advance()
        if moved:
            timeout = 0.0
        for fd, mask in self._epoll.poll(timeout):
            moved = True
            host = self._hosts.get(fd)
            if host is None:
                self.vendor.progress()
                continue
            if mask & ~select.EPOLLOUT:
                self._read(host)
            if mask & select.EPOLLOUT:
                self._flush(host)
        return self._advance() or moved

    def track(self, operation: Operation) -> None:
        """Let the engine drive an operation until it is done."""
        self._active.append(operation)

    @property
    def quiet(self) -> bool:
        """Whether nothing of ours is on its way: no operation, no packet not yet handed to TCP."""
        return not self._active and self.transfer.idle

    def shutdown(self) -> None:
        """IMPI 3.8: FINI on every channel both ways, then close. The barrier of Finalize comes before."""
        self.wait(lambda: self.quiet)
        self.transfer.finish()
        for host in self._sockets:
            self._flush(host)
        self.wait(lambda: self.transfer.finished and not self._writing)
        self._epoll.close()
        for sock in self._sockets.values():
            sock.close()

    # ---- inside --------------------------------------------------------------------------------------

    def _maybe_local(self, context: Context, source: int) -> bool:
        return source == ANY_SOURCE or source in context.shadow_of

    def _local_interest(self) -> bool:
        return any(context.waiting for context in self._contexts.values()) or any(
            not (isinstance(op, SendOperation) and op.remote is not None) for op in self._active
        )

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
            if self._maybe_local(context, operation.source):
                context.waiting -= 1
            self._matched(operation, message)
        elif message.remote is not None:
            self._unmatched[message.remote] = message

    def _matched(self, operation: ReceiveOperation, message: Message) -> None:
        place = operation.place(message)
        if message.local is not None:
            if place is None:
                place = memoryview(bytearray(message.nbytes))  # a vendor knows no other way to be rid of it
            operation.started(message.local.receive(place))
        elif message.remote is not None:
            self._unmatched.pop(message.remote, None)
            self.transfer.accept(message.remote, place)
            operation.started(None)
            self._flush(self._host_of[message.remote.source])
        if not operation.advance():
            self._active.append(operation)

    def _read(self, host: int) -> None:
        sock = self._sockets[host]
        for _ in range(_READS):
            try:
                n = sock.recv_into(self.transfer.get_buffer(host))
            except BlockingIOError:
                break
            except OSError:
                n = 0  # a reset, too, is a lawful end once both FINIs are exchanged: eof() knows
            if n == 0:
                self.transfer.eof(host)
                self._epoll.unregister(sock.fileno())
                self._writing.discard(host)
                break
            for event in self.transfer.received(host, n):
                match event:
                    case Arrived(incoming) if not incoming.cancelled:  # else its CANCEL was read with it
                        self._remote_arrived(incoming)
                    case Cancelled(incoming):
                        self._remote_cancelled(incoming)
        self._flush(host)

    def _flush(self, host: int) -> None:
        sock = self._sockets[host]
        if sock.fileno() < 0:
            return
        while views := self.transfer.data_to_send(host):
            try:
                n = sock.sendmsg(views)
            except BlockingIOError:
                self.transfer.sent(host, 0)
                self._want_write(host, True)
                return
            except OSError as error:
                raise JobError(f"the channel to host {host} broke: {error.strerror}", clause="3.8") from None
            self.transfer.sent(host, n)
        self._want_write(host, False)

    def _want_write(self, host: int, wanted: bool) -> None:
        if wanted == (host in self._writing):
            return
        mask = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(self._sockets[host].fileno(), mask)
        (self._writing.add if wanted else self._writing.discard)(host)
