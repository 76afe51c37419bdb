"""From models to a table of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from impi.decisions import ALGORITHMS, SPECIFICATION, Decisions, Rule
from impi.startup.facts import MAX_CLIENTS
from impi.tune.models import predict
from impi.tune.plogp import Parameters

__all__ = ["best", "candidates", "decide"]

_CLIENTS: Final = (2, 3, 4, 5, 6, 8, 12, 16, 24, MAX_CLIENTS)
"""Up to each of which one column of decisions holds."""
_OCTETS: Final = tuple(1 << bits for bits in range(0, 27, 2))
_SEGMENTS: Final = tuple(1 << bits for bits in range(12, 21, 2))
"""Of a broadcast: below, what each message costs beside its octets decides; above, there is nothing left to overlap."""
_THRESHOLDS: Final = tuple(1 << bits for bits in range(6, 23, 2))
_CUT: Final = {"bcast": _SEGMENTS, "reduce": _THRESHOLDS, "allreduce": _THRESHOLDS}


def candidates(operation: str, octets: int) -> Iterator[Rule]:
    """What can be decided for a message of that size; of an elimination also where to stop halving."""
    for algorithm in ALGORITHMS[operation]:
        if algorithm == SPECIFICATION:
            continue
        yield Rule(algorithm)
        if operation == "bcast" or algorithm == "elimination":
            yield from (Rule(algorithm, segment=segment) for segment in _CUT[operation] if segment < octets)
            if algorithm == "elimination":
                yield Rule(algorithm, segment=_THRESHOLDS[-1])


def best(parameters: Parameters, operation: str, clients: int, octets: int, algorithm: str = "") -> Rule:
    """The rule of the least predicted time; of one algorithm, if it is named. Equal ones: the first of the table's."""
    rules = (rule for rule in candidates(operation, octets) if algorithm in ("", rule.algorithm))
    return min(rules, key=lambda rule: predict(parameters, operation, rule, clients, octets))


def decide(parameters: Parameters) -> Decisions:
    """The table that the models recommend, for up to as many clients as a job can have, and any size."""
    return Decisions.of({operation: tuple(_rules(parameters, operation)) for operation in ALGORITHMS})


def _rules(parameters: Parameters, operation: str) -> Iterator[Rule]:
    columns = [(clients, _column(parameters, operation, clients)) for clients in _CLIENTS]
    for column, several in groupby(columns, key=lambda item: item[1]):
        limit = [clients for clients, _ in several][-1]
        for rule in column:
            most = None if limit == _CLIENTS[-1] else limit
            yield Rule(rule.algorithm, most, rule.octets, rule.segment)


def _column(parameters: Parameters, operation: str, clients: int) -> tuple[Rule, ...]:
    """The decisions for one number of clients; the last holds for all longer messages."""
    chosen = [(octets, best(parameters, operation, clients, octets)) for octets in _OCTETS]
    found = []
    for rule, several in groupby(chosen, key=lambda item: item[1]):
        limit = [octets for octets, _ in several][-1]
        found.append(Rule(rule.algorithm, None, None if limit == _OCTETS[-1] else limit, rule.segment))
    return tuple(found)
