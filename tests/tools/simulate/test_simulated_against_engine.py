"""The simulator's messages are those of the engine: real jobs in threads, over sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from engine_world import make_job, run_job
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import driver

from impi.protocol.collectives import (
    SHAPES,
    Algorithm,
    Elements,
    Fixed,
    Layout,
    Reduction,
    allgather,
    allreduce,
    allreduce_by_elimination,
    alltoall,
    alltoall_by_masters,
    barrier,
    bcast,
    bcast_over,
    gather,
    is_short,
    reduce_by_elimination,
    reproducible_reduce,
    scan,
    scatter,
    scatter_by_masters,
    scatter_over,
)
from impi.protocol.collectives import reduce as reduce_
from impi.protocol.transfer import Transfer
from impi.rank.engine.collective import CollectiveOperation, OctetCodec
from impi.rank.engine.engine import Engine
from impi.tools.simulate.agreed_algorithms import SPECIFIED, parse_choices
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.model.messages import Message
from impi.tools.simulate.model.shape import Limits, Shape

Sent = Counter[tuple[int, int, int, int]]
"""How many messages (source, destination, tag, octets) were sent between clients."""

TOTAL: Reduction[Any] = Reduction(lambda a, b: bytes(b))
PARTS: Reduction[Any] = Reduction(
    lambda a, b: bytes(b),
    elements=Elements(1, len, lambda value, start, end: value[start:end], b"".join),
)
XSIZE = 100
RUNS: dict[str, Callable[[Layout, int, Limits, int], Algorithm[Any]]] = {
    "barrier": lambda lay, r, lim, size: barrier(lay, r, maxlinear=lim.maxlinear),
    "bcast": lambda lay, r, lim, size: bcast(
        lay, r, 0, bytes(size), maxlinear=lim.maxlinear
    ),
    "reduce": lambda lay, r, lim, size: reduce_(
        lay, r, 0, bytes(size), TOTAL, maxlinear=lim.maxlinear
    ),
    "allreduce": lambda lay, r, lim, size: allreduce(
        lay, r, bytes(size), TOTAL, maxlinear=lim.maxlinear
    ),
    "scan": lambda lay, r, lim, size: scan(lay, r, bytes(size), TOTAL),
    "scatter": lambda lay, r, lim, size: scatter(lay, r, 0, [bytes(size)] * lay.size),
    "gather": lambda lay, r, lim, size: gather(
        lay,
        r,
        0,
        bytes(size),
        Fixed(size),
        maxlinear=lim.maxlinear,
        short=is_short(size, lim.xsize),
    ),
    "allgather": lambda lay, r, lim, size: allgather(
        lay,
        r,
        bytes(size),
        Fixed(size),
        maxlinear=lim.maxlinear,
        short=is_short(size, lim.xsize),
    ),
}


TUNED: dict[str, Callable[[Layout, int, int], Algorithm[Any]]] = {
    "bcast=chain/24": lambda lay, r, size: bcast_over(
        SHAPES["chain"], lay, r, 0, bytes(size), size, segment=24
    ),
    "bcast=flat": lambda lay, r, size: bcast_over(
        SHAPES["flat"], lay, r, 0, bytes(size), size
    ),
    "scatter=binomial": lambda lay, r, size: scatter_over(
        SHAPES["binomial"], lay, r, 0, [bytes(size)] * lay.size, Fixed(size)
    ),
    "scatter=masters": lambda lay, r, size: scatter_by_masters(
        lay, r, 0, [bytes(size)] * lay.size, Fixed(size)
    ),
    "alltoall=masters": lambda lay, r, size: (
        alltoall_by_masters(lay, r, [bytes(size)] * lay.size, Fixed(size))
        if is_short(size, XSIZE)
        else alltoall(lay, r, [bytes(size)] * lay.size)
    ),
    "reduce=elimination/16": lambda lay, r, size: reduce_by_elimination(
        lay, r, 0, bytes(size), PARTS, threshold=16
    ),
    "allreduce=elimination": lambda lay, r, size: allreduce_by_elimination(
        lay, r, bytes(size), PARTS, threshold=0
    ),
    "reduce=reproducible": lambda lay, r, size: reproducible_reduce(
        lay, r, 0, bytes(size), TOTAL
    ),
}


def sent_by_engines(shape: Shape, limits: Limits, operation: str, size: int) -> Sent:
    job = make_job(
        [len(ranks) for ranks in shape.ranks],
        maxdatalen=limits.datalen,
        maxlinear=limits.maxlinear,
        xsize=limits.xsize,
        ackmark=limits.ackmark,
        hiwater=limits.hiwater,
    )
    layout = Layout(shape.client_of)
    sent: Sent = Counter()

    def program(engine: Engine) -> None:
        context = engine.make_context(0, range(len(job.procs)))
        engine.open(context)
        if operation in TUNED:
            algorithm = TUNED[operation](layout, engine.rank, size)
        else:
            algorithm = RUNS[operation](layout, engine.rank, limits, size)
        running = CollectiveOperation(engine, context, algorithm, OctetCodec())
        engine.turns.wait(lambda: running.done)

    original, shorter = Transfer.send, Transfer.short_sender

    def spy(machine: Transfer, dest: int, **how: Any) -> Any:
        sent[
            how["lsrank"], dest, how["tag"], sum(view.nbytes for view in how["views"])
        ] += 1
        return original(machine, dest, **how)

    def spies(machine: Transfer, dest: int, cid: int, lsrank: int) -> Any:
        make = shorter(machine, dest, cid, lsrank)

        def counted(tag: int, octets: Any, count: int) -> Any:
            packet = make(tag, octets, count)
            if packet is not None:
                sent[lsrank, dest, tag, len(octets)] += 1
            return packet

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transfer, "send", spy)
        patch.setattr(Transfer, "short_sender", spies)
        run_job(job, program)
    return sent


def sent_in_simulation(shape: Shape, limits: Limits, operation: str, size: int) -> Sent:
    driving = driver(shape, limits)
    sent: Sent = Counter()
    original = driving._transport.send

    def spy(message: Message) -> None:
        sent[message.source, message.dest, message.tag, message.nbytes] += 1
        original(message)

    driving._transport.send = spy  # type: ignore[method-assign]
    chosen = parse_choices(operation) if operation in TUNED else SPECIFIED
    case = Case(operation.partition("=")[0], size, native=False, chosen=chosen)
    outcome = simulate(shape, limits, case, driving)
    assert sent.total() == outcome.messages
    return sent


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from([*RUNS, *TUNED]),
    st.sampled_from([0, 8, 65, 200]),
    st.integers(0, 4),
)
def test_the_engine_sends_what_was_simulated(
    clients: list[int], operation: str, size: int, maxlinear: int
) -> None:
    shape = Shape(tuple((n,) for n in clients))
    limits = Limits(datalen=64, ackmark=2, hiwater=4, maxlinear=maxlinear, xsize=XSIZE)
    predicted = sent_in_simulation(shape, limits, operation, size)
    assert predicted == sent_by_engines(shape, limits, operation, size)
