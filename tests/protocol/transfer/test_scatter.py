"""Octets received into several places: the protocol and octets of a single place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_world import Proc, World, make_job

from impi.base.errors import LocalProtocolError
from impi.protocol.transfer import Event, Incoming
from impi.protocol.transfer.scatter import Scatter


class Scattering(Proc):
    """Accepts every message into pieces of random length, with gaps, in random order."""

    def __init__(self, *args: object, seed: int, at_once: bool, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.random = random.Random(seed)
        self.at_once = at_once
        self.places: list[list[memoryview]] = []

    def accept(self, at: int = 0) -> Incoming:
        incoming = self.unexpected[at]
        del self.unexpected[at]
        places, left = [], incoming.nbytes
        while left:
            n = min(left, self.random.randrange(0, 12))
            memory = memoryview(bytearray(n + 4))
            places.append(memory[2 : 2 + n])
            left -= n
        self.random.shuffle(places)
        self.places.append(places)
        self.received.append((incoming, bytearray()))
        self.machine.accept(incoming, places)
        return incoming

    def scatter(self, host: int, octets: bytes) -> None:
        """Read like ``recvmsg_into`` or ``recv_into``, a limited number of octets a time."""
        while octets:
            room = (
                self.machine.buffers_of(host)()
                if self.at_once
                else self.machine.get_buffer(host)
            )
            rooms = [room] if isinstance(room, memoryview) else room
            total = 0
            most = self.random.choice([1, 5, 100, 1 << 20])
            for view in rooms:
                n = min(len(view), len(octets), most - total)
                view[:n] = octets[:n]
                octets = octets[n:]
                total += n
            self.handle(self.machine.received(host, total))

    def handle(self, events: list[Event]) -> None:
        super().handle(events)
        if not self.eager and self.unexpected and self.random.random() < 0.5:
            self.accept(self.random.randrange(len(self.unexpected)))


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=6),
    st.integers(1, 40),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_any_places_any_packets_any_reads(
    lengths: list[int], maxdatalen: int, at_once: bool, eager: bool, seed: int
) -> None:
    job = make_job([[1], [1]], maxdatalen=maxdatalen)
    rng = random.Random(seed)
    messages = [rng.randbytes(n) for n in lengths]
    sender, receiver = (
        Proc(job, 0),
        Scattering(job, 1, seed=seed, at_once=at_once, eager=eager),
    )
    sent = [
        sender.send(1, data, tag=i, pieces=rng.randrange(1, 5))
        for i, data in enumerate(messages)
    ]
    moved = True
    while moved or receiver.unexpected:
        moved = False
        while octets := b"".join(sender.machine.data_to_send(1)):
            sender.machine.sent(1, len(octets))
            receiver.scatter(0, octets)
            moved = True
        if not moved and receiver.unexpected:
            receiver.accept()
        while octets := b"".join(receiver.machine.data_to_send(0)):
            receiver.machine.sent(0, len(octets))
            sender.read(1, octets)
            moved = True
    assert all(message.done for message in sent)
    for (incoming, _), places in zip(receiver.received, receiver.places, strict=True):
        assert incoming.done
        assert b"".join(places) == messages[incoming.header.tag]
        for place in places:
            assert (
                bytes(place.obj[:2]) == bytes(2) == bytes(place.obj[2 + len(place) :])  # type: ignore[index]
            )


def test_the_octets_that_cross_are_those_of_one_piece() -> None:
    job = make_job([[1], [1]], maxdatalen=10)
    streams = []
    for pieces in (1, 7, 25):
        world = World(Proc(job, 0), Proc(job, 1))
        world.procs[0].send(1, bytes(range(25)), pieces=pieces)
        world.run()
        world.finish()
        streams.append(bytes(world.links[0, 1].sent))
    assert streams[0] == streams[1] == streams[2]


def test_places_that_cannot_take_it() -> None:
    job = make_job([[1], [1]])
    world = World(Proc(job, 0), Proc(job, 1, eager=False))
    world.procs[0].send(1, bytes(10))
    world.run()
    incoming = world.procs[1].unexpected[0]
    machine = world.procs[1].machine
    for places in (
        [memoryview(bytearray(9))],
        [memoryview(bytearray(5)), memoryview(bytearray(6))],
        [memoryview(bytearray(5)), memoryview(bytes(5))],
        [memoryview(bytearray(5)), memoryview(bytearray(5)).cast("b")],
    ):
        with pytest.raises(LocalProtocolError, match="cannot go into"):
            machine.accept(incoming, places)
    machine.accept(incoming, [memoryview(bytearray(5)), memoryview(bytearray(5))])
    assert incoming.done


def test_so_many_places_that_a_system_call_does_not_take_all() -> None:
    memory = memoryview(bytearray(5000))
    scatter = Scatter([memory[i : i + 1] for i in range(5000)])
    room = scatter.room(5000)
    assert len(room) <= 1024  # IOV_MAX
    scatter.write(memoryview(bytes(i % 251 for i in range(5000))))
    assert bytes(memory) == bytes(i % 251 for i in range(5000))
