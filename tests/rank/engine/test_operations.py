"""A message read together with its cancellation (IMPI 3.7.4) is taken back unmatched.

An operation says that it is done once all that it does is done: a thread of the program reads this
outside of the engine, while another thread is in there.
"""

from __future__ import annotations

import socket

import pytest
from engine_world import MemoryVendor, make_job

from impi.protocol.wire.packets import (
    HEADER_SIZE,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)
from impi.rank.engine.channels.payload import DirectTarget, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import (
    CopyOperation,
    Operation,
    ReceiveOperation,
    TakenMessage,
)


@pytest.mark.clause("3.7.4")
@pytest.mark.parametrize(
    ("cid", "posted_first"), [(0, True), (0, False), (4, False)], ids=str
)
def test_it_never_was(cid: int, posted_first: bool) -> None:
    job = make_job([1, 1], ackmark=4)
    me, other = job.procs
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    peer.settimeout(30)
    engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours})
    context = engine.make_context(0, [0, 1])
    target = OctetTarget()

    def packet(kind: PacketType, data: bytes = b"", **fields: int) -> bytes:
        header = Header(
            kind,
            len(data),
            other.ipv6,
            other.pid,
            me.ipv6,
            me.pid,
            msglen=len(data),
            lsrank=1,
            cid=cid,
            **fields,
        )
        return pack_header(header) + data

    with ours, peer:
        receiving = engine.receive(context, 1, 3, target) if posted_first else None
        peer.sendall(
            packet(PacketType.DATASYNC, b"taken back", srqid=7, tag=3)
            + packet(PacketType.CANCEL, srqid=7)
            + packet(PacketType.DATA, b"kept", srqid=8, tag=3)
        )
        engine.turns.progress(1.0)
        answer = unpack_header(peer.recv(HEADER_SIZE, socket.MSG_WAITALL), 0)
        assert (answer.pk_type, answer.srqid) == (PacketType.CANCELYES, 7)
        if cid != 0:
            context = engine.make_context(cid, [0, 1])
        receiving = receiving or engine.receive(context, 1, 3, target)
        engine.turns.wait(lambda: receiving.done)
        assert bytes(target.data) == b"kept"
        assert engine.probe(context, 1, 3) is None


class Watched(OctetTarget):
    """A target that sees whether its receive says too early that it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.operation: Operation | None = None
        self.seen: list[bool] = []

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        assert self.operation is not None
        self.seen.append(self.operation.done)
        super().finish(nbytes, count, external=external)


class Room:
    """Memory of 8 octets that sees likewise."""

    def __init__(self) -> None:
        self.operation: Operation | None = None
        self.seen: list[bool] = []

    def __len__(self) -> int:
        return 8

    def __setitem__(self, where: object, octets: object) -> None:
        assert self.operation is not None
        self.seen.append(self.operation.done)


class Whole:
    """A message whose octets are all here; a phase that has ended."""

    def test(self) -> bool:
        return True


@pytest.fixture
def context() -> Context:
    return Engine(make_job([1]), 0, MemoryVendor({}, [0], 0), {}).make_context(0, [0])


def test_a_message_that_came_whole_is_in_place_before_its_receive_is_done(context):
    target = Watched()
    target.operation = operation = ReceiveOperation(
        context, 0, 3, target, collective=False
    )
    operation.deliver(0, 3, 0, memoryview(b"here"), external=False)
    assert target.seen == [False]
    assert (operation.done, bytes(target.data)) == (True, b"here")


def test_octets_are_in_the_program_s_memory_before_their_receive_is_done(context):
    room = Room()
    target = DirectTarget(room)  # type: ignore[arg-type]
    room.operation = operation = ReceiveOperation(
        context, 0, 3, target, collective=False
    )
    operation.deliver(0, 3, 0, memoryview(b"here"), external=False)
    assert (room.seen, operation.done) == ([False], True)
    longer = ReceiveOperation(context, 0, 3, target, collective=False)
    longer.deliver(0, 3, 0, memoryview(bytes(9)), external=False)
    assert (longer.truncated, longer.done) == (True, True)


def test_a_message_is_converted_before_its_receive_is_done(context):
    target = Watched()
    target.operation = operation = ReceiveOperation(
        context, 0, 3, target, collective=False
    )
    operation.place(TakenMessage(0, 3, 4, 0, None, None, False), 1)
    operation.started(Whole())
    assert operation.advance()
    assert (target.seen, operation.done) == ([False], True)


def test_a_communicator_is_complete_before_its_copy_is_done():
    seen: list[bool] = []
    operation = CopyOperation.__new__(CopyOperation)
    operation.__init__(Whole(), lambda: seen.append(operation.done))  # type: ignore[misc]
    assert (seen, operation.done) == ([False], True)
