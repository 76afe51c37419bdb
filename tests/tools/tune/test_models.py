"""The formulas against the papers' numbers, and the table that follows from them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

import pytest

from impi.protocol.decisions import ALGORITHMS, SPECIFICATION, Rule
from impi.tools.tune.models import MODELS, predict
from impi.tools.tune.plogp import Curve, Parameters


def linear(
    alpha: float, beta: float, gamma: float = 0.0, per_message: float = 0.0
) -> Parameters:
    gap = Curve(((0, per_message), (1000, per_message + 1000 * beta)))
    return Parameters(latency=alpha, send=gap, receive=gap, gap=gap, combine=gamma)


NET = linear(100.0, 1.0, 0.5, 10.0)
"""L = 100, g(m) = 10 + m, half a unit to combine an octet."""


@pytest.mark.parametrize(
    ("operation", "rule", "clients", "octets", "seconds"),
    [
        ("bcast", Rule("flat"), 5, 40, 4 * 50 + 100),
        ("bcast", Rule("flat", segment=20), 5, 40, 4 * (30 * 2) + 100),
        ("bcast", Rule("chain"), 5, 40, 4 * (50 + 100)),
        ("bcast", Rule("chain", segment=20), 5, 50, 4 * (30 + 100) + 30 * 2),
        ("bcast", Rule("chain", segment=50), 5, 50, 4 * (60 + 100)),
        ("bcast", Rule("binomial"), 5, 40, 2 * 50 + 3 * 100),
        ("bcast", Rule("binomial", segment=20), 8, 40, 3 * 30 * 2 + 3 * 100),
        ("scatter", Rule("flat"), 5, 40, 4 * 50 + 100),
        ("scatter", Rule("chain"), 4, 40, (10 + 40) + (10 + 80) + (10 + 120) + 3 * 100),
        (
            "scatter",
            Rule("binomial"),
            5,
            40,
            (10 + 40) + (10 + 80) + (10 + 160) + 3 * 100,
        ),
        ("reduce", Rule("flat"), 5, 40, 4 * (50 + 20) + 100),
        ("reduce", Rule("binomial"), 5, 40, 3 * (50 + 100 + 20)),
        ("allreduce", Rule("binomial"), 4, 40, 2 * (50 + 100 + 20) + 2 * 50 + 2 * 100),
        ("bcast", Rule("flat"), 1, 40, 0.0),
        ("barrier", Rule("exchange"), 5, 0, 3 * (10 + 100)),
        (
            "allgather",
            Rule("exchange"),
            5,
            40,
            (10 + 40) + (10 + 80) + (10 + 40) + 3 * 100,
        ),
    ],
)
def test_the_formulas(
    operation: str, rule: Rule, clients: int, octets: int, seconds: float
) -> None:
    assert predict(NET, operation, rule, clients, octets) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("operation", "algorithm", "clients", "hops"),
    [
        ("bcast", "flat", 5, 1),
        ("bcast", "chain", 5, 4),
        ("bcast", "binomial", 5, 3),
        ("scatter", "flat", 5, 1),
        ("scatter", "chain", 5, 4),
        ("scatter", "binomial", 5, 3),
        ("reduce", "flat", 5, 1),
        ("reduce", "binomial", 5, 3),
        ("reduce", "elimination", 4, 4),
        ("allreduce", "flat", 5, 2),
        ("allreduce", "elimination", 4, 4),
        ("barrier", "exchange", 5, 3),
        ("allgather", "exchange", 5, 3),
    ],
)
def test_every_hop_has_what_the_call_adds(
    operation: str, algorithm: str, clients: int, hops: int
) -> None:
    one, other = (
        predict(net, operation, Rule(algorithm), clients, 40)
        for net in (NET, replace(NET, call=1000.0))
    )
    assert other - one == pytest.approx(hops * 1000.0)


@pytest.mark.parametrize("p", range(3, 33, 2))
def test_eliminations_among_odd_numbers(p: int) -> None:
    """3.5 of Rabenseifner and Traeff, for small and for large buffers."""
    alpha, beta, gamma, m = 1000.0, 2.0, 3.0, 1 << 20
    net = linear(alpha, beta, gamma)
    up, power = ceil(log2(p)), 1 << (p.bit_length() - 1)
    small = (1 + up) * alpha + m * (1 + up) * beta + m * up * gamma
    assert predict(
        net, "allreduce", Rule("elimination", segment=m), p, m
    ) == pytest.approx(small)
    share = 1.5 - 1 / power
    large = 2 * up * alpha + 2 * m * share * beta + m * share * gamma
    assert predict(net, "allreduce", Rule("elimination"), p, m) == pytest.approx(large)


@pytest.mark.parametrize("p", [2, 4, 8, 16, 32])
def test_eliminations_among_powers_of_two(p: int) -> None:
    alpha, beta, gamma, m = 1000.0, 2.0, 3.0, 1 << 20
    net = linear(alpha, beta, gamma)
    small = log2(p) * (alpha + m * beta + m * gamma)
    assert predict(
        net, "allreduce", Rule("elimination", segment=m), p, m
    ) == pytest.approx(small)
    share = 1 - 1 / p
    large = 2 * log2(p) * alpha + 2 * m * share * beta + m * share * gamma
    assert predict(net, "allreduce", Rule("elimination"), p, m) == pytest.approx(large)


def test_every_algorithm_has_a_model() -> None:
    known = {
        (o, a)
        for o, several in ALGORITHMS.items()
        for a in several
        if a != SPECIFICATION
    }
    assert set(MODELS) == known
