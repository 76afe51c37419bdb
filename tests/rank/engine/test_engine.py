"""The engine over real sockets and a vendor in memory."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from engine_world import MemoryVendor, make_job, run_job

from impi.protocol.collectives import Algorithm, Layout, allreduce, barrier, bcast
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import among
from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.transfer import Transfer
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    Header,
    PacketType,
    pack_header,
    unpack_header,
)
from impi.rank.engine.channels.channels import Channels
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.collective import CollectiveOperation, OctetCodec
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import SENT, SendOperation


def world(engine: Engine) -> Context:
    return engine.make_context(0, range(len(engine.job.procs)))


def receive(engine: Engine, context: Context, source: int, tag: int) -> bytes:
    target = OctetTarget()
    operation = engine.receive(context, source, tag, target)
    engine.turns.wait(lambda: operation.done)
    return bytes(target.data)


@pytest.mark.parametrize("nbytes", [0, 1, 1023, 1024, 1025, 100_000, 2_000_000])
@pytest.mark.parametrize("synchronous", [False, True])
def test_everybody_to_everybody(nbytes: int, synchronous: bool) -> None:
    job = make_job([2, 1, 2])

    def program(engine: Engine) -> None:
        context = world(engine)
        n = len(job.procs)
        sends = [
            engine.send(
                context,
                d,
                7,
                OctetSource(bytes([engine.rank]) * nbytes),
                synchronous=synchronous,
            )
            for d in range(n)
        ]
        for s in range(n):
            assert receive(engine, context, s, 7) == bytes([s]) * nbytes
        engine.turns.wait(lambda: all(s.done for s in sends))

    run_job(job, program)


def test_wildcards_take_local_and_remote_in_order() -> None:
    job = make_job([2, 2])

    def program(engine: Engine) -> list[bytes] | None:
        context = world(engine)
        if engine.rank:
            for i in range(50):
                operation = engine.send(
                    context, 0, i, OctetSource(bytes([engine.rank, i]))
                )
                engine.turns.wait_for(operation)
            return None
        return [receive(engine, context, ANY_SOURCE, ANY_TAG) for _ in range(150)]

    got = run_job(job, program)[0]
    for rank in (1, 2, 3):
        assert [m[1] for m in got if m[0] == rank] == list(range(50))


@pytest.mark.parametrize("probing", [False, True])
def test_who_sends_without_a_pause_does_not_hide_the_others_from_a_wildcard(
    probing: bool,
) -> None:
    """There is always a remote message at hand, so that no receive ever has to wait for one."""
    job = make_job([2, 1], maxdatalen=8)
    # Several packets: finishing one message brings in the beginnings of others
    size = 100
    flooded, sent_one = threading.Event(), threading.Event()

    def flood(engine: Engine, context: Context) -> None:
        stop = engine.receive(context, 0, 3, OctetTarget())
        under_way: list[SendOperation] = []
        count = 0
        while not stop.done:
            while len(under_way) < 5:
                under_way.append(engine.send(context, 0, 1, OctetSource(bytes(size))))
                count += 1
            engine.turns.progress(0.001)
            under_way = [operation for operation in under_way if not operation.done]
        under_way.append(engine.send(context, 0, 4, OctetSource(b"%d" % count)))
        engine.turns.wait(lambda: all(operation.done for operation in under_way))

    def program(engine: Engine) -> int:
        context = world(engine)
        if engine.rank == 2:
            flood(engine, context)
            return 0
        if engine.rank == 1:
            assert flooded.wait(30)
            operation = engine.send(context, 0, 2, OctetSource(b"local"))
            sent_one.set()
            engine.turns.wait(lambda: operation.done)
            return 0
        took, hidden = 0, True
        while hidden and took < 400:
            if took == 20:
                flooded.set()
                assert sent_one.wait(30)
            message = None
            while probing and message is None:
                message = engine.probe(context, ANY_SOURCE, ANY_TAG)
                engine.turns.progress(0.001)
            source = message.source if message is not None else ANY_SOURCE
            hidden = receive(engine, context, source, ANY_TAG) != b"local"
            took += hidden
        stop = engine.send(context, 2, 3, OctetSource(b""))
        sent = int(receive(engine, context, 2, 4))
        for _ in range(sent - took):
            receive(engine, context, 2, 1)
        engine.turns.wait(lambda: stop.done)
        return hidden

    assert not any(run_job(job, program))


def test_local_wait_serves_remote_sends() -> None:
    """A starts a long send to remote B, then waits for local C; C waits for B, and B for A."""
    job = make_job([2, 1])

    def program(engine: Engine) -> None:
        context = world(engine)
        a, c, b = 0, 1, 2
        if engine.rank == a:
            sending = engine.send(context, b, 0, OctetSource(bytes(1_000_000)))
            assert receive(engine, context, c, 0) == b"go"
            engine.turns.wait(lambda: sending.done)
        elif engine.rank == c:
            assert receive(engine, context, b, 0) == b"got it"
            engine.send(context, a, 0, OctetSource(b"go"))
        else:
            assert len(receive(engine, context, a, 0)) == 1_000_000
            engine.send(context, c, 0, OctetSource(b"got it"))

    run_job(job, program)


def test_messages_may_come_before_their_communicator() -> None:
    job = make_job([1, 1])

    def program(engine: Engine) -> bytes | None:
        first = world(engine)
        if engine.rank == 0:
            early = engine.make_context(4, [0, 1])
            engine.send(early, 1, 3, OctetSource(b"early"))
            engine.send(first, 1, 1, OctetSource(b"now"))
            return None
        assert receive(engine, first, 0, 1) == b"now"
        return receive(engine, engine.make_context(4, [0, 1]), 0, 3)

    assert run_job(job, program)[1] == b"early"


def test_probe_leaves_the_message_and_a_matched_probe_takes_it() -> None:
    job = make_job([1, 1])

    def program(engine: Engine) -> None:
        context = world(engine)
        if engine.rank == 0:
            engine.send(context, 1, 5, OctetSource(b"hello"))
            return
        engine.turns.wait(
            lambda: engine.probe(context, ANY_SOURCE, 5) is not None, polling=True
        )
        found = engine.probe(context, ANY_SOURCE, 5)
        assert found is not None
        assert (found.source, found.tag, found.nbytes) == (0, 5, 5)
        message = engine.probe(context, 0, ANY_TAG, take=True)
        assert message is not None
        assert engine.probe(context, 0, 5) is None
        target = OctetTarget()
        operation = engine.receive_message(context, message, target)
        engine.turns.wait(lambda: operation.done)
        assert bytes(target.data) == b"hello"

    run_job(job, program)


def test_withdrawn_receive_matches_nothing() -> None:
    job = make_job([1, 1])

    def program(engine: Engine) -> None:
        context = world(engine)
        if engine.rank == 0:
            receive(engine, context, 1, 0)
            engine.send(context, 1, 5, OctetSource(b"x"))
            return
        first = engine.receive(context, 0, 5, OctetTarget())
        assert engine.matching.withdraw(first)
        assert first.done
        assert first.cancelled
        engine.send(context, 0, 0, OctetSource(b""))
        assert receive(engine, context, 0, 5) == b"x"
        assert not engine.matching.withdraw(first)

    run_job(job, program)


@pytest.mark.parametrize("clients", [[1], [4], [2, 1], [1, 1, 1, 1, 1], [2, 3, 1]])
def test_collectives(clients: list[int]) -> None:
    job = make_job(clients)

    def program(engine: Engine) -> list[int]:
        context = world(engine)
        layout = Layout([p.client for p in job.procs])

        def run(algorithm: object) -> object:
            operation = CollectiveOperation(engine, context, algorithm, OctetCodec())  # type: ignore[arg-type]
            engine.turns.wait(lambda: operation.done)
            return operation.result

        total = Reduction(lambda a, b: bytes([a[0] + b[0]]))
        results = []
        for _ in range(20):
            value = run(
                allreduce(
                    layout,
                    engine.rank,
                    bytes([engine.rank + 1]),
                    total,
                    maxlinear=job.maxlinear,
                )
            )
            results.append(bytes(value)[0])  # type: ignore[call-overload]
            run(barrier(layout, engine.rank, maxlinear=job.maxlinear))
        return results

    n = len(job.procs)
    assert run_job(job, program) == [[n * (n + 1) // 2] * 20] * n


@pytest.mark.parametrize("collective", [False, True])
def test_short_messages_are_the_same_octets_by_either_way(
    collective: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Point-to-point messages and collectives alike, but for the number of the request."""
    job = make_job([1, 1])
    sent = []
    for short in (True, False):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours})
            context = engine.make_context(6, range(2))
            engine.open(context)
            if not short:
                monkeypatch.setattr(
                    Transfer, "short_sender", lambda *_: lambda tag, octets, count: None
                )
            for number in range(3):
                operation = engine.send(
                    context, 1, 110 + number, OctetSource(b"abc"), collective=collective
                )
                assert operation.done
                assert (operation is SENT) == short
            octets = bytearray(theirs.recv(4096))
        packets = [
            octets[at : at + HEADER_SIZE + 3]
            for at in range(0, len(octets), HEADER_SIZE + 3)
        ]
        headers = [unpack_header(packet[:HEADER_SIZE]) for packet in packets]
        assert [header.cid for header in headers] == [6 + collective] * 3
        sent.append(
            [
                (header._replace(srqid=0), packet[HEADER_SIZE:])
                for header, packet in zip(headers, packets)
            ]
        )
    assert sent[0] == sent[1]


