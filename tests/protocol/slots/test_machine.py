"""Machines of several procs against a model: what arrives where, in which order, and what fails."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.errors import MPIException
from impi.protocol.slots.machine import (
    INLINE,
    KEPT_MESSAGES,
    KEPT_OCTETS,
    LocalObject,
    Machine,
    Parcel,
    SendSlot,
    Sent,
)
from impi.protocol.slots.names import slot_key
from impi.protocol.slots.packets import Packet, parse_packet


class _Moved:
    done = True


class _NoPorts:
    def reach(self, world: int) -> int:
        return -1

    def send(self, slot: SendSlot, tag: int, data: memoryview) -> _Moved:
        raise AssertionError

    def close(self, world: int, number: int) -> None:
        pass


class World:
    """Procs whose packets wait in queues, one for each pair, until :meth:`carry` takes them."""

    def __init__(self, n: int) -> None:
        self.queues: dict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self.apart: list[bytes] = []
        self.machines = [
            Machine(self._poster(rank), self._transmit, _NoPorts()) for rank in range(n)
        ]
        self.came: dict[tuple[int, int], list[Parcel]] = defaultdict(list)
        """By proc and number of an LCO: its messages, in order."""

    def _poster(self, me: int) -> Callable[[int, bytes], None]:
        return lambda world, octets: self.queues[me, world].append(octets)

    def _transmit(self, world: int, data: memoryview) -> _Moved:
        self.apart.append(bytes(data))
        return _Moved()

    def create(self, rank: int, key: bytes = bytes(16)) -> LocalObject:
        made = self.machines[rank].create(
            key, lambda parcel: self.came[rank, made.number].append(parcel)
        )
        return made

    def attach(
        self, rank: int, lco: LocalObject, world: int, other: LocalObject, slot: int = 0
    ) -> None:
        self.machines[rank].attach(
            lco, world, other.number, slot, slot_key(other.key, slot)
        )

    def carry(self, choose: Callable[[int], int] = lambda n: 0) -> None:
        """Deliver all packets, pairs in any order."""
        while waiting := [pair for pair, queue in self.queues.items() if queue]:
            me, world = waiting[choose(len(waiting))]
            self.machines[world].handle(me, self.queues[me, world].popleft())


def send(
    world: World,
    rank: int,
    lco: LocalObject,
    data: bytes,
    slot: int = 0,
    *,
    synchronous: bool = False,
) -> Sent:
    return world.machines[rank].send(
        lco.send_slots[slot], 2 * 7, memoryview(data), synchronous=synchronous
    )


def texts(parcels: list[Parcel]) -> list[bytes]:
    return [parcel.data for parcel in parcels]


def channel() -> tuple[World, LocalObject, LocalObject]:
    """A channel from proc 0 to proc 1 whose receive slot is not there yet."""
    world = World(2)
    sender, receiver = world.create(0), world.create(1)
    world.attach(0, sender, 1, receiver)
    return world, sender, receiver


def test_a_channel_keeps_order_before_and_after_its_slot_exists() -> None:
    world, sender, receiver = channel()
    first = [send(world, 0, sender, bytes([i])) for i in range(3)]
    assert not any(one.test() for one in first)
    world.carry()
    assert all(one.test() for one in first)
    assert world.came[1, 1] == []
    world.machines[1].add_receive_slots(receiver, 1)
    world.carry()
    later = send(world, 0, sender, b"\3")
    assert later.test()  # the slot is known to exist: no reply is awaited
    world.carry()
    assert texts(world.came[1, 1]) == [b"\0", b"\1", b"\2", b"\3"]
    assert {parcel.tag for parcel in world.came[1, 1]} == {14}


def test_a_send_slot_that_attaches_itself_twice_does_not_spoil_the_end() -> None:
    world, sender, receiver = channel()
    world.queues[0, 1] *= 2
    world.carry()
    world.machines[1].free(receiver)
    world.carry()
    with pytest.raises(MPIException, match="that LCO was freed"):
        send(world, 0, sender, b"x")


def test_a_synchronous_send_ends_with_its_match() -> None:
    world, sender, receiver = channel()
    world.machines[1].add_receive_slots(receiver, 1)
    sent = send(world, 0, sender, b"x", synchronous=True)
    world.carry()
    assert not sent.test()
    world.machines[1].take(world.came[1, 1][0])
    world.carry()
    assert sent.test()


def test_long_messages_stay_with_the_sender_until_they_are_wanted() -> None:
    world, sender, receiver = channel()
    world.machines[1].add_receive_slots(receiver, 1)
    data = bytes(INLINE + 1)
    sent = send(world, 0, sender, data)
    world.carry()
    (parcel,) = world.came[1, 1]
    assert (parcel.nbytes, parcel.data, world.apart) == (len(data), b"", [])
    assert not sent.test()
    world.machines[1].take(parcel)
    world.carry()
    assert world.apart == [data]
    assert sent.test()


@pytest.mark.parametrize(
    ("size", "fit"), [(1, KEPT_MESSAGES), (INLINE, KEPT_OCTETS // INLINE)]
)
def test_what_is_kept_has_a_bound(size: int, fit: int) -> None:
    world, sender, receiver = channel()
    sent = [send(world, 0, sender, bytes(size)) for _ in range(fit + 2)]
    world.carry()
    assert all(one.test() for one in sent[:fit])
    for one in sent[fit:]:
        with pytest.raises(MPIException, match="does not exist yet, and no more than"):
            one.test()
    world.machines[1].add_receive_slots(receiver, 1)
    world.carry()
    assert len(world.came[1, 1]) == fit
    assert send(world, 0, sender, b"again").test()


def test_a_freed_lco_tells_how_much_was_received() -> None:
    world, sender, receiver = channel()
    world.machines[1].add_receive_slots(receiver, 1)
    world.carry()
    for _ in range(5):
        send(world, 0, sender, b"x")
    waiting = send(world, 0, sender, bytes(INLINE + 1))
    world.carry()
    for parcel in world.came[1, 1][:2]:
        world.machines[1].take(parcel)
    world.machines[1].free(receiver)
    world.carry()
    with pytest.raises(
        MPIException,
        match="that LCO was freed; of 6 messages sent there, 2 were received",
    ):
        waiting.test()
    with pytest.raises(MPIException, match="that LCO was freed"):
        send(world, 0, sender, b"x")


def test_a_late_name_of_a_freed_lco_is_told_from_one_that_never_was() -> None:
    world, sender, receiver = channel()
    world.machines[1].free(receiver)
    world.attach(0, sender, 1, receiver)
    world.machines[0].attach(sender, 1, 99, 0, bytes(16))
    sent = [send(world, 0, sender, b"x", slot) for slot in (1, 2)]
    world.carry()
    for one, why in zip(sent, ["was freed", "there is no such LCO"], strict=True):
        with pytest.raises(MPIException, match=why):
            one.test()


def test_a_number_is_not_given_twice() -> None:
    world, _, receiver = channel()
    world.machines[1].free(receiver)
    assert world.create(1).number == receiver.number + 1


def test_a_key_opens_its_own_slot_only() -> None:
    world, sender, receiver = channel()
    world.machines[1].add_receive_slots(receiver, 2)
    machine = world.machines[0]
    # The key of another slot
    machine.attach(sender, 1, receiver.number, 1, slot_key(receiver.key, 0))
    machine.attach(sender, 1, receiver.number, 1, bytes(16))
    sent = [send(world, 0, sender, b"x", slot) for slot in (1, 2)]
    world.carry()
    for one in sent:
        with pytest.raises(MPIException, match="its key is wrong"):
            one.test()
    assert world.came[1, 1] == []
    assert len(receiver.attached) == 1


def test_numbers_of_another_proc_are_worth_nothing() -> None:
    world = World(3)
    sender, receiver = world.create(0), world.create(1)
    world.machines[1].add_receive_slots(receiver, 1)
    world.attach(0, sender, 1, receiver)
    world.carry()
    world.machines[1].handle(
        2, Packet(3, number=sender.send_slots[0].number, nbytes=1, data=b"!").octets()
    )
    assert world.came[1, 1] == []


def test_attached_send_slots_are_counted() -> None:
    world, sender, receiver = channel()
    world.attach(0, sender, 1, receiver)
    world.carry()
    assert len(receiver.attached) == 2
    late = send(world, 0, sender, b"x", synchronous=True)
    world.machines[1].add_receive_slots(receiver, 1)
    world.machines[0].free(sender)
    world.carry()
    assert len(receiver.attached) == 1  # one slot has a message under way
    world.machines[1].take(world.came[1, 1][0])
    world.carry()
    assert late.test()
    assert len(receiver.attached) == 0


@given(st.binary(max_size=200))
def test_any_octets_are_a_packet_or_refused(octets: bytes) -> None:
    world, _, receiver = channel()
    world.carry()
    try:
        parse_packet(octets)
        world.machines[1].handle(0, octets)
    except ValueError:
        pass
    assert receiver.receive_slots == 0


@settings(max_examples=60)
@given(st.data())
def test_any_graph_of_slots_delivers_each_message_once_and_in_order(
    data: st.DataObject,
) -> None:
    draw = data.draw
    procs = draw(st.integers(1, 4))
    world = World(procs)
    lcos = [
        (rank := draw(st.integers(0, procs - 1)), world.create(rank))
        for _ in range(draw(st.integers(1, 5)))
    ]
    due: dict[tuple[int, int, int, int, int], list[bytes]] = defaultdict(list)
    """By receiving LCO (proc, number), receive slot, sending LCO (index), send slot."""
    sends: list[Sent] = []

    def choose(n: int) -> int:
        return draw(st.integers(0, n - 1))

    for step in range(draw(st.integers(1, 40))):
        what = draw(st.sampled_from(["attach", "slots", "send", "carry"]))
        index = choose(len(lcos))
        rank, lco = lcos[index]
        if what == "attach":
            other_rank, other = lcos[choose(len(lcos))]
            world.attach(rank, lco, other_rank, other, draw(st.integers(0, 3)))
        elif what == "slots":
            world.machines[rank].add_receive_slots(lco, draw(st.integers(0, 2)))
        elif what == "send" and lco.send_slots:
            at = choose(len(lco.send_slots))
            slot, octets = lco.send_slots[at], b"%d %d %d" % (index, at, step)
            due[slot.world, slot.lco, slot.slot, index, at].append(octets)
            sends.append(send(world, rank, lco, octets, at))
        else:
            world.carry(choose)
    for rank, lco in lcos:
        world.machines[rank].add_receive_slots(lco, 4)
    world.carry(choose)
    assert all(one.test() for one in sends)
    came: dict[tuple[int, int, int, int, int], list[bytes]] = defaultdict(list)
    for (rank, number), parcels in world.came.items():
        for parcel in parcels:
            index, at, _ = map(int, parcel.data.split())
            came[rank, number, parcel.slot, index, at].append(parcel.data)
    assert came == {key: value for key, value in due.items() if value}
