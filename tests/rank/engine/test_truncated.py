"""Messages too long for their receive: its error, without cost in memory or the job's end."""

from __future__ import annotations

import socket
import tracemalloc

import pytest
from engine_world import MemoryComm, MemoryVendor, make_job, run_job

from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)
from impi.rank.engine.channels.payload import BufferTarget, OctetSource, OctetTarget
from impi.rank.engine.engine import Engine

GIB = 1 << 30


def small(octets: int) -> BufferTarget:
    return BufferTarget(NAMED["BYTE"], memoryview(bytearray(octets)), 0, octets, 4)


@pytest.mark.clause("3.7.2")
@pytest.mark.parametrize("posted_first", [True, False])
def test_an_announcement_of_2_gib_costs_no_memory(posted_first: bool) -> None:
    job = make_job([1, 1])
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    peer.settimeout(30)
    engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours})
    context = engine.make_context(0, [0, 1])
    me, other = job.procs
    first = Header(
        PacketType.DATASYNC,
        job.maxdatalen,
        other.ipv6,
        other.pid,
        me.ipv6,
        me.pid,
        srqid=7,
        msglen=2 * GIB,
        lsrank=1,
    )
    with ours, peer:
        tracemalloc.start()
        try:
            octets = pack_header(first) + bytes(job.maxdatalen)
            if posted_first:
                receiving = engine.receive(context, 1, 0, small(12))
                peer.sendall(octets)
                engine.turns.wait(lambda: receiving.message is not None)
            else:
                peer.sendall(octets)
                engine.turns.wait(lambda: engine.probe(context, 1, 0) is not None)
                receiving = engine.receive(context, 1, 0, small(12))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < GIB // 100
        assert receiving.truncated and not receiving.done
        # It was matched, and its sender is told so, in order to get it over with.
        answer = unpack_header(peer.recv(HEADER_SIZE, socket.MSG_WAITALL), 0)
        assert (answer.pk_type, answer.srqid) == (PacketType.SYNCACK, 7)


@pytest.mark.parametrize(
    ("clients", "hands_over"),
    [([1, 1], False), ([2], False), ([2], True)],
    ids=["remote", "local", "local and here"],
)
@pytest.mark.parametrize("nbytes", [13, 1024, 1025, 100_000])
def test_what_comes_after_it_is_whole(
    nbytes: int, clients: list[int], hands_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryComm, "hands_over", hands_over)

    def program(engine: Engine) -> bytes | None:
        context = engine.make_context(0, range(2))
        if engine.rank == 0:
            sends = [
                engine.send(context, 1, 0, OctetSource(bytes(nbytes))),
                engine.send(context, 1, 0, OctetSource(b"x")),
            ]
            engine.turns.wait(lambda: all(s.done for s in sends))
            return None
        receiving = engine.receive(context, 0, 0, small(12))
        engine.turns.wait(lambda: receiving.done)
        assert (
            receiving.truncated
            and receiving.message is not None
            and receiving.message.nbytes == nbytes
        )
        last = OctetTarget()
        following = engine.receive(context, 0, 0, last)
        engine.turns.wait(lambda: following.done)
        return bytes(last.data)

    assert run_job(make_job(clients), program)[1] == b"x"
