"""Which algorithms of collectives a simulated job has agreed on, as by impirun's ``--collectives`` and ``--tuning``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from impi.decisions import ALGORITHMS, Decisions, Rule
from impi.errors import UsageError
from impi.job import ALTERNATIVES, REPRODUCIBLE
from impi.units import parse_size

__all__ = ["CHOICES", "SPECIFIED", "Choices", "parse_choices"]

CHOICES: Final = (
    *(name for name in ALTERNATIVES if not name.startswith("allgatherv=")),
    *(f"{operation}={name}" for operation, names in ALGORITHMS.items() for name in names),
)
"""What can be chosen. Allgatherv is not simulated."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a job's clients have agreed on."""

    collectives: tuple[str, ...] = ()
    """Of :data:`impi.job.ALTERNATIVES`."""
    decisions: Decisions | None = None

    def rule(self, operation: str, clients: int, octets: int) -> Rule | None:
        """What is decided for so many clients and octets; None where it is the specification's own."""
        return None if self.decisions is None or clients == 1 else self.decisions.choose(operation, clients, octets)

    def algorithm(self, operation: str, clients: int, octets: int) -> str:
        """The name of what is chosen, with its segment; "" where nothing is."""
        reductions = ("reduce", "reduce-ordered", "allreduce", "reduce_scatter")
        if REPRODUCIBLE in self.collectives and operation in reductions:
            return "reproducible"
        if (rule := self.rule(operation, clients, octets)) is not None:
            return f"{rule.algorithm}/{rule.segment}" if rule.segment else rule.algorithm
        return "masters" if f"{operation}=masters" in self.collectives else ""


SPECIFIED: Final = Choices()
"""Where nobody chose anything."""


def parse_choices(text: str, tuning: Decisions | None = None) -> Choices:
    """``scatter=masters,bcast=chain/64K``: of :data:`CHOICES`; behind a slash the ``segment`` of a decision.

    Args:
        text: the list.
        tuning: a table that decides what the list does not.

    Raises:
        UsageError: there is no such algorithm, or it is not simulated.
    """
    collectives: list[str] = []
    rules: dict[str, tuple[Rule, ...]] = {} if tuning is None else dict(tuning.rules)
    for item in filter(None, text.split(",")):
        name, slash, segment = item.strip().partition("/")
        if name not in CHOICES:
            raise UsageError(f"there is no {name!r} to simulate; the choices are {', '.join(CHOICES)}")
        operation, _, algorithm = name.partition("=")
        if name not in ALTERNATIVES:
            rules[operation] = (Rule(algorithm, segment=parse_size(segment) if slash else 0),)
        elif slash:
            raise UsageError(f"{item!r}: {name} has no segment; write {name}")
        else:
            collectives.append(name)
    return Choices(tuple(dict.fromkeys(collectives)), _table(rules))


def _table(rules: Mapping[str, tuple[Rule, ...]]) -> Decisions | None:
    return Decisions.of(rules) if rules else None
