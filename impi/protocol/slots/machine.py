"""One proc's LCOs: their attached send slots, the messages kept for them, and unfinished sends.

How it works: calls and packets come in; packets go out by ``post``, messages for existing receive
slots by the LCO's ``deliver``. Nothing here waits for a packet. Packets between two procs keep
their order, and the machine relies on that: ATTACH comes before the slot's first message.

Invariants:

* A send slot that does not know its receive slot to exist asks for a reply to each message. So a
  message for a slot that does not exist is kept, or its own send fails; nothing is lost in silence.
* Numbers of LCOs are never used again, so a late name of a freed LCO fits no other one.
* An LCO counts the send slots that refer to it, and tells each when it is freed, with how many of
  its messages were received.
* A short message for an open slot may go past the packets, by its *port*. None does while another
  one of its send slot is on its way in a packet: each such message asks for a reply.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import Final, Protocol

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.slots import packets
from impi.protocol.slots.names import slot_key
from impi.protocol.slots.packets import Packet, parse_packet

INLINE: Final = 8192
"""Most octets that travel with their packet; more of them wait for the receive."""
KEPT_MESSAGES: Final = 1024
KEPT_OCTETS: Final = 1 << 20
"""Most that an LCO keeps for receive slots that do not exist yet."""

# Never changed: most slots wait for nothing most of the time
_NONE: Final[set[int]] = set()
_ASKED: Final = 0  # State of a send slot whose ATTACH is not answered


class Moving(Protocol):
    """Octets that travel apart from their packet."""

    done: bool


class Ports(Protocol):
    """The way of messages past the packets."""

    def reach(self, world: int) -> int:
        """Return the most octets of a message that goes this way to a rank; -1: none can."""

    def send(self, slot: SendSlot, tag: int, data: memoryview) -> Moving:
        """Begin to send a message, which overtakes no packet."""

    def close(self, world: int, number: int) -> None:
        """No message of that number of a rank comes any more."""


class Sent:
    """A message from a send slot, as a pending operation of a vendor."""

    __slots__ = ("data", "done", "failure", "moving", "slot")
    cancelled = False

    def __init__(self, slot: SendSlot, data: memoryview | None) -> None:
        self.slot = slot
        self.data = data
        self.done = False
        self.failure: MPIException | None = None
        self.moving: Moving | None = None

    def test(self) -> bool:
        """Return whether the buffer is free (synchronous: and the message matched).

        Raises:
            Exception: ERR_PORT: it was refused.
        """
        if self.failure is not None:
            raise self.failure

        if self.moving is not None:
            self.done = self.moving.done

        return self.done

    def cancel(self) -> None:
        """Leave it: the slot has the message."""


class SendSlot:
    """A reference to a receive slot of an LCO; endpoints have many, so it is small."""

    __slots__ = (
        "index",
        "lco",
        "leaving",
        "number",
        "reach",
        "sent",
        "short",
        "slot",
        "state",
        "taken",
        "waiting",
        "world",
    )

    def __init__(
        self, index: int, world: int, lco: int, slot: int, number: int, reach: int
    ) -> None:
        self.index = index
        """Index of this slot in its own LCO."""
        self.world = world
        """Rank of the proc that has the other LCO."""
        self.lco = lco
        self.slot = slot
        """The receive slot there."""
        self.number = number
        self.reach = reach
        """Most octets of a message that can go past the packets; -1: none can."""
        self.state = _ASKED
        self.sent = 0
        """Messages sent."""
        self.taken = 0
        """Messages sent that were received; known once the LCO there is freed."""
        self.waiting = _NONE
        """Serial numbers of messages that await a reply."""
        self.leaving = False
        self.short: Callable[[int, memoryview, int], bool] | None = None
        """``short(tag, octets, 0)``: a point-to-point message past the packets, while none is
        :attr:`waiting`. False: it cannot go so just now. None: :meth:`Machine.send` alone knows."""

    @property
    def refused(self) -> bool:
        return self.state in (packets.FREED, packets.UNKNOWN, packets.FORGED)

    def failure(self, code: int) -> MPIException:
        where = f"send slot {self.index}, to receive slot {self.slot} of LCO {self.lco} of rank {self.world}"
        why = {
            packets.FREED: f"that LCO was freed; of {self.sent} messages sent there, {self.taken} were received",
            packets.UNKNOWN: "there is no such LCO; use the name that Get_lco_name returns in this job",
            packets.FORGED: "the name does not open that slot: its key is wrong; use the name as its maker gave it",
            packets.FULL: f"that slot does not exist yet, and no more than {KEPT_MESSAGES} messages and "
            f"{KEPT_OCTETS} octets are kept; let Add_receive_slots come first",
        }[code]
        return error("ERR_PORT", f"{where}: {why}")


@record(frozen=False, eq=False)
class Attached:
    """A send slot of any proc that refers to an LCO here."""

    world: int
    number: int
    lco: LocalObject
    slot: int
    taken: int = 0
    """Its messages that were received."""


@record(frozen=False, eq=False)
class Parcel:
    """A message that is here; ``data`` is empty if its octets come later."""

    attached: Attached
    serial: int
    flags: int
    tag: int
    nbytes: int
    data: bytes

    @property
    def slot(self) -> int:
        return self.attached.slot

    @property
    def world(self) -> int:
        return self.attached.world


Deliver = Callable[[Parcel], None]


class LocalObject:
    """An LCO of this proc."""

    def __init__(self, number: int, key: bytes, deliver: Deliver) -> None:
        self.number = number
        self.key = key
        self.deliver = deliver
        self.receive_slots = 0
        self.send_slots: list[SendSlot] = []
        self.attached: list[Attached] = []
        """Send slots that refer to this LCO."""
        self.kept: list[Parcel] = []
        """Messages for receive slots that do not exist yet."""
        self.kept_octets = 0
        self.freed = False

    def has_room(self, nbytes: int) -> bool:
        return (
            len(self.kept) < KEPT_MESSAGES and self.kept_octets + nbytes <= KEPT_OCTETS
        )


_NOBODY: Final[dict[int, Attached]] = {}


class Machine:
    """The LCOs of one proc.

    Args:
        post: sends a packet to a rank of the job.
        transmit: begins to send the octets of a message, which a receive awaits.
        ports: the way past the packets.
    """

    def __init__(
        self,
        post: Callable[[int, bytes], None],
        transmit: Callable[[int, memoryview], Moving],
        ports: Ports,
    ) -> None:
        self._post = post
        self._transmit = transmit
        self._ports = ports
        self._lcos: dict[int, LocalObject] = {}
        self._created = 0
        self._slots: dict[int, SendSlot] = {}
        self._numbered = 0
        self._serial = 0
        self._sent: dict[int, Sent] = {}
        # Send slots that refer to LCOs here, by rank and their number there.
        self._attached: dict[int, dict[int, Attached]] = {}
        self._handlers: dict[int, Callable[[int, Packet], None]] = {
            packets.ATTACH: self._on_attach,
            packets.STATE: self._on_state,
            packets.DATA: self._on_data,
            packets.REPLY: self._on_reply,
            packets.DETACH: self._on_detach,
        }

    # ---- calls -----------------------------------------------------------------------------------

    def create(self, key: bytes, deliver: Deliver) -> LocalObject:
        """Create an LCO without slots; ``key`` is random."""

        self._created += 1
        lco = LocalObject(self._created, key, deliver)
        self._lcos[lco.number] = lco

        return lco

    def add_receive_slots(self, lco: LocalObject, count: int) -> None:
        # Kept messages go to the matcher at once, so before any message that a sender sends because
        # it has heard OPEN: the order stays.
        before, lco.receive_slots = lco.receive_slots, lco.receive_slots + count
        for one in lco.attached:
            if before <= one.slot < lco.receive_slots:
                self._tell(one, packets.OPEN)

        kept, lco.kept, lco.kept_octets = lco.kept, [], 0
        for parcel in kept:
            if parcel.slot < lco.receive_slots:
                lco.deliver(parcel)
            else:
                self._keep(lco, parcel)

    def attach(
        self, lco: LocalObject, world: int, other: int, slot: int, key: bytes
    ) -> SendSlot:
        """Add a send slot that refers to receive slot ``slot`` of LCO ``other`` of a rank."""

        # Returns before the answer: messages may follow ATTACH at once, each asking for a reply.
        self._numbered += 1
        made = SendSlot(
            len(lco.send_slots),
            world,
            other,
            slot,
            self._numbered,
            self._ports.reach(world),
        )
        lco.send_slots.append(made)
        self._slots[made.number] = made
        self._post(
            world,
            Packet(
                packets.ATTACH, slot=slot, number=made.number, nbytes=other, key=key
            ).octets(),
        )

        return made

    def send(
        self, slot: SendSlot, tag: int, data: memoryview, *, synchronous: bool
    ) -> Sent:
        """Send octets, which stay untouched until done.

        Raises:
            Exception: ERR_PORT: the receive slot is known to be gone, or not to be ours.
        """

        if slot.refused:
            raise slot.failure(slot.state)

        slot.sent += 1
        # By the port only when nothing of the slot is on its way in a packet: MPI keeps messages of
        # one sender in order, and a port message would overtake it.
        if (
            slot.state == packets.OPEN
            and len(data) <= slot.reach
            and not (synchronous or slot.waiting)
        ):
            sent = Sent(slot, None)
            sent.moving = self._ports.send(slot, tag, data)
            return sent

        # Long data stays here until a receive waits for it, then goes straight to its place. Short
        # data is copied, so the send can be done at once, as MPI's standard mode allows.
        apart = len(data) > INLINE
        serial = 0

        sent = Sent(slot, data if apart else None)
        # A reply is asked for where something is open: the match, the octets, whether the slot
        # exists. With a port also whether the packet has arrived: only then may the next message
        # go by the port, as it cannot overtake this one any more.
        if synchronous or apart or slot.state != packets.OPEN or slot.reach >= 0:
            self._serial = serial = self._serial + 1

            self._sent[serial] = sent
            if not slot.waiting:
                slot.waiting = set()

            slot.waiting.add(serial)
        else:
            sent.done = True

        flags = synchronous * packets.SYNCHRONOUS | apart * packets.APART
        octets = b"" if apart else bytes(data)
        self._post(
            slot.world,
            Packet(
                packets.DATA, flags, 0, slot.number, serial, tag, len(data), data=octets
            ).octets(),
        )

        return sent

    def take(self, parcel: Parcel) -> None:
        """Tell the sender, if it waits, that a receive has the message."""
        # Counted at the match, which is what a sender is told when the LCO is freed.
        parcel.attached.taken += 1
        if parcel.flags & packets.APART:
            self._reply(parcel.world, parcel.serial, packets.CLEAR)
        elif parcel.flags & packets.SYNCHRONOUS:
            self._reply(parcel.world, parcel.serial, packets.MATCHED)

    def free(self, lco: LocalObject) -> None:
        """Free an LCO: tell its attached slots, and detach its own slots once their sends are
        done."""

        # Its number is not given again, so a packet that comes late finds no other LCO.
        lco.freed = True

        del self._lcos[lco.number]
        for one in lco.attached:
            # Messages under way find no slot from here on, and STATE tells their sender why.
            self._attached[one.world].pop(one.number, None)
            self._tell(one, packets.FREED)

        lco.attached.clear()

        lco.kept.clear()
        for slot in lco.send_slots:
            # Its last messages may still await replies; :meth:`_detach_if_done` sends DETACH behind
            # them.
            slot.leaving = True
            self._detach_if_done(slot)

    def attached(self, world: int, number: int) -> Attached | None:
        """Return the send slot of a rank, by its number there; None: it refers to no LCO here."""
        return self._attached.get(world, _NOBODY).get(number)

    # ---- packets ---------------------------------------------------------------------------------

    def handle(self, world: int, octets: bytes | bytearray) -> None:
        """Handle a packet of a rank.

        Raises:
            ValueError: it is none.
        """

        packet = parse_packet(octets)

        handler = self._handlers.get(packet.kind)
        if handler is None:
            raise ValueError(f"a packet between LCOs cannot be of kind {packet.kind}")

        handler(world, packet)

    def _on_attach(self, world: int, packet: Packet) -> None:
        lco = self._lcos.get(packet.nbytes)
        # The key is checked once. Later packets name the slot by a number that counts for the rank
        # of the sender only, and the channel says which rank that is.
        if lco is None:
            # Numbers ascend and are never used again, so a small one must have been an LCO.
            code = (
                packets.FREED if 0 < packet.nbytes <= self._created else packets.UNKNOWN
            )
        elif not compare_digest(slot_key(lco.key, packet.slot), packet.key):
            code = packets.FORGED
        else:
            code = packets.OPEN if packet.slot < lco.receive_slots else packets.ABSENT
            one = Attached(world, packet.number, lco, packet.slot)
            self._attached.setdefault(world, {})[one.number] = one
            lco.attached.append(one)

        self._post(world, Packet(packets.STATE, code, number=packet.number).octets())

    def _on_state(self, _: int, packet: Packet) -> None:
        slot = self._slots.get(packet.number)
        if slot is None:
            return

        # ABSENT answers ATTACH. If the slot was opened meanwhile, OPEN may have come before it.
        if packet.code != packets.ABSENT or slot.state == _ASKED:
            slot.state = packet.code

        slot.taken = packet.tag
        # A refusal is for good, so whoever still waits for a reply gets it as the answer.
        if slot.refused:
            slot.short = None
            for serial in tuple(slot.waiting):
                self._fail(serial, packet.code)

    def _on_data(self, world: int, packet: Packet) -> None:
        one = self.attached(world, packet.number)
        if one is None:
            # A message crossed with the news that the LCO is freed. Without a serial its send was
            # complete at once, and the count in STATE tells that it was not received.
            if packet.serial:
                self._reply(world, packet.serial, packets.FREED)

            return

        lco = one.lco

        parcel = Parcel(
            one, packet.serial, packet.code, packet.tag, packet.nbytes, packet.data
        )
        # The slot may be added later, and the message is for it then. What is kept is bounded,
        # since it may never be added.
        if one.slot >= lco.receive_slots:
            if not lco.has_room(len(packet.data)):
                self._reply(world, packet.serial, packets.FULL)
                return

            self._keep(lco, parcel)
        else:
            lco.deliver(parcel)

        # A plain message is complete when it is here. One with flags has its reply at the match.
        if packet.serial and not packet.code:
            self._reply(world, packet.serial, packets.HELD)

    def _on_reply(self, _: int, packet: Packet) -> None:
        if packet.code in (packets.FREED, packets.FULL):
            self._fail(packet.serial, packet.code)
            return

        sent = self._ended(packet.serial)
        if sent is None:  # STATE has failed it already
            return

        # A receive waits, so the octets go to its place, and the send is done when they have gone.
        if packet.code == packets.CLEAR and sent.data is not None:
            sent.moving, sent.data = self._transmit(sent.slot.world, sent.data), None
        else:
            sent.done = True

    def _on_detach(self, world: int, packet: Packet) -> None:
        one = self._attached.get(world, _NOBODY).pop(packet.number, None)
        if one is not None:
            one.lco.attached.remove(one)
            # Behind DETACH the sender uses the number no more, neither in packets nor by the port.
            self._ports.close(world, packet.number)

    # ---- inside ----------------------------------------------------------------------------------

    def _keep(self, lco: LocalObject, parcel: Parcel) -> None:
        lco.kept.append(parcel)
        lco.kept_octets += len(parcel.data)

    def _tell(self, one: Attached, code: int) -> None:
        self._post(
            one.world,
            Packet(packets.STATE, code, number=one.number, tag=one.taken).octets(),
        )

    def _reply(self, world: int, serial: int, code: int) -> None:
        self._post(world, Packet(packets.REPLY, code, serial=serial).octets())

    def _fail(self, serial: int, code: int) -> None:
        sent = self._ended(serial)
        if sent is not None:
            sent.failure, sent.data = sent.slot.failure(code), None

    def _ended(self, serial: int) -> Sent | None:
        """Return the message of a reply, which awaits no further one."""
        sent = self._sent.pop(serial, None)
        if sent is not None:
            sent.slot.waiting.discard(serial)
            self._detach_if_done(sent.slot)

        return sent

    def _detach_if_done(self, slot: SendSlot) -> None:
        """Detach a slot of a freed LCO once its last message has its reply."""
        # DETACH waits for the last reply: behind DETACH the other end would not know the number.
        if (
            slot.leaving
            and not slot.waiting
            and self._slots.pop(slot.number, None) is not None
            and not slot.refused
        ):
            self._post(slot.world, Packet(packets.DETACH, number=slot.number).octets())
