"""Collectives in virtual time: counts, ends, and agreement of the two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, log2
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import CASES, LIMITS, SHAPES, US, driver, facts, hop, network

from impi.protocol.collectives import Recv
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.drive import Deadlock, Driver
from impi.tools.simulate.model.shape import Limits, Shape, parse_shape, spread


@settings(deadline=None, max_examples=150)
@given(SHAPES, LIMITS, CASES, st.data())
def test_one_for_many_is_the_same_as_each_for_itself(
    shape: Shape, limits: Limits, case: Case, data: st.DataObject
) -> None:
    case = replace(case, root=data.draw(st.integers(0, shape.size - 1)))
    alone, together = (
        simulate(shape, limits, case, driver(shape, limits, shared=shared))
        for shared in (False, True)
    )
    assert facts(alone) == facts(together)
    ends = dict(alone.ends)
    assert all(ends[rank] == end for rank, end in together.ends)


@settings(deadline=None, max_examples=60)
@given(SHAPES, LIMITS, CASES)
def test_a_run_is_the_same_every_time(shape: Shape, limits: Limits, case: Case) -> None:
    first, second = (
        simulate(shape, limits, case, driver(shape, limits)) for _ in range(2)
    )
    assert facts(first) == facts(second)
    assert first.ends == second.ends and first.events == second.events


@pytest.mark.parametrize("clients", range(2, 33))
@pytest.mark.parametrize("maxlinear", [0, 32])
def test_hops_and_messages_of_chapter_4(clients: int, maxlinear: int) -> None:
    shape, limits = spread(2 * clients, clients, 1), Limits(maxlinear=maxlinear)
    # A vertex of the binomial tree takes as many hops as it has bits, at most ceil(log2 n).
    hops = 1 if clients <= maxlinear else max(map(int.bit_count, range(clients)))
    assert hops <= ceil(log2(clients))

    def of(operation: str) -> tuple[int, int]:
        outcome = simulate(shape, limits, Case(operation, 8), driver(shape, limits))
        return outcome.messages, outcome.hops

    assert of("barrier") == (2 * (clients - 1), 2 * hops)
    assert of("bcast") == (clients - 1, hops)
    assert of("reduce") == (clients - 1, hops)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_ring_ends_after_all_its_hops(n: int) -> None:
    shape = spread(n, n, 1)
    outcome = simulate(
        shape, Limits(), Case("scan", 8), Driver(shape, network(combine=0))
    )
    assert outcome.time == (n - 1) * hop(128 + 8)
    assert outcome.hops == outcome.messages == n - 1


@pytest.mark.parametrize("topology", ["1x1+1x1", "1x3+1x3"])
@pytest.mark.parametrize("native", [True, False])
def test_a_call_costs_its_own_time_before_all_messages(
    topology: str, native: bool
) -> None:
    shape, case = parse_shape(topology), Case("allreduce", 8, native=native)
    times = [
        simulate(shape, Limits(), case, Driver(shape, network(call=call))).time
        for call in (0, 7 * US)
    ]
    assert times[1] == times[0] + 7 * US


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_flat_broadcast_is_as_long_as_the_root_sends(n: int) -> None:
    """Barchet-Estefanel and Mounie: (P - 1) g(m) + L, where o_s is the gap."""
    shape, limits = spread(n, n, 1), Limits(maxlinear=n)
    outcome = simulate(shape, limits, Case("bcast", 8), driver(shape, limits))
    assert outcome.time == (n - 2) * 5 * US + hop(128 + 8)


def test_a_flat_broadcast_of_much_is_as_long_as_the_link_is_busy() -> None:
    shape, limits, size = spread(5, 5, 1), Limits(maxlinear=5), 100_000
    outcome = simulate(shape, limits, Case("bcast", size), driver(shape, limits))
    assert outcome.time == 3 * (128 + size) * 1000 + hop(128 + size)
    assert outcome.busiest_link == 4 * (128 + size) * 1000


def test_deadlock_is_an_assertion() -> None:
    def wait(rank: int) -> Iterator[Any]:
        yield [Recv(1 - rank, 7)]

    with pytest.raises(Deadlock, match="2 processes wait for ever, among them 0, 1"):
        driver(parse_shape("1x1+1x1")).run(wait)  # type: ignore[arg-type]


def test_a_root_that_finds_everything_there_goes_on_without_an_end_of_its_stack() -> (
    None
):
    shape = spread(10_000, 2, 32)
    outcome = simulate(shape, Limits(), Case("reduce-ordered", 8), driver(shape))
    assert outcome.messages == 5_000
