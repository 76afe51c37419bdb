"""Derived datatypes sent and received in place, beside the packed twin."""

from __future__ import annotations

import os
import random
import socket
import threading

import pytest
from engine_world import MemoryVendor, make_job, run_job
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.base.records import replaced
from impi.protocol.job import Job
from impi.protocol.semantics.values.blocks import SHORTEST
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.protocol.semantics.values.derive import hindexed, resized, struct, vector
from impi.protocol.settings import ZERO_COPY
from impi.protocol.transfer.reader import Reader
from impi.rank.engine.channels.payload import BufferSource, BufferTarget, OctetSource
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation

BYTE, INT, DOUBLE = (NAMED[name] for name in ("BYTE", "INT", "DOUBLE"))
ALWAYS, NEVER = 0, 1 << 62
SHAPES = {
    "octets": vector(40, 5, 9, BYTE),
    "numbers": vector(20, 3, 4, INT),
    "records": vector(6, 2, 3, struct([1, 1], [0, 8], [INT, DOUBLE])),
    "out of order": hindexed([7, 3, 5], [50, 0, 20], BYTE),
    "overlapping extents": resized(0, 4, vector(3, 4, 100, BYTE)),
}


def crossed(job: Job, shortest: int, typemap: TypeMap, count: int, limit: int) -> bytes:
    """All octets of a proc's message to a scripted receiver that takes ``limit`` at a time."""
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limit)
    low, high = typemap.span(0, count)
    memory = memoryview(bytearray((5 * i + 1) % 253 for i in range(high - low)))
    with ours, peer:
        engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours}, shortest=shortest)
        context = engine.make_context(0, [0, 1])
        engine.send(context, 1, 3, BufferSource(typemap, memory, -low, count, 4))
        peer.setblocking(False)
        octets, idle = b"", 0
        while idle < 3:
            engine.turns.progress()
            try:
                octets += peer.recv(limit)
                idle = 0
            except BlockingIOError:
                idle += 1
        return octets


