"""Peer quirks (impi.protocol.quirks) against octets of an implementation that has both.

In the recordings a host is an agent of two procs; here each of its procs is a host with channels of
its own, which changes no octet of a packet. See ../vectors/README.md.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_world import MemoryVendor, make_job, run_job

from impi.base.errors import UsageError
from impi.protocol.collectives import Layout, Reduction, allreduce, barrier, reduce
from impi.protocol.job import Host, Job, Proc
from impi.protocol.quirks import Quirks
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, unpack_header
from impi.rank.engine.channels.payload import (
    BufferSource,
    BufferTarget,
    OctetSource,
    OctetTarget,
)
from impi.rank.engine.collective import (
    ArrayCodec,
    Codec,
    CollectiveOperation,
    OctetCodec,
)
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine

VECTORS = Path(__file__).parent.parent.parent / "vectors"
LAM = Quirks(little_endian=True, reduce_on_p2p=True)
INT = NAMED["INT"]
INTS = ArrayCodec(INT, np.dtype("i4"), 4)
SUM = Reduction(lambda a, b: a + b, copy=np.copy)


def packets(octets: bytes) -> Iterator[tuple[Header, bytes]]:
    at = 0
    while at < len(octets):
        header = unpack_header(octets, at)
        end = (
            at
            + HEADER_SIZE
            + (
                header.pk_len
                if header.pk_type in (PacketType.DATA, PacketType.DATASYNC)
                else 0
            )
        )
        yield header, octets[at:end]
        at = end


def recorded_job(case: str) -> Job:
    text = (VECTORS / case / "decoded.txt").read_text()
    (pids,) = re.findall(
        r"client0 <- server : COLL len=\d+ P_PID client_mask=0x3 \[(.*?)\]", text
    )
    (ipv6,) = re.findall(
        r"client0 <- server : COLL len=\d+ H_IPV6 client_mask=0x3 \['(\w+)', '(\w+)'\]",
        text,
    )
    procs = tuple(
        Proc(
            rank=rank,
            client=rank // 2,
            host=rank,
            ipv6=bytes.fromhex(ipv6[rank // 2]),
            pid=int(pid),
        )
        for rank, pid in enumerate(pids.split(","))
    )
    hosts = tuple(
        Host(index=p.rank, client=p.client, ipv6=p.ipv6, port=1, procs=(p.rank,))
        for p in procs
    )
    facts: dict[str, Any] = {
        "maxdatalen": 65536,
        "tag_ub": 2**31 - 1,
        "xsize": 1024,
        "maxlinear": 4,
    }
    return Job(
        version=(0, 0),
        nclients=2,
        hosts=hosts,
        procs=procs,
        ackmark=10,
        hiwater=20,
        **facts,
    )


def recorded(case: str, client: int) -> list[tuple[Header, bytes]]:
    """Return the packets of all procs of a client, header and whole packet."""
    octets = (VECTORS / case / f"host{client}_to_host{1 - client}.bin").read_bytes()
    # The connecting host says its rank first
    return list(packets(octets[4 * client :]))


def shown(header: Header, octets: bytes) -> tuple[object, ...]:
    """Return the fields that the specification fixes: src and dest, tag, context, octets."""
    return (*header[2:6], header.lsrank, header.tag, header.cid, octets[HEADER_SIZE:])


def collect(
    engine: Engine, context: Context, algorithm: Any, codec: Codec = INTS
) -> list[int]:
    operation = CollectiveOperation(engine, context, algorithm, codec)
    engine.turns.track(operation)
    engine.turns.wait(lambda: operation.done)
    return [] if operation.result is None else operation.result.tolist()


def reduce_to_every_root(
    engine: Engine, context: Context, layout: Layout
) -> list[list[int]]:
    mine = np.array([engine.rank, 1, 10 * engine.rank], "i4")
    return [
        collect(
            engine, context, reduce(layout, engine.rank, root, mine, SUM, maxlinear=4)
        )
        for root in range(layout.size)
    ]


def one_allreduce(engine: Engine, context: Context, layout: Layout) -> list[list[int]]:
    mine = np.array([engine.rank + 1], "i4")
    return [
        collect(engine, context, allreduce(layout, engine.rank, mine, SUM, maxlinear=4))
    ]


PROGRAMS = {
    "reduce": (
        reduce_to_every_root,
        lambda rank: [[6, 4, 60] if root == rank else [] for root in range(4)],
    ),
    "allreduce": (one_allreduce, lambda rank: [[10]]),
}


@pytest.mark.parametrize(("case", "client"), [*product(PROGRAMS, [0, 1])])
def test_in_the_place_of_a_recorded_client(case: str, client: int) -> None:
    """Native little-endian ints, Reduce on context 0: we take and send the recorded octets."""
    job = recorded_job(case)
    rank_of = {(p.ipv6, p.pid): p.rank for p in job.procs}
    mine, theirs = job.client_procs(client), job.client_procs(1 - client)
    sockets: dict[int, dict[int, socket.socket]] = {rank: {} for rank in mine}
    peers: dict[tuple[int, int], socket.socket] = {}
    for us, them in product(mine, theirs):
        sockets[us][them], peers[us, them] = socket.socketpair()
        sockets[us][them].setblocking(False)
    for header, octets in recorded(case, 1 - client):
        if header.pk_type == PacketType.FINI:
            for peer in peers.values():
                peer.sendall(octets)
        else:
            peers[rank_of[header[4:6]], rank_of[header[2:4]]].sendall(octets)
    queues: dict[tuple[int, int], deque[Any]] = {}
    results: dict[int, list[list[int]]] = {}

    def proc(rank: int) -> None:
        engine = Engine(
            job, rank, MemoryVendor(queues, mine, rank), sockets[rank], quirks=LAM
        )
        context, layout = engine.make_context(0, range(4)), Layout([0, 0, 1, 1])
        results[rank] = PROGRAMS[case][0](engine, context, layout)
        # Finalize
        collect(engine, context, barrier(layout, rank, maxlinear=4), OctetCodec())
        engine.shutdown()

    threads = [
        threading.Thread(target=proc, args=(rank,), daemon=True) for rank in mine
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {rank: PROGRAMS[case][1](rank) for rank in mine}
    sent = []
    for peer in peers.values():
        with peer:
            peer.settimeout(30)
            octets = b""
            while data := peer.recv(65536):
                octets += data
            sent += [
                shown(*packet)
                for packet in packets(octets)
                if packet[0].pk_type == PacketType.DATA
            ]
    expected = [
        shown(*packet)
        for packet in recorded(case, client)
        if packet[0].pk_type == PacketType.DATA
    ]
    assert sorted(sent) == sorted(expected)
    assert (190, 0) in {
        (header.tag, header.cid) for c in (0, 1) for header, _ in recorded(case, c)
    }


@pytest.mark.parametrize(
    ("quirks", "octets"),
    [(Quirks(), ">3i"), (LAM, "<3i")],
    ids=["external32", "little-endian"],
)
def test_ints_between_clients(quirks: Quirks, octets: str) -> None:
    def program(engine: Engine) -> bytes | None:
        context = engine.make_context(0, range(2))
        if engine.rank == 0:
            data = memoryview(bytearray(struct.pack("=3i", 1, -2, 3)))
            operation = engine.send(context, 1, 0, BufferSource(INT, data, 0, 3, 4))
            engine.turns.wait(lambda: operation.done)
            again = memoryview(bytearray(12))
            receiving = engine.receive(context, 1, 0, BufferTarget(INT, again, 0, 3, 4))
            engine.turns.wait(lambda: receiving.done)
            assert again == data
            return None
        raw = OctetTarget()
        got = engine.receive(context, 0, 0, raw)
        engine.turns.wait(lambda: got.done)
        back = engine.send(context, 0, 0, OctetSource(raw.data))
        engine.turns.wait(lambda: back.done)
        return bytes(raw.data)

    assert run_job(make_job([1, 1]), program, quirks=quirks)[1] == struct.pack(
        octets, 1, -2, 3
    )


def test_a_wildcard_does_not_take_a_message_of_reduce() -> None:
    """On one context id only the tag tells them apart: so it is Reduce's alone."""

    def program(engine: Engine) -> bytes | None:
        context, layout = engine.make_context(0, range(2)), Layout([0, 1])
        anything = OctetTarget()
        posted = (
            engine.receive(context, ANY_SOURCE, ANY_TAG, anything)
            if engine.rank == 0
            else None
        )
        mine = np.array([engine.rank + 1], "i4")
        total = collect(
            engine, context, reduce(layout, engine.rank, 0, mine, SUM, maxlinear=4)
        )
        if posted is None:
            sending = engine.send(context, 0, 5, OctetSource(b"mine"))
            engine.turns.wait(lambda: sending.done)
            return None
        assert total == [3]
        engine.turns.wait(lambda: posted.done)
        return bytes(anything.data)

    assert run_job(make_job([1, 1]), program, quirks=LAM)[0] == b"mine"


def test_words() -> None:
    assert Quirks.parse(["little-endian", "reduce-on-p2p"]) == LAM
    assert Quirks.parse(["reduce-on-p2p"]) == Quirks(reduce_on_p2p=True)
    with pytest.raises(
        UsageError,
        match="there is no quirk 'lam'; the quirks are little-endian, reduce-on-p2p",
    ):
        Quirks.parse(["lam"])
