"""Engines with agents as hosts, over real sockets; and procs in a vendor's other order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from engine_world import gather_hosts, make_job, run_job

from impi.protocol.job import Job
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation

WIRINGS = {
    "one agent, two procs": ([[0, 1, 2], [3], [4]], [0]),
    "two agents": ([[0, 1], [2, 3, 4]], [0, 1]),
    "nodes, client, procs": ([[0], [1, 2], [3, 4, 5], [6], [7]], [0, 1, 2]),
}
CLIENTS = {
    "one agent, two procs": [3, 2],
    "two agents": [2, 3],
    "nodes, client, procs": [3, 3, 2],
}


def world(engine: Engine) -> Context:
    return engine.make_context(0, range(len(engine.job.procs)))


def post(
    engine: Engine, context: Context, source: int, tag: int
) -> tuple[ReceiveOperation, OctetTarget]:
    target = OctetTarget()
    return engine.receive(context, source, tag, target), target


def job_of(name: str, **facts: int) -> tuple[Job, Sequence[int]]:
    hosts, agents = WIRINGS[name]
    return gather_hosts(make_job(CLIENTS[name], **facts), hosts), agents


@pytest.mark.parametrize("nbytes", [0, 512, 513, 10_000])
@pytest.mark.parametrize("name", WIRINGS)
def test_everybody_to_everybody(name: str, nbytes: int) -> None:
    job, agents = job_of(name)

    def program(engine: Engine) -> None:
        context = world(engine)
        everybody = range(len(job.procs))
        sends = [
            engine.send(
                context,
                dest,
                tag,
                OctetSource(bytes([engine.rank, tag]) * nbytes),
                synchronous=tag == 2,
            )
            for tag in range(3)
            for dest in everybody
        ]
        for tag in (2, 0, 1):
            for source in everybody:
                operation, target = post(engine, context, source, tag)
                engine.turns.wait_for(operation)
                assert bytes(target.data) == bytes([source, tag]) * nbytes
        engine.turns.wait(lambda: all(send.done for send in sends))

    run_job(job, program, agents=agents)


@pytest.mark.clause("3.6")
@pytest.mark.parametrize("name", WIRINGS)
def test_every_channel_full_in_both_directions(name: str) -> None:
    # More is under way than a socket holds, between all, before anybody receives.
    job, agents = job_of(name, maxdatalen=64 * 1024, ackmark=8, hiwater=32)
    count = 32

    def program(engine: Engine) -> None:
        context = world(engine)
        others = [p.rank for p in job.procs if p.client != engine.client]
        sends = [
            engine.send(context, dest, 0, OctetSource(bytes([n]) * 64 * 1024))
            for n in range(count)
            for dest in others
        ]
        engine.turns.wait(lambda: all(send.done for send in sends))
        for source in others:
            for n in range(count):
                operation, target = post(engine, context, source, 0)
                engine.turns.wait_for(operation)
                assert bytes(target.data) == bytes([n]) * 64 * 1024

    run_job(job, program, agents=agents, timeout=60.0)


def test_the_vendor_has_the_procs_in_another_order() -> None:
    # Ranks go by host first (2.3.5), for any order of the vendor's: here 0, 2 and 1, 3.
    job = gather_hosts(make_job([4, 1]), [[0, 1], [2, 3], [4]])
    orders = {0: (0, 2, 1, 3), 1: (4,)}

    def program(engine: Engine) -> list[bytes]:
        context = world(engine)
        backwards = engine.make_context(2, [4, 3, 2, 1, 0])
        got = []
        for comm in (context, backwards):
            engine.send(comm, (comm.rank + 1) % 5, 0, OctetSource(bytes([engine.rank])))
            operation, target = post(engine, comm, (comm.rank - 1) % 5, 0)
            engine.turns.wait_for(operation)
            got.append(bytes(target.data))
        return got

    results = run_job(job, program, agents=[0, 1, 2], ranks=orders.__getitem__)
    assert results == [
        [bytes([(rank - 1) % 5]), bytes([(rank + 1) % 5])] for rank in range(5)
    ]
