"""LCOs on the engine: their packets travel in the collective context of MPI_COMM_WORLD.

How it works: no context of their own is agreed on, so an LCO needs no collective: all procs of the
job have MPI_COMM_WORLD, and the engine moves its messages between clients and inside one. Packets
have SLOT_TAG there, which :attr:`Context.takers` gives to :class:`Traffic`; long messages follow
with SLOT_DATA_TAG, straight into the receiver's memory. A short message to an open slot of another
client needs no packet (:mod:`impi.rank.engine.lcos.lco_ports`).

To the engine an LCO is a context all of whose messages go through a shadow: :class:`_Shadow` makes
packets of them. A message that comes for an LCO goes into the matcher of its context. So matching,
probes and requests are the usual ones, and a process without LCOs has nothing of this.

Once this exists, every turn of the engine looks for messages of this client, too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.collectives.tags import SLOT_DATA_TAG, SLOT_TAG
from impi.protocol.slots import packets
from impi.protocol.slots.machine import LocalObject, Machine, Moving, Parcel, SendSlot
from impi.protocol.slots.names import Name
from impi.rank.engine.channels.entries import any_thread, creation, entry
from impi.rank.engine.channels.payload import DirectTarget, OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.faults import Faults
from impi.rank.engine.lcos.lco_ports import Ports
from impi.rank.engine.operations import TakenMessage
from impi.rank.vendors.base import (
    Arrival,
    LocalCollectives,
    LocalComm,
    NativeComm,
    Pending,
    Sending,
)

_DEAF: Final = 7  # Mask: every eighth send takes a turn of the engine


class LcoContext(Context):
    """The engine's side of an LCO: destinations are its send slots, sources its receive slots."""

    lco: LocalObject
    """Set once, at the creation."""

    def __init__(self, shadow: LocalComm, traffic: Traffic) -> None:
        super().__init__(-1, (), 0, shadow, ())
        self._traffic = traffic

    def count_waiting(self, more: int) -> None:
        """Nothing: no shadow need be drained, as packets come to the matcher by themselves."""

    def sender_of(self, source: int) -> int | None:
        """Return the rank of the only send slot that refers to a receive slot, if it is remote.

        A further remote one may come while a receive waits: that wait serves all channels.
        """
        if self._traffic.to_itself:
            return None  # an ATTACH of this proc to itself may be on its way

        worlds = [one.world for one in self.lco.attached if one.slot == source]

        return (
            worlds[0]
            if len(worlds) == 1 and self._traffic.is_remote(worlds[0])
            else None
        )

    def resize(self) -> None:
        self.npeers, self.nsources = len(self.lco.send_slots), self.lco.receive_slots
        for slot in range(len(self.shadow.rank_of), max(self.npeers, self.nsources)):
            self.shadow.rank_of[slot] = slot

    def form(self, engine: Engine, rank: int, size: int) -> None:
        """Become one of ``size`` LCOs that form an intracommunicator, for its collectives."""
        self.rank, self.peers = rank, tuple(range(size))
        self.faults = Faults(engine, self)


