"""Phases of libraries in closed form: how long each lasts, and what it gives to whom."""

from __future__ import annotations

import pytest
from simulate_world import network

from impi.protocol.collectives import Local
from impi.tools.simulate.model.local_phases import Phase, phase_times, phase_values
from impi.tools.simulate.model.values import Extent, Same

NET = network(combine=10**12)
HOP = NET.local.hop(0)
"""A microsecond, whatever the size: the network of the tests copies for nothing."""


@pytest.mark.parametrize(
    ("what", "value", "phase"),
    [
        ("bcast", Extent(8), Phase(others=100 + 3 * HOP, root=100)),
        ("gather", Extent(8), Phase(others=0, root=500 + 3 * HOP)),
        ("scatter", Same(Extent(8), 5), Phase(others=100 + 3 * HOP, root=100)),
        ("reduce", Extent(8), Phase(others=0, root=500 + 3 * (HOP + 8))),
        ("barrier", None, Phase(500 + 3 * HOP, 500 + 3 * HOP)),
        ("allreduce", Extent(8), Phase(500 + 3 * (HOP + 8), 500 + 3 * (HOP + 8))),
        ("allgather", Extent(8), Phase(500 + 3 * HOP, 500 + 3 * HOP)),
        ("alltoall", Same(Extent(8), 5), Phase(500 + 4 * HOP, 500 + 4 * HOP)),
    ],
)
def test_trees_of_five_have_three_levels(
    what: str, value: object, phase: Phase
) -> None:
    step = Local(what, 0, value)  # type: ignore[arg-type]
    assert phase_times(step, 5, last=500, root=100, network=NET) == phase


def test_a_phase_of_one_process_takes_no_time() -> None:
    assert phase_times(Local("allreduce", 0, Extent(8)), 1, 500, 500, NET) == Phase(
        500, 500
    )


def test_results_are_everybodys_or_the_roots() -> None:
    def of(what: str, value: object) -> object:
        steps = {rank: Local(what, 1, value) for rank in (0, 1)}  # type: ignore[arg-type]
        return dict(phase_values(steps, 4))

    one = Extent(8)
    assert of("bcast", one) == {0: one, 1: one}
    assert of("reduce", one) == {0: None, 1: one}
    assert of("gather", one) == {0: None, 1: [one] * 4}
    assert of("allgather", one) == {0: [one] * 4, 1: [one] * 4}
    assert of("barrier", None) == {0: None, 1: None}
    assert of("scatter", [one, one]) == {0: one, 1: one}
    assert of("alltoall", [one, one]) == {0: [one] * 4, 1: [one] * 4}
