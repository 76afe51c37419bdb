"""Make a table of decisions from the models."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from impi.protocol.decisions import ALGORITHMS, SPECIFICATION, Decisions, Rule
from impi.protocol.startup.facts import MAX_CLIENTS
from impi.tools.tune.models import predict
from impi.tools.tune.plogp import Parameters

# Most clients for each column of decisions
_CLIENTS: Final = (2, 3, 4, 5, 6, 8, 12, 16, 24, MAX_CLIENTS)
_OCTETS: Final = tuple(1 << bits for bits in range(0, 27, 2))
# Segments of a broadcast: shorter ones pay for each message, longer ones leave nothing to overlap.
_SEGMENTS: Final = tuple(1 << bits for bits in range(12, 21, 2))
_THRESHOLDS: Final = tuple(1 << bits for bits in range(6, 23, 2))
_CUT: Final = {"bcast": _SEGMENTS, "reduce": _THRESHOLDS, "allreduce": _THRESHOLDS}


def candidates(operation: str, octets: int) -> Iterator[Rule]:
    """Yield the rules for a message of a size; an elimination's with each end of its halving."""
    for algorithm in ALGORITHMS[operation]:
        if algorithm == SPECIFICATION:
            continue

        yield Rule(algorithm)
        if operation == "bcast" or algorithm == "elimination":
            yield from (
                Rule(algorithm, segment=segment)
                for segment in _CUT[operation]
                if segment < octets
            )
            if algorithm == "elimination":
                yield Rule(algorithm, segment=_THRESHOLDS[-1])


def best(
    parameters: Parameters,
    operation: str,
    clients: int,
    octets: int,
    algorithm: str = "",
) -> Rule:
    """Return the rule with the least predicted time; on a tie the first one.

    Args:
        parameters: the network.
        operation: the collective.
        clients: number of clients.
        octets: size of the message.
        algorithm: consider this algorithm only; empty: all.
    """
    rules = (
        rule
        for rule in candidates(operation, octets)
        if algorithm in ("", rule.algorithm)
    )
    return min(
        rules, key=lambda rule: predict(parameters, operation, rule, clients, octets)
    )


def decide(parameters: Parameters) -> Decisions:
    """Return the table that the models recommend, for any size and number of clients."""
    return Decisions.of(
        {operation: tuple(_rules(parameters, operation)) for operation in ALGORITHMS}
    )


def _rules(parameters: Parameters, operation: str) -> Iterator[Rule]:
    columns = [
        (clients, _column(parameters, operation, clients)) for clients in _CLIENTS
    ]
    # Numbers of clients with equal decisions become one limit.
    for column, several in groupby(columns, key=lambda item: item[1]):
        limit = [clients for clients, _ in several][-1]
        for rule in column:
            most = None if limit == _CLIENTS[-1] else limit
            yield Rule(rule.algorithm, most, rule.octets, rule.segment)


def _column(parameters: Parameters, operation: str, clients: int) -> tuple[Rule, ...]:
    """Return the decisions for a number of clients; the last one holds for all longer messages."""

    chosen = [
        (octets, best(parameters, operation, clients, octets)) for octets in _OCTETS
    ]

    found = []
    # Sizes with one decision become one rule, up to the largest of them.
    for rule, several in groupby(chosen, key=lambda item: item[1]):
        limit = [octets for octets, _ in several][-1]
        found.append(
            Rule(
                rule.algorithm,
                None,
                None if limit == _OCTETS[-1] else limit,
                rule.segment,
            )
        )

    return tuple(found)
