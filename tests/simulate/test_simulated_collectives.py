"""Collectives in virtual time: counts, ends, and agreement of the two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, log2
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import LIMITS, SHAPES, US, driver, facts, network

from impi.collectives import Recv, Send
from impi.decisions import Decisions, Rule
from impi.errors import UsageError
from impi.options import HOSTS
from impi.simulate.agreed_algorithms import CHOICES, Choices, parse_choices
from impi.simulate.catalogue import OPERATIONS, Case, check_size, simulate
from impi.simulate.clock import Clock, Workers
from impi.simulate.drive import Deadlock, Driver
from impi.simulate.fabric import Links
from impi.simulate.network import Tier
from impi.simulate.shape import Limits, Shape, parse_shape, spread
from impi.simulate.values import Extent, nbytes

CHOSEN = st.lists(st.sampled_from([*CHOICES, "bcast=chain/24", "bcast=flat/64", "allreduce=elimination/100"])).map(
    lambda names: parse_choices(",".join(names))
)
SIZES = st.sampled_from([0, 8, 65, 500])
CASES = st.builds(Case, st.sampled_from(sorted(OPERATIONS)), SIZES, native=st.booleans(), chosen=CHOSEN)
HOP = 5 * US + 50 * US + 5 * US


def hop(octets: int) -> int:
    """o_s + m/B + L + o_r on the network of the tests: a nanosecond for each octet."""
    return HOP + octets * 1000


@settings(deadline=None, max_examples=150)
@given(SHAPES, LIMITS, CASES, st.sampled_from(HOSTS), st.data())
def test_the_counted_packets_are_those_of_the_transfer_machine(
    shape: Shape, limits: Limits, case: Case, kind: Any, data: st.DataObject
) -> None:
    case = replace(case, root=data.draw(st.integers(0, shape.size - 1)))
    real = simulate(shape, limits, case, driver(shape, limits, transport="packets", kind=kind, shared=False))
    counted = simulate(shape, limits, case, driver(shape, limits, kind=kind))
    assert facts(real) == facts(counted)


@settings(deadline=None, max_examples=150)
@given(SHAPES, LIMITS, CASES, st.data())
def test_one_for_many_is_the_same_as_each_for_itself(
    shape: Shape, limits: Limits, case: Case, data: st.DataObject
) -> None:
    case = replace(case, root=data.draw(st.integers(0, shape.size - 1)))
    alone, together = (simulate(shape, limits, case, driver(shape, limits, shared=shared)) for shared in (False, True))
    assert facts(alone) == facts(together)
    ends = dict(alone.ends)
    assert all(ends[rank] == end for rank, end in together.ends)


@settings(deadline=None, max_examples=60)
@given(SHAPES, LIMITS, CASES)
def test_a_run_is_the_same_every_time(shape: Shape, limits: Limits, case: Case) -> None:
    first, second = (simulate(shape, limits, case, driver(shape, limits)) for _ in range(2))
    assert facts(first) == facts(second)
    assert first.ends == second.ends and first.events == second.events


@settings(deadline=None, max_examples=60)
@given(SHAPES, LIMITS, SIZES, st.booleans(), CHOSEN)
def test_everybody_has_what_is_due(shape: Shape, limits: Limits, size: int, native: bool, chosen: Choices) -> None:
    def results(operation: str) -> dict[int, Any]:
        case = Case(operation, size, native=native, chosen=chosen)
        return simulate(shape, limits, case, driver(shape, limits, shared=False)).results

    n = shape.size
    assert all(nbytes(value) == size for value in results("bcast").values())
    assert all(nbytes(value) == size for value in results("allreduce").values())
    assert all(nbytes(value) == size for value in results("reduce_scatter").values())
    assert all(nbytes(value) == size for value in results("scatter").values())
    assert {rank: None if pieces is None else len(pieces) for rank, pieces in results("gather").items()} == {
        rank: n if rank == 0 else None for rank in range(n)
    }
    assert all([nbytes(p) for p in pieces] == [size] * n for pieces in results("allgather").values())


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


@pytest.mark.parametrize(
    ("choice", "messages", "hops", "packets"),
    [
        ("scatter=specification", 16 - 2, 1, 14),
        ("scatter=masters", 7, 1, 7),
        ("scatter=flat", 7, 1, 7),
        ("scatter=chain", 7, 7, 7),
        ("scatter=binomial", 7, 3, 7),
        ("bcast=flat", 7, 1, 7),
        ("bcast=chain", 7, 7, 7),
        ("bcast=chain/3", 7 * 3, 7, 21),
        ("bcast=binomial", 7, 3, 7),
        ("reduce=flat", 7, 1, 7),
        ("reduce=binomial", 7, 3, 7),
        ("allreduce=elimination/8", 8 * 3, 3, 24),
        ("allreduce=flat", 14, 2, 14),
        ("reduce=reproducible", 7, 3, 7),
        ("alltoall=masters", 56, 1, 56),
    ],
)
def test_what_is_chosen_is_simulated(choice: str, messages: int, hops: int, packets: int) -> None:
    shape, operation = spread(16, 8, 2), choice.partition("=")[0]
    case = Case(operation, 8, chosen=parse_choices(choice))
    outcome = simulate(shape, Limits(), case, driver(shape))
    assert (outcome.messages, outcome.hops, outcome.packets) == (messages, hops, packets)
    expected = "" if choice.endswith("specification") else choice.partition("=")[2]
    assert case.algorithm(8) == expected


def test_a_table_decides_what_the_list_does_not() -> None:
    table = Decisions.of({"bcast": (Rule("chain", octets=64), Rule("flat")), "reduce": (Rule("binomial"),)})
    chosen = parse_choices("reduce=flat,scatter=masters,scatter=masters", table)
    assert [chosen.algorithm("bcast", 4, octets) for octets in (64, 65)] == ["chain", "flat"]
    assert chosen.algorithm("reduce", 4, 8) == "flat" and chosen.collectives == ("scatter=masters",)
    assert chosen.algorithm("bcast", 1, 8) == chosen.algorithm("gather", 4, 8) == ""


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_ring_ends_after_all_its_hops(n: int) -> None:
    shape = spread(n, n, 1)
    outcome = simulate(shape, Limits(), Case("scan", 8), Driver(shape, network(combine=0)))
    assert outcome.time == (n - 1) * hop(128 + 8)
    assert outcome.hops == outcome.messages == n - 1


@pytest.mark.parametrize("topology", ["1x1+1x1", "1x3+1x3"])
@pytest.mark.parametrize("native", [True, False])
def test_a_call_costs_its_own_time_before_all_messages(topology: str, native: bool) -> None:
    shape, case = parse_shape(topology), Case("allreduce", 8, native=native)
    times = [simulate(shape, Limits(), case, Driver(shape, network(call=call))).time for call in (0, 7 * US)]
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


def test_a_long_message_takes_a_round_trip_more() -> None:
    """DATASYNC, SYNCACK, DATA (IMPI 3.7.2)."""
    shape, limits = parse_shape("1x1+1x1"), Limits(datalen=1000)
    outcome = simulate(shape, limits, Case("bcast", 1500), driver(shape, limits))
    assert outcome.time == hop(1128) + hop(128) + hop(628)
    assert outcome.wide == {(0, 1): (2, 1756), (1, 0): (1, 128)}


def test_agents_take_a_turn_at_either_end() -> None:
    shape = parse_shape("1x2+1x2")
    at = {kind: simulate(shape, Limits(), Case("bcast", 8), driver(shape, kind=kind)).time for kind in HOSTS}
    assert at["node"] - at["proc"] == 2 * (US + US)  # the way there, and its turn


def test_deadlock_is_an_assertion() -> None:
    def wait(rank: int) -> Iterator[Any]:
        yield [Recv(1 - rank, 7)]

    with pytest.raises(Deadlock, match="2 processes wait for ever, among them 0, 1"):
        driver(parse_shape("1x1+1x1")).run(wait)  # type: ignore[arg-type]


@pytest.mark.parametrize("transport", ["counted", "packets"])
@pytest.mark.parametrize("shape", ["1x1+1x1", "1x2"])
def test_what_nobody_receives_is_an_assertion(shape: str, transport: Any) -> None:
    def shout(rank: int) -> Iterator[Any]:
        if rank == 0:
            yield [Send(1, Extent(8), 7)]

    with pytest.raises(Deadlock, match="1 messages were sent and never received"):
        driver(parse_shape(shape), transport=transport).run(shout)  # type: ignore[arg-type]


def test_a_root_that_finds_everything_there_goes_on_without_an_end_of_its_stack() -> None:
    shape = spread(10_000, 2, 32)
    outcome = simulate(shape, Limits(), Case("reduce-ordered", 8), driver(shape))
    assert outcome.messages == 5_000


def test_a_hundred_thousand_processes() -> None:
    shape = spread(100_000, 32, 32)
    outcome = simulate(shape, Limits(), Case("allreduce", 8), driver(shape))
    assert (outcome.messages, outcome.hops, outcome.phases) == (62, 10, 64)


def test_what_is_too_large_or_wrong_is_said() -> None:
    large, small = spread(100_000, 2, 32), spread(4, 2, 2)
    with pytest.raises(UsageError, match="alltoall among 100000 processes is 9999900000 messages"):
        check_size(large, Limits(), Case("alltoall", 8))
    with pytest.raises(UsageError, match="--local library"):
        check_size(large, Limits(), Case("gather", 8, native=False))
    with pytest.raises(UsageError, match=r"root 4 is not in 0\.\.3"):
        check_size(small, Limits(), Case("bcast", 8, root=4))
    with pytest.raises(UsageError, match="bcast of 1099511627776 octets among 4 processes is some 8388608 packets"):
        check_size(small, Limits(), Case("bcast", 1 << 40))
    with pytest.raises(UsageError, match=r"chain bcast of 1073741824 octets .* give --size up to 536870912"):
        check_size(small, Limits(), Case("bcast", 1 << 30, chosen=parse_choices("bcast=chain/1M")))
    for make in (
        lambda: spread(10**14, 32, 32),
        lambda: parse_shape("999999x999999"),
        lambda: parse_shape("1x999999+1x2"),
    ):
        with pytest.raises(UsageError, match="more than can be simulated; give at most 1000000"):
            make()
    with pytest.raises(UsageError, match="100000 processes are too many; 512 can be"):
        driver(large, transport="packets")
    for clients, procs in ((33, 100), (3, 2)):
        with pytest.raises(UsageError):
            spread(procs, clients, 32)
    with pytest.raises(UsageError, match="'2y2' is not NODESxPROCS"):
        parse_shape("2x2+2y2")


def test_a_worker_does_one_thing_after_another_on_a_core_of_its_node() -> None:
    def ends(cores: int) -> list[tuple[str, int]]:
        clock, done = Clock(), list[tuple[str, int]]()
        workers = Workers(clock, [0, 0, 1], cores)
        for worker, name in ((0, "a"), (0, "b"), (1, "c"), (2, "d")):
            workers.do(worker, 10, lambda name=name: done.append((name, clock.now)))
        clock.run()
        return sorted(done)

    assert ends(0) == ends(2) == [("a", 10), ("b", 20), ("c", 10), ("d", 10)]
    assert ends(1) == [("a", 10), ("b", 20), ("c", 30), ("d", 10)]


def test_a_link_is_busy_at_both_ends() -> None:
    clock, done = Clock(), list[tuple[str, int]]()
    links = Links(clock, Tier(latency=5, bandwidth=10**12, send=0, receive=0), 3)
    for source, name in ((0, "a"), (1, "b"), (0, "c")):
        links.carry(source, 2, 10, lambda name=name: done.append((name, clock.now)))
    clock.run()
    assert done == [("a", 15), ("b", 25), ("c", 35)]
    assert links.busy == [20, 10, 0]
