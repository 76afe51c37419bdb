"""Barrier: nobody leaves before all have come, and what goes between clients (4.10)."""

from __future__ import annotations

from collections import Counter

import chapter4
import pytest
from collective_world import World, run

from impi.protocol.collectives import Layout, barrier

native = pytest.mark.parametrize("native", [False, True], ids=["messages", "library"])


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("limit", [1, 32])
@native
def test_between_clients(size: int, limit: int, native: bool) -> None:
    for seed, clients in enumerate(chapter4.layouts(size)):
        layout = Layout(clients)
        procs = [
            barrier(layout, r, maxlinear=limit, native=native) for r in range(size)
        ]
        outcome = run(procs, seed, clients=clients)
        wire = Counter(
            (m.source, m.dest, m.tag, tuple(m.value)) for m in outcome.between(clients)
        )
        assert wire == Counter(chapter4.barrier(clients, limit)), clients


@pytest.mark.parametrize("size", range(2, 10))
@pytest.mark.parametrize("limit", [1, 32])
@native
def test_nobody_leaves_before_the_last_has_come(
    size: int, limit: int, native: bool
) -> None:
    for clients in chapter4.layouts(size):
        for late in range(size):
            layout = Layout(clients)
            procs = [
                barrier(layout, r, maxlinear=limit, native=native) for r in range(size)
            ]
            world = World(procs, late, synchronous=False, clients=clients)
            world.procs[late].open_steps = 1  # it is still busy with something else
            while events := world.possible():
                world.play(events[0])
            assert not any(p.finished for p in world.procs), (clients, late)
            world.procs[late].open_steps = 0
            world.run()


def test_the_limit_itself_is_linear() -> None:
    for nclients, linear in ((4, True), (5, False)):
        layout = Layout(range(nclients))
        outcome = run([barrier(layout, r, maxlinear=4) for r in range(nclients)], 0)
        assert all(0 in (m.source, m.dest) for m in outcome.sent) is linear
