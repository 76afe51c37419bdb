"""User data in the memory form of all clients: what crosses then, and in other jobs."""

from __future__ import annotations

import socket
import struct
import sys

import numpy as np
import pytest
from engine_world import MemoryVendor, make_job, run_job

from impi.base.records import replaced
from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.semantics.values.derive import struct as make_struct
from impi.protocol.wire.packets import HEADER_SIZE, unpack_header
from impi.rank.engine.channels.payload import (
    BufferSource,
    BufferTarget,
    OctetSource,
    OctetTarget,
)
from impi.rank.engine.engine import Engine

INT, DOUBLE, LONG, QUAD, BYTE = (
    NAMED[name] for name in ("INT", "DOUBLE", "LONG", "LONG_DOUBLE", "BYTE")
)
STRICT = make_job([1, 1])
OURS = replaced(STRICT, version=(0x494C4142, 2))
NATIVE = replaced(OURS, native=True)

pytestmark = pytest.mark.skipif(
    sys.byteorder != "little",
    reason="only little-endian machines agree on their own form",
)


def trace(job: object) -> bytes:
    """All that crosses for a message of two ints, synchronous, to rank 1."""
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    with ours, peer:
        engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours})  # type: ignore[arg-type]
        context = engine.make_context(0, [0, 1])
        data = memoryview(bytearray(struct.pack("=2i", 1, -2)))
        engine.send(context, 1, 5, BufferSource(INT, data, 0, 2, 4), synchronous=True)
        return peer.recv(4096)


BY_HAND = (
    "00000001 00000008"  # DATASYNC, 8 octets
    "0000000000000000 000000007f000001 00000000000003e8"  # from 127.0.0.1, process 1000
    "0000000000000000 000000007f000101 00000000000003e9"  # to 127.0.1.1, process 1001
    # Srqid, drqid, octets of the message
    "0000000000000001 0000000000000000 0000000000000008"
    "00000000 00000005 0000000000000000"  # local rank, tag, context
    "0000000000000000 0000000000000002"  # unused, elements
    "00000000000000000000000000000000"
)


def test_with_a_peer_of_0_0_the_octets_are_the_specification_s() -> None:
    octets = trace(STRICT)
    assert trace(OURS) == octets, (
        "a client of ours with another form of memory: external32, too"
    )
    assert octets[HEADER_SIZE:].hex() == "00000001fffffffe"
    assert octets[:HEADER_SIZE].hex() == BY_HAND.replace(" ", "")


def test_only_user_data_is_in_the_form_of_memory() -> None:
    octets, strict = trace(NATIVE), trace(STRICT)
    assert octets[:HEADER_SIZE] == strict[:HEADER_SIZE]
    assert octets[HEADER_SIZE:].hex() == "01000000feffffff"
    header = unpack_header(octets, 0)
    assert (header.tag, header.msglen, header.count) == (5, 8, 2)


@pytest.mark.parametrize("job", [STRICT, NATIVE], ids=["external32", "native"])
def test_values_come_back(job: object) -> None:
    """Types whose size depends on the form, to an equal client and to our own proc."""
    record = make_struct([1, 1, 2], [0, 8, 16], [INT, DOUBLE, QUAD])

    def program(engine: Engine) -> list[tuple[int, int]]:
        context = engine.make_context(0, range(3))
        me, results = engine.rank, []
        for name, values in (
            ("LONG", np.array([1, -2], "l")),
            ("LONG_DOUBLE", np.array([1.5, -2.25], "g")),
        ):
            typemap = NAMED[name]
            octets = values.view(np.uint8).data
            if me == 0:
                sends = [
                    engine.send(context, r, 0, BufferSource(typemap, octets, 0, 2, 4))
                    for r in (1, 2)
                ]
                engine.turns.wait(lambda sends=sends: all(send.done for send in sends))  # type: ignore[misc]
            else:
                got = np.zeros_like(values)
                target = BufferTarget(typemap, got.view(np.uint8).data, 0, 2, 4)
                receiving = engine.receive(context, 0, 0, target)
                engine.turns.wait(lambda receiving=receiving: receiving.done)  # type: ignore[misc]
                assert receiving.message is not None and receiving.failure is None
                assert got.tolist() == values.tolist()
                nbytes = receiving.message.nbytes
                results.append(
                    (
                        nbytes,
                        target.native_size(nbytes, external=receiving.message.external),
                    )
                )
        memory = (
            bytearray(range(record.extent)) if me == 0 else bytearray(record.extent)
        )
        if me == 0:
            values = np.ndarray(2, "g", memory, 16)
            values[:] = [3.5, 4.5]
            sends = [
                engine.send(
                    context, r, 0, BufferSource(record, memoryview(memory), 0, 1, 4)
                )
                for r in (1, 2)
            ]
            engine.turns.wait(lambda: all(send.done for send in sends))
        else:
            place = BufferTarget(record, memoryview(memory), 0, 1, 4)
            receiving = engine.receive(context, 0, 0, place)
            engine.turns.wait(lambda: receiving.done)
            assert np.ndarray(2, "g", memory, 16).tolist() == [3.5, 4.5]
            assert (
                memory[:4] == bytes(range(4))
                and memory[4:8] == bytes(4)
                and memory[8:16] == bytes(range(8, 16))
            )
        return results

    job = replaced(make_job([1, 2]), native=job is NATIVE)
    remote = run_job(job, program)[1]
    own = np.dtype("l").itemsize * 2, np.dtype("g").itemsize * 2
    assert [native for _, native in remote] == list(own)
    assert [sent for sent, _ in remote] == (list(own) if job.native else [8, 32])


def test_octets_that_have_no_form_stay() -> None:
    """Pickles, packed data, and what communicators tell each other."""

    def program(engine: Engine) -> bytes | None:
        context = engine.make_context(0, range(2))
        if engine.rank == 0:
            sending = engine.send(context, 1, 0, OctetSource(b"as they are"))
            engine.turns.wait(lambda: sending.done)
            return None
        target = OctetTarget()
        receiving = engine.receive(context, 0, 0, target)
        engine.turns.wait(lambda: receiving.done)
        return bytes(target.data)

    assert run_job(NATIVE, program)[1] == b"as they are"
