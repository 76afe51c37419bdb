"""Algorithms by name, and by a table."""

from __future__ import annotations

import pytest
from simulate_world import driver

from impi.protocol.decisions import Decisions, Rule
from impi.tools.simulate.agreed_algorithms import parse_choices
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.model.shape import Limits, spread


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
def test_what_is_chosen_is_simulated(
    choice: str, messages: int, hops: int, packets: int
) -> None:
    shape, operation = spread(16, 8, 2), choice.partition("=")[0]
    case = Case(operation, 8, chosen=parse_choices(choice))
    outcome = simulate(shape, Limits(), case, driver(shape))
    assert (outcome.messages, outcome.hops, outcome.packets) == (
        messages,
        hops,
        packets,
    )
    expected = "" if choice.endswith("specification") else choice.partition("=")[2]
    assert case.algorithm(8) == expected


def test_a_table_decides_what_the_list_does_not() -> None:
    table = Decisions.of(
        {
            "bcast": (Rule("chain", octets=64), Rule("flat")),
            "reduce": (Rule("binomial"),),
        }
    )
    chosen = parse_choices("reduce=flat,scatter=masters,scatter=masters", table)
    assert [chosen.algorithm("bcast", 4, octets) for octets in (64, 65)] == [
        "chain",
        "flat",
    ]
    assert chosen.algorithm("reduce", 4, 8) == "flat" and chosen.collectives == (
        "scatter=masters",
    )
    assert chosen.algorithm("bcast", 1, 8) == chosen.algorithm("gather", 4, 8) == ""
