"""Decisions that follow from the formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.protocol.decisions import ALGORITHMS, Rule
from impi.tools.tune.choice import best, candidates, decide
from impi.tools.tune.models import predict
from impi.tools.tune.plogp import Curve, Parameters


def linear(
    alpha: float, beta: float, gamma: float = 0.0, per_message: float = 0.0
) -> Parameters:
    gap = Curve(((0, per_message), (1000, per_message + 1000 * beta)))
    return Parameters(latency=alpha, send=gap, receive=gap, gap=gap, combine=gamma)


def test_calls_that_cost_more_than_messages_make_flat_broadcasts() -> None:
    net = linear(1e-6, 1e-9, 0.0, 8e-6)
    assert best(net, "bcast", 4, 64).algorithm == "binomial"
    assert best(replace(net, call=50e-6), "bcast", 4, 64).algorithm == "flat"


networks = st.builds(
    linear,
    st.floats(0, 1e-2),
    st.floats(1e-12, 1e-7),
    st.floats(0, 1e-8),
    st.floats(1e-7, 1e-3),
)


@settings(max_examples=30, deadline=None)
@given(
    networks,
    st.sampled_from(sorted(ALGORITHMS)),
    st.integers(2, 32),
    st.sampled_from([1, 256, 65536, 1 << 26]),
)
def test_the_table_has_the_best_of_its_grid(
    net: Parameters, operation: str, clients: int, octets: int
) -> None:
    table = decide(net)
    column = next(c for c in (2, 3, 4, 5, 6, 8, 12, 16, 24, 32) if clients <= c)
    chosen = table.choose(operation, clients, octets)
    assert chosen is not None
    least = min(
        predict(net, operation, rule, column, octets)
        for rule in candidates(operation, octets)
    )
    plain = Rule(chosen.algorithm, segment=chosen.segment)
    assert predict(net, operation, plain, column, octets) == pytest.approx(least)
    assert table.choose(operation, 33, 1 << 40) == table.choose(
        operation, 32, 1 << 26
    ), "what is beyond is the last"


def test_long_messages_go_in_segments_along_a_chain_where_latency_is_small() -> None:
    """The paper found that, too."""
    rule = best(linear(1e-6, 1e-8, 0.0, 1e-6), "bcast", 32, 1 << 24)
    assert (rule.algorithm, rule.segment > 0) == ("chain", True)
    assert best(linear(1e-2, 1e-9, 0.0, 1e-6), "bcast", 32, 1).algorithm == "flat"


def test_long_vectors_are_halved_and_short_ones_are_not() -> None:
    net = linear(1e-5, 1e-8, 1e-9, 1e-5)
    long = best(net, "allreduce", 7, 1 << 24)
    assert (long.algorithm, long.segment < 1 << 20) == ("elimination", True)
    assert best(net, "allreduce", 8, 8, "elimination").segment >= 8
