"""Barrier and allgather in which masters speak at once: results, order, messages, hops."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2

import chapter4
import pytest
from collective_world import World, run

from impi.base.errors import PeerError
from impi.protocol.collectives import (
    Fixed,
    Layout,
    Packing,
    Prefixed,
    Recv,
    Send,
    allgather_by_exchange,
    barrier_by_exchange,
)
from impi.protocol.collectives.teams import rounds

native = pytest.mark.parametrize("native", [False, True], ids=["messages", "library"])


@pytest.mark.parametrize("n", range(1, 40))
def test_rounds_bring_each_block_once(n: int) -> None:
    found = list(rounds(n))
    assert len(found) == (ceil(log2(n)) if n > 1 else 0)
    assert 1 + sum(number for _, number in found) == n


@pytest.mark.parametrize("size", range(1, 10))
@native
def test_a_barrier_has_a_message_a_round_and_master(size: int, native: bool) -> None:
    for seed, clients in enumerate(chapter4.layouts(size)):
        layout = Layout(clients)
        outcome = run(
            [barrier_by_exchange(layout, r, native=native) for r in range(size)],
            seed,
            clients=clients,
        )
        n = layout.num_masters()
        masters = [layout.master_rank(m) for m in range(n)]
        wanted = Counter(
            (masters[m], masters[(m - distance) % n], b"")
            for m in range(n)
            for distance, _ in rounds(n)
        )
        assert (
            Counter((m.source, m.dest, m.value) for m in outcome.between(clients))
            == wanted
        ), clients


@pytest.mark.parametrize("size", range(2, 10))
@native
def test_nobody_leaves_a_barrier_before_the_last_has_come(
    size: int, native: bool
) -> None:
    for clients in chapter4.layouts(size):
        for late in range(size):
            layout = Layout(clients)
            procs = [barrier_by_exchange(layout, r, native=native) for r in range(size)]
            world = World(procs, late, synchronous=False, clients=clients)
            world.procs[late].open_steps = 1  # it is still busy with something else
            while events := world.possible():
                world.play(events[0])
            assert not any(p.finished for p in world.procs), (clients, late)
            world.procs[late].open_steps = 0
            world.run()


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("packing", [Fixed(3), Prefixed()], ids=["fixed", "prefixed"])
@native
def test_an_allgather_gives_all_pieces_by_rank(
    size: int, packing: Packing, native: bool
) -> None:
    fixed = isinstance(packing, Fixed)
    pieces = [bytes([65 + r]) * (3 if fixed else r) for r in range(size)]
    for seed, clients in enumerate(chapter4.layouts(size)):
        layout = Layout(clients)
        outcome = run(
            [
                allgather_by_exchange(layout, r, pieces[r], packing, native=native)
                for r in range(size)
            ],
            seed,
            clients=clients,
        )
        assert [list(map(bytes, found)) for found in outcome.results] == [
            pieces
        ] * size, clients
        n = layout.num_masters()
        crossing = Counter(m.source for m in outcome.between(clients))
        assert crossing == Counter(
            {layout.master_rank(m): len(list(rounds(n))) for m in range(n) if n > 1}
        )


def test_what_two_processes_give_may_arrive_in_its_place() -> None:
    layout = Layout([0, 1])
    for rank in (0, 1):
        algorithm = allgather_by_exchange(layout, rank, b"abc", Fixed(3))
        [receive, send] = next(algorithm)
        assert isinstance(receive, Recv)
        assert isinstance(send, Send)
        assert (receive.part, send.dest) == ((3 * (1 - rank), 3), 1 - rank)
        with pytest.raises(StopIteration) as end:
            algorithm.send([None])
        assert end.value.value == ([None, b"abc"] if rank else [b"abc", None])


def test_a_piece_of_another_size_is_an_error_of_the_peer() -> None:
    algorithm = allgather_by_exchange(Layout([0, 1]), 0, b"abc", Fixed(3))
    next(algorithm)
    with pytest.raises(PeerError, match="counts and types must agree"):
        algorithm.send([b"abcd"])
