"""Who waits for one process's next message gets what the long way would bring, whatever comes, in whatever pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from transfer_wiring import drain, make_job

from impi.transfer import Arrived, Incoming, Transfer
from impi.transfer.inbound import FOR_THE_REST, NOT_NOTED, NOTHING_YET
from impi.wire.packets import HEADER_SIZE

LIMIT = 16
TAG = 5

Sent = tuple[int, bytes, bool]
"""Rank in its client, data, whether synchronous: of a message with :data:`TAG`, or another if the data begin with x."""


class Receiver:
    """Rank 2, to which ranks 0 and 1, on one host, send; it waits for rank 0, with the fast way or without."""

    def __init__(self, fast: bool, room: int, ackmark: int) -> None:
        self.job = make_job([[2], [1]], maxdatalen=LIMIT, ackmark=ackmark, hiwater=64)
        self.senders = [Transfer(self.job, 0), Transfer(self.job, 1)]
        self.machine = Transfer(self.job, 2)
        self.place = memoryview(bytearray(room))
        self.acknowledged = bytearray()
        self.fast = fast
        self.single = self.machine.single(0, 4, self.acknowledge)
        self.take = self.machine.taker(0, lambda *_: False, self.acknowledge)
        self.got: list[tuple[int, int, bytes]] = []
        self.waiting: list[tuple[Incoming, memoryview]] = []
        self.straight = 0

    def acknowledge(self, dest: int, packet: bytes) -> None:
        self.acknowledged += packet

    def read(self, octets: bytes) -> None:
        while octets:
            room = self.machine.get_buffer(0)
            n = min(len(room), len(octets))
            room[:n], octets = octets[:n], octets[n:]
            length = self.single(n, TAG, self.place) if self.fast else NOT_NOTED
            if length >= 0:
                self.straight += 1
                self.got.append((0, TAG, bytes(self.place[:length])))
            elif length == FOR_THE_REST or (length == NOT_NOTED and not self.take(n)):
                self.handle()
            else:
                assert length in (NOTHING_YET, NOT_NOTED)
            self.settle()

    def handle(self) -> None:
        for event in self.machine.rest(0):
            assert isinstance(event, Arrived)
            view = memoryview(bytearray(event.incoming.nbytes))
            self.machine.accept(event.incoming, view)
            self.waiting.append((event.incoming, view))

    def settle(self) -> None:
        for incoming, view in list(self.waiting):
            if incoming.done:
                self.got.append((incoming.source, incoming.tag, bytes(view)))
                self.waiting.remove((incoming, view))
        self.acknowledged += drain(self.machine, 0, 1 << 20)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=LIMIT), st.booleans()), max_size=20),
    st.lists(st.integers(1, 3 * (HEADER_SIZE + LIMIT)), min_size=1),
    st.integers(0, LIMIT),
    st.integers(1, 4),
)
def test_single_is_the_long_way_s_twin(messages: list[Sent], pieces: list[int], room: int, ackmark: int) -> None:
    receivers = [Receiver(fast, room, ackmark) for fast in (True, False)]
    for receiver in receivers:
        stream = bytearray()
        for rank, data, synchronous in messages:
            tag = TAG + data.startswith(b"x")
            views = [memoryview(data)]
            receiver.senders[rank].send(2, cid=4, tag=tag, lsrank=rank, views=views, synchronous=synchronous)
            stream += drain(receiver.senders[rank], 1, 1 << 20)
        turn = 0
        while stream:
            n = pieces[turn % len(pieces)]
            receiver.read(bytes(stream[:n]))
            del stream[:n]
            turn += 1
    fast, slow = receivers
    assert fast.got == slow.got
    assert fast.acknowledged == slow.acknowledged
    assert slow.straight == 0


def test_whole_messages_go_straight() -> None:
    receiver = Receiver(True, LIMIT, 2)
    for _ in range(6):
        receiver.senders[0].send(2, cid=4, tag=TAG, lsrank=0, views=[memoryview(b"data")])
        receiver.read(drain(receiver.senders[0], 1, 1 << 20))
    assert receiver.straight == 6 and receiver.got == [(0, TAG, b"data")] * 6
    assert len(receiver.acknowledged) == 3 * HEADER_SIZE


def test_a_protoack_comes_first() -> None:
    receiver = Receiver(True, LIMIT, 1)
    sender = receiver.senders[0]
    for alone in (False, True):
        receiver.machine.send(0, cid=4, tag=1, lsrank=2, views=[memoryview(b"there")])
        octets = drain(receiver.machine, 0, 1 << 20)
        sender.get_buffer(1)[: len(octets)] = octets
        sender.received(1, len(octets))
        answer = drain(sender, 1, 1 << 20)
        assert len(answer) == HEADER_SIZE
        sender.send(2, cid=4, tag=TAG, lsrank=0, views=[memoryview(b"back")])
        back = drain(sender, 1, 1 << 20)
        for piece in (answer, back) if alone else (answer + back,):
            receiver.read(piece)
    assert receiver.straight == 2 and receiver.got == [(0, TAG, b"back")] * 2