class Traffic:
    """The LCOs of one proc, and their packets.

    Args:
        engine: of this proc.
        world: the context of MPI_COMM_WORLD.
    """

    @creation
    def __init__(self, engine: Engine, world: Context) -> None:
        self.threads = engine.threads
        self._engine = engine
        self._world = world
        self._contexts: dict[int, LcoContext] = {}  # By number of the LCO
        self._ports = Ports(engine, self._contexts)
        self._machine = self._ports.machine = Machine(
            self._post, self._transmit, self._ports
        )
        self._inboxes: dict[int, deque[_Letter]] = defaultdict(deque)
        self.to_itself = 0
        """Packets of this proc to itself that were not handled yet."""
        self._me = engine.job.procs[engine.rank]
        # Procs of our own job only: LCOs of others cannot be named.
        self._ranks = {
            (proc.ipv6, proc.pid): proc.rank
            for proc in engine.job.procs[: engine.ways.home]
        }
        world.takers[SLOT_TAG] = self._expect
        # To the end: packets of local procs may come at any time
        world.count_waiting(1)

    @entry
    def create(self, key: bytes) -> LcoContext:
        engine = self._engine
        context = LcoContext(_Shadow(engine, self._machine), self)
        context.shadow.external = engine.external
        context.faults = Faults(engine, context)

        def deliver(parcel: Parcel) -> None:
            tag, collective = divmod(parcel.tag, 2)
            arrival = _Arrived(self, parcel)
            message = TakenMessage(
                parcel.slot,
                tag,
                parcel.nbytes,
                0,
                arrival,
                None,
                context.shadow.external,
            )
            engine.matching.arrived(context, bool(collective), message)

        context.lco = self._machine.create(key, deliver)
        context.shadow.comm.lco = context.lco  # type: ignore[union-attr]
        self._contexts[context.lco.number] = context

        return context

    @any_thread
    def name(self, context: LcoContext) -> Name:
        return Name(self._me.ipv6, self._me.pid, context.lco.number, context.lco.key)

    @any_thread
    def rank_of(self, name: Name) -> int | None:
        """Return the rank of the proc that has the named LCO; None: it is of another job."""
        return self._ranks.get((name.address, name.pid))

    @entry
    def attach(self, context: LcoContext, world: int, name: Name) -> SendSlot:
        assert name.slot is not None, "it names an LCO and no slot"
        made = self._machine.attach(context.lco, world, name.lco, name.slot, name.key)
        context.resize()

        return made

    @entry
    def add_receive_slots(self, context: LcoContext, count: int) -> None:
        self._machine.add_receive_slots(context.lco, count)
        context.resize()

    @entry
    def settle(self) -> None:
        self._engine.turns.wait(lambda: not self.to_itself)

    @entry
    def free(self, context: LcoContext) -> None:
        # Before the machine tells the senders how many messages were received: those that no
        # receive has taken must not count.
        self._ports.discard(context)
        for one in context.lco.attached:
            self._ports.close(one.world, one.number)

        self._ports.leave(context.lco.send_slots)
        self._machine.free(context.lco)
        del self._contexts[context.lco.number]

    # ---- packets ---------------------------------------------------------------------------------

    @any_thread
    def is_remote(self, world: int) -> bool:
        return world not in self._engine.vendor_ranks

    def _post(self, world: int, octets: bytes) -> None:
        # Also to this proc itself, by the library: one way for all packets keeps one order.
        self._engine.send(
            self._world, world, SLOT_TAG, OctetSource(octets), collective=True
        )
        self.to_itself += world == self._engine.rank

    def _transmit(self, world: int, data: memoryview) -> Moving:
        return self._engine.send(
            self._world, world, SLOT_DATA_TAG, OctetSource(data), collective=True
        )

    def _expect(self, source: int) -> _Letter:
        letter = _Letter(self, source)
        self._inboxes[source].append(letter)
        return letter

    @any_thread
    def arrived(self, source: int) -> None:
        """Handle the packets of a rank that are whole, in the order in which they began to come.

        Raises:
            PeerError: one is malformed.
        """
        # A long packet may be complete after a short one that began later. The machine relies on
        # the order of each sender, so whole packets wait for the ones before them.
        inbox = self._inboxes[source]
        while inbox and inbox[0].whole:
            self.to_itself -= source == self._engine.rank
            try:
                self._machine.handle(source, inbox.popleft().data)
            except ValueError as failure:
                raise PeerError(f"rank {source}: {failure}") from None

    @any_thread
    def take(self, parcel: Parcel, buffer: memoryview) -> Pending:
        """Put a matched message into ``buffer``, or receive it there."""

        if not parcel.flags & packets.APART:
            buffer[: parcel.nbytes] = parcel.data
            self._machine.take(parcel)
            return _DONE

        # The receive first, then CLEAR: the octets that it calls for go straight to their place.
        target = DirectTarget(buffer[: parcel.nbytes])
        operation = self._engine.receive(
            self._world, parcel.world, SLOT_DATA_TAG, target, collective=True
        )
        self._machine.take(parcel)

        return _Coming(operation)


class _Letter(OctetTarget):
    """The place of one packet."""

    def __init__(self, traffic: Traffic, source: int) -> None:
        super().__init__()
        self._traffic = traffic
        self._source = source
        self.whole = False

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Have the packet handled after those before it."""
        self.whole = True
        self._traffic.arrived(self._source)


class _Done:
    def test(self) -> bool:
        return True


_DONE = _Done()


class _Coming:
    """Octets that are received apart from their packet."""

    def __init__(self, operation: Moving) -> None:
        self._operation = operation

    def test(self) -> bool:
        return self._operation.done


class _Arrived:
    """A message for an LCO in the form of a vendor's arrival."""

    def __init__(self, traffic: Traffic, parcel: Parcel) -> None:
        self._traffic = traffic
        self._parcel = parcel
        self.source, self.tag, self.nbytes = parcel.slot, parcel.tag, parcel.nbytes
        self.octets: memoryview | None = None

    def receive(self, buffer: memoryview) -> Pending:
        """Take the octets; tell a sender that waits."""
        return self._traffic.take(self._parcel, buffer)


class _Shadow:
    """An LCO in the form of a vendor's communicator, for the engine."""

    rank, size = 0, 0
    collectives: LocalCollectives | None = None
    native: NativeComm | None = None
    lco: LocalObject

    def __init__(self, engine: Engine, machine: Machine) -> None:
        self._engine = engine
        self._machine = machine
        self._sends = 0

    def isend(self, dest: int, tag: int, data: memoryview, *, sync: bool) -> Sending:
        self._sends += 1
        if not tag & 1 and self._sends & _DEAF == 0:
            # Sends that are complete at once would never hear that a slot is gone. Those of
            # collectives are within a turn of the engine.
            self._engine.turns.progress()

        return self._machine.send(
            self.lco.send_slots[dest], tag, data, synchronous=sync
        )

    def improbe(self) -> Arrival | None:
        """Return None: messages come to the matcher by themselves."""
        return None

    def subset(self, ranks: Sequence[int], cid: int) -> LocalComm:
        raise NotImplementedError

    def duplicate(self, cid: int) -> tuple[LocalComm, Pending]:
        raise NotImplementedError

    def free(self) -> None:
        """Nothing to free."""
