"""The engine over real sockets and a vendor in memory."""

from __future__ import annotations

import pytest
from engine_world import make_job, run_job

from impi.collectives import Layout, allreduce, barrier
from impi.collectives.reduction import Reduction
from impi.engine.collective import CollectiveOperation, OctetCodec
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.payload import OctetSource, OctetTarget
from impi.semantics.constants import ANY_SOURCE, ANY_TAG


def world(engine: Engine) -> Context:
    return engine.make_context(0, range(len(engine.job.procs)))


def receive(engine: Engine, context: Context, source: int, tag: int) -> bytes:
    target = OctetTarget()
    operation = engine.receive(context, source, tag, target)
    engine.wait(lambda: operation.done)
    return bytes(target.data)


@pytest.mark.parametrize("nbytes", [0, 1, 1023, 1024, 1025, 100_000, 2_000_000])
@pytest.mark.parametrize("synchronous", [False, True])
def test_everybody_to_everybody(nbytes: int, synchronous: bool) -> None:
    job = make_job([2, 1, 2])

    def program(engine: Engine) -> None:
        context = world(engine)
        n = len(job.procs)
        sends = [
            engine.send(context, d, 7, OctetSource(bytes([engine.rank]) * nbytes), synchronous=synchronous)
            for d in range(n)
        ]
        for s in range(n):
            assert receive(engine, context, s, 7) == bytes([s]) * nbytes
        engine.wait(lambda: all(s.done for s in sends))

    run_job(job, program)


def test_wildcards_take_local_and_remote_in_order() -> None:
    job = make_job([2, 2])

    def program(engine: Engine) -> list[bytes] | None:
        context = world(engine)
        if engine.rank:
            for i in range(50):
                operation = engine.send(context, 0, i, OctetSource(bytes([engine.rank, i])))
                engine.wait(lambda op=operation: op.done)
            return None
        return [receive(engine, context, ANY_SOURCE, ANY_TAG) for _ in range(150)]

    got = run_job(job, program)[0]
    for rank in (1, 2, 3):
        assert [m[1] for m in got if m[0] == rank] == list(range(50))


def test_local_wait_serves_remote_sends() -> None:
    """A starts a long send to remote B, then waits for local C; C waits for B, and B for A."""
    job = make_job([2, 1])

    def program(engine: Engine) -> None:
        context = world(engine)
        a, c, b = 0, 1, 2
        if engine.rank == a:
            sending = engine.send(context, b, 0, OctetSource(bytes(1_000_000)))
            assert receive(engine, context, c, 0) == b"go"
            engine.wait(lambda: sending.done)
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
        engine.wait(lambda: engine.probe(context, ANY_SOURCE, 5) is not None, polling=True)
        found = engine.probe(context, ANY_SOURCE, 5)
        assert found is not None
        assert (found.source, found.tag, found.nbytes) == (0, 5, 5)
        message = engine.probe(context, 0, ANY_TAG, take=True)
        assert message is not None
        assert engine.probe(context, 0, 5) is None
        target = OctetTarget()
        operation = engine.receive_message(context, message, target)
        engine.wait(lambda: operation.done)
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
        assert engine.withdraw(first)
        assert first.done
        assert first.cancelled
        engine.send(context, 0, 0, OctetSource(b""))
        assert receive(engine, context, 0, 5) == b"x"
        assert not engine.withdraw(first)

    run_job(job, program)


@pytest.mark.parametrize("clients", [[1], [4], [2, 1], [1, 1, 1, 1, 1], [2, 3, 1]])
def test_collectives(clients: list[int]) -> None:
    job = make_job(clients)

    def program(engine: Engine) -> list[int]:
        context = world(engine)
        layout = Layout([p.client for p in job.procs])

        def run(algorithm: object) -> object:
            operation = CollectiveOperation(engine, context, algorithm, OctetCodec())  # type: ignore[arg-type]
            engine.track(operation)
            engine.wait(lambda: operation.done)
            return operation.result

        total = Reduction(lambda a, b: bytes([a[0] + b[0]]))
        results = []
        for _ in range(20):
            value = run(allreduce(layout, engine.rank, bytes([engine.rank + 1]), total, maxlinear=job.maxlinear))
            results.append(bytes(value)[0])  # type: ignore[call-overload]
            run(barrier(layout, engine.rank, maxlinear=job.maxlinear))
        return results

    n = len(job.procs)
    assert run_job(job, program) == [[n * (n + 1) // 2] * 20] * n