def test_a_collective_waits_for_the_one_host_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In two clients with a proc each the next packet comes by one socket, the only one asked."""
    job = make_job([1, 1])
    attended = []
    wait_on = Channels.wait_on

    def spy(channels: Channels, host: int, *how: Any) -> bool:
        attended.append(host)
        return wait_on(channels, host, *how)

    monkeypatch.setattr(Channels, "wait_on", spy)

    def program(engine: Engine) -> None:
        layout = Layout([0, 1])
        context = world(engine)
        for _ in range(20):
            engine.turns.wait_for(
                CollectiveOperation(
                    engine,
                    context,
                    barrier(layout, engine.rank, maxlinear=4),
                    OctetCodec(),
                )
            )

    run_job(job, program)
    assert {0, 1} == set(attended)


@pytest.mark.clause("3.8")
def test_a_host_that_is_gone_once_both_finis_are_exchanged() -> None:
    """It may close once it has both; the kernel answers unread octets with a reset."""
    job = make_job([1, 1, 1])
    pairs = {host: socket.socketpair() for host in (1, 2)}
    for ours, _ in pairs.values():
        ours.setblocking(False)
    engine = Engine(
        job,
        0,
        MemoryVendor({}, [0], 0),
        {host: ours for host, (ours, _) in pairs.items()},
    )
    fini = pack_header(Header(int(PacketType.FINI)))
    first, second = (theirs for _, theirs in pairs.values())
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(engine.shutdown)
        first.sendall(fini)
        assert first.recv(1000, socket.MSG_PEEK) == fini
        first.close()
        second.sendall(fini)
        ending.result(30.0)
    second.close()


def test_collectives_of_one_communicator_wait_for_their_turn() -> None:
    """Simultaneous barriers and broadcasts, checked from the last; tags alone would mix them."""
    job = make_job([2, 1, 1])
    layout = Layout([p.client for p in job.procs])

    def program(engine: Engine) -> list[Any]:
        context = world(engine)
        started: list[CollectiveOperation] = []
        for root in (0, 3, 1, 2, 0, 2):
            value = bytes([root, len(started)]) if root == engine.rank else None
            for algorithm in (
                bcast(layout, engine.rank, root, value, maxlinear=job.maxlinear),
                barrier(layout, engine.rank, maxlinear=job.maxlinear),
            ):
                started.append(
                    CollectiveOperation(engine, context, algorithm, OctetCodec())
                )
        for operation in reversed(started):
            engine.turns.wait(lambda: operation.done)
        assert not context.under_way.collectives
        return [bytes(operation.result) for operation in started[::2]]

    expected = [bytes([root, 2 * i]) for i, root in enumerate((0, 3, 1, 2, 0, 2))]
    assert run_job(job, program) == [expected] * 4


def test_a_collective_with_tags_of_its_own_need_not_wait() -> None:
    job = make_job([1, 1, 1])

    def program(engine: Engine) -> bool:
        context = world(engine)
        layout = Layout([p.client for p in job.procs])
        pair = Layout([0, 1])
        blocked = None
        if engine.rank < 2:
            # Rank 2 comes to the barrier only after these two have met.
            blocked = CollectiveOperation(
                engine, context, barrier(layout, engine.rank, maxlinear=4), OctetCodec()
            )
            meeting = among(barrier(pair, engine.rank, maxlinear=4), [0, 1], 999)
            alone = CollectiveOperation(
                engine, context, meeting, OctetCodec(), alone=True
            )
            engine.turns.wait(lambda: alone.done)
            engine.send(context, 2, 0, OctetSource(b"come"))
        else:
            receive(engine, context, 0, 0)
            receive(engine, context, 1, 0)
            blocked = CollectiveOperation(
                engine, context, barrier(layout, engine.rank, maxlinear=4), OctetCodec()
            )
        engine.turns.wait(lambda: blocked.done)
        return True

    assert run_job(job, program) == [True] * 3


def test_what_a_program_gets_wrong_in_a_collective_is_its_own_end() -> None:
    """A failing reduction or result raises nothing in the driver; the next collective runs."""
    job = make_job([1])
    layout = Layout([0])

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    def wrong() -> Algorithm[None]:
        fail()
        yield []

    def program(engine: Engine) -> None:
        context = world(engine)
        first = CollectiveOperation(engine, context, wrong(), OctetCodec())
        second = CollectiveOperation(
            engine, context, barrier(layout, 0, maxlinear=4), OctetCodec(), fail
        )
        third = CollectiveOperation(
            engine, context, barrier(layout, 0, maxlinear=4), OctetCodec()
        )
        assert all(operation.done for operation in (first, second, third))
        assert isinstance(first.failure, ZeroDivisionError)
        assert isinstance(second.failure, ZeroDivisionError)
        assert third.failure is None

    run_job(job, program)


def test_a_copy_is_open_once_the_vendor_has_made_it() -> None:
    job = make_job([2, 1])

    def program(engine: Engine) -> list[int]:
        first = engine.make_context(2, [2, 0, 1])
        made: list[Context] = []
        operation = engine.start_copy(first, 2**63, made.append)
        if engine.rank == 2:
            assert not made  # the vendor is ready at the third look
        engine.turns.wait(lambda: operation.done)
        [copy] = made
        assert (copy.members, copy.rank, copy.cid) == (first.members, first.rank, 2**63)
        right = (copy.rank + 1) % 3
        engine.send(copy, right, 1, OctetSource(bytes([copy.rank])))
        return list(receive(engine, copy, (copy.rank - 1) % 3, 1))

    assert run_job(job, program) == [[0], [1], [2]]
