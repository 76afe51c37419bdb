"""A message read together with its cancellation (IMPI 3.7.4) is taken back unmatched."""

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
from impi.rank.engine.channels.payload import OctetTarget
from impi.rank.engine.engine import Engine


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