@given(
    st.sampled_from(sorted(SHAPES)), st.integers(0, 3), st.sampled_from([1, 16, 100, 5000]), st.booleans(),
    st.sampled_from([100, 5000]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_not_one_octet_on_the_wire_is_another(
    shape: str, count: int, datalen: int, native: bool, limit: int
) -> None:
    job = replaced(make_job([1, 1], maxdatalen=datalen), native=native)
    packed = crossed(job, NEVER, SHAPES[shape], count, limit)
    assert crossed(job, ALWAYS, SHAPES[shape], count, limit) == packed
    assert packed


class World:
    """One message of a derived type to one place, in every way that it can come."""

    def __init__(
        self, typemap: TypeMap, count: int, *, native: bool = True, datalen: int = 64
    ) -> None:
        self.typemap, self.count = typemap, count
        self.job = replaced(make_job([1, 1], maxdatalen=datalen), native=native)
        low, high = typemap.span(0, count)
        self.offset, self.octets = -low, high - low

    def run(
        self,
        shortest: int,
        *,
        late: bool,
        synchronous: bool = False,
        room: int | None = None,
    ) -> tuple[bytes, int, bool]:
        """Return rank 1's memory, the octets of the message, and whether they were too many."""

        def program(engine: Engine) -> tuple[bytes, int, bool] | None:
            context = engine.make_context(0, range(2))
            if engine.rank == 0:
                memory = memoryview(bytearray(random.Random(1).randbytes(self.octets)))
                source = BufferSource(self.typemap, memory, self.offset, self.count, 4)
                sending = engine.send(context, 1, 0, source, synchronous=synchronous)
                engine.turns.wait(lambda: sending.done)
                memory[:] = bytes(len(memory))  # MPI: ours again
                last = engine.send(context, 1, 1, OctetSource(b"last"))
                engine.turns.wait(lambda: last.done)
                return None
            memory = memoryview(bytearray(b"\xee" * self.octets))
            target = BufferTarget(
                self.typemap,
                memory,
                self.offset,
                self.count if room is None else room,
                4,
            )
            if late:
                engine.turns.wait(
                    lambda: engine.probe(context, 0, 0) is not None, polling=True
                )
            receiving: ReceiveOperation = engine.receive(context, 0, 0, target)
            engine.turns.wait(lambda: receiving.done)
            end = BufferTarget(BYTE, memoryview(bytearray(4)), 0, 4, 4)
            following = engine.receive(context, 0, 1, end)
            engine.turns.wait(lambda: following.done)
            assert receiving.failure is None and receiving.message is not None
            return bytes(memory), receiving.message.nbytes, receiving.truncated

        result = run_job(self.job, program, shortest=shortest)[1]
        assert result is not None
        return result


@pytest.mark.parametrize("late", [False, True], ids=["posted", "unexpected"])
@pytest.mark.parametrize("synchronous", [False, True], ids=["standard", "synchronous"])
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_same_in_memory(shape: str, synchronous: bool, late: bool) -> None:
    world = World(SHAPES[shape], 2 if shape != "overlapping extents" else 3)
    packed = world.run(NEVER, late=late, synchronous=synchronous)
    assert world.run(ALWAYS, late=late, synchronous=synchronous) == packed
    assert not packed[2] and packed[1] == world.count * world.typemap.size


def test_nothing_is_packed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(SHAPES["numbers"], 2)
    packed = world.run(NEVER, late=False)
    used = []
    monkeypatch.setattr(
        TypeMap, "pack", lambda self, *_, **__: used.append(self) or memoryview(b"last")
    )
    monkeypatch.setattr(TypeMap, "unpack", lambda self, *_, **__: used.append(self))
    assert world.run(ALWAYS, late=False) == packed
    assert world.typemap not in used


@pytest.mark.parametrize("spin_s", [0.0, 10.0], ids=["blocks", "spins"])
def test_one_read_fills_many_blocks(
    spin_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for this message alone reads all blocks at once, too, not one by one."""
    blocks = vector(150, 1000, 1500, BYTE)
    job = replaced(make_job([1, 1], maxdatalen=1 << 20), native=True)
    written = threading.Event()
    reads = []
    received = Reader.received
    monkeypatch.setattr(
        Reader,
        "received",
        lambda self, nbytes: reads.append(nbytes) or received(self, nbytes),
    )

    def program(engine: Engine) -> int:
        context = engine.make_context(0, range(2))
        memory = memoryview(bytearray(225_000))
        if engine.rank == 0:
            engine.send(context, 1, 0, BufferSource(blocks, memory, 0, 1, 4))
            engine.turns.wait(lambda: engine.quiet)
            written.set()
            return 0
        assert written.wait(30)
        engine.turns.patience.spin_s = spin_s
        receiving: ReceiveOperation = engine.receive(
            context, 0, 0, BufferTarget(blocks, memory, 0, 1, 4)
        )
        before = len(reads)
        engine.turns.wait_for(receiving)
        return len(reads) - before

    assert run_job(job, program, shortest=ALWAYS)[1] < 10


@pytest.mark.parametrize("native", [False, True], ids=["external32", "native"])
def test_only_what_needs_no_conversion(native: bool) -> None:
    for shape in ("octets", "numbers"):
        world = World(SHAPES[shape], 2, native=native)
        assert world.run(ALWAYS, late=False) == world.run(NEVER, late=False)


@pytest.mark.parametrize("room", [0, 1], ids=["nothing fits", "half of it fits"])
def test_too_long_for_its_receive(room: int) -> None:
    world = World(SHAPES["numbers"], 2)
    memory, nbytes, truncated = world.run(ALWAYS, late=False, room=room)
    assert (
        truncated
        and memory == b"\xee" * len(memory)
        and nbytes == 2 * world.typemap.size
    )


def test_a_message_that_is_no_whole_element() -> None:
    """Only whole values of a remainder are stored, as by unpacking."""
    typemap = SHAPES["numbers"]
    results = []
    for shortest in (ALWAYS, NEVER):

        def program(engine: Engine) -> bytes | None:
            context = engine.make_context(0, range(2))
            if engine.rank == 0:
                sending = engine.send(context, 1, 0, OctetSource(bytes(range(1, 252))))
                engine.turns.wait(lambda: sending.done)
                return None
            memory = memoryview(bytearray(2 * typemap.extent))
            receiving = engine.receive(
                context, 0, 0, BufferTarget(typemap, memory, 0, 2, 4)
            )
            engine.turns.wait(lambda: receiving.done)
            return bytes(memory)

        results.append(
            run_job(
                replaced(make_job([1, 1]), native=True), program, shortest=shortest
            )[1]
        )
    assert results[0] == results[1] != bytes(len(results[0]))


@pytest.mark.parametrize("taken", [True, False], ids=["taken back", "too late"])
def test_cancelled(taken: bool) -> None:
    typemap = SHAPES["octets"]

    def program(engine: Engine) -> object:
        context = engine.make_context(0, range(2))
        memory = memoryview(
            bytearray(b"x" * typemap.extent if engine.rank == 0 else typemap.extent)
        )
        if engine.rank == 0:
            sending = engine.send(
                context, 1, 0, BufferSource(typemap, memory, 0, 1, 4), synchronous=True
            )
            if not taken:
                heard = engine.receive(
                    context, 1, 2, BufferTarget(BYTE, memoryview(bytearray(1)), 0, 1, 4)
                )
                engine.turns.wait(lambda: heard.done)
            engine.cancel(sending)
            engine.turns.wait(lambda: sending.done)
            after = engine.send(context, 1, 1, OctetSource(b"."))
            engine.turns.wait(lambda: after.done)
            return sending.cancelled
        receiving = None
        if not taken:
            receiving = engine.receive(
                context, 0, 0, BufferTarget(typemap, memory, 0, 1, 4)
            )
            engine.turns.wait(lambda: receiving.done)
            note = engine.send(context, 0, 2, OctetSource(b"."))
            engine.turns.wait(lambda: note.done)
        last = engine.receive(
            context, 0, 1, BufferTarget(BYTE, memoryview(bytearray(1)), 0, 1, 4)
        )
        engine.turns.wait(lambda: last.done)
        return bytes(memory).count(b"x")

    cancelled, arrived = run_job(
        make_job([1, 1], maxdatalen=64), program, shortest=ALWAYS
    )
    assert (cancelled, arrived) == ((True, 0) if taken else (False, typemap.size))


def test_messages_inside_of_a_client_are_packed_as_ever() -> None:
    typemap = SHAPES["records"]

    def program(engine: Engine) -> bytes:
        context = engine.make_context(0, range(2))
        memory = memoryview(
            bytearray(3 * i % 251 for i in range(272))
            if engine.rank == 0
            else bytearray(272)
        )
        if engine.rank == 0:
            sending = engine.send(context, 1, 0, BufferSource(typemap, memory, 0, 1, 4))
            engine.turns.wait(lambda: sending.done)
        else:
            receiving = engine.receive(
                context, 0, 0, BufferTarget(typemap, memory, 0, 1, 4)
            )
            engine.turns.wait(lambda: receiving.done)
        return bytes(typemap.pack(memory, 0, 1, external=False))

    first, second = run_job(make_job([2]), program, shortest=ALWAYS)
    assert first == second


def test_what_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IMPI_ZERO_COPY", raising=False)
    assert ZERO_COPY.of(os.environ) == SHORTEST
    monkeypatch.setenv("IMPI_ZERO_COPY", "0")
    assert ZERO_COPY.of(os.environ) == 0
    monkeypatch.setenv("IMPI_ZERO_COPY", "soon")
    with pytest.raises(
        UsageError, match="IMPI_ZERO_COPY: 'soon' is not a number of octets, such as"
    ):
        ZERO_COPY.of(os.environ)
