"""Algorithms of a simulated job's collectives, by impirun's ``--collectives`` and ``--tuning``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from impi.base.errors import UsageError
from impi.base.units import parse_size
from impi.protocol.decisions import ALGORITHMS, Decisions, Rule
from impi.protocol.job import ALTERNATIVES, REPRODUCIBLE

CHOICES: Final = (
    *(name for name in ALTERNATIVES if not name.startswith("allgatherv=")),
    *(
        f"{operation}={name}"
        for operation, names in ALGORITHMS.items()
        for name in names
    ),
)
"""The algorithms to choose from; those of Allgatherv are not simulated."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The algorithms that a job's clients have agreed on."""

    collectives: tuple[str, ...] = ()  # names of impi.protocol.job.ALTERNATIVES
    decisions: Decisions | None = None

    def rule(self, operation: str, clients: int, octets: int) -> Rule | None:
        """Return the rule for a number of clients and octets; None: IMPI's own algorithm."""
        return (
            None
            if self.decisions is None or clients == 1
            else self.decisions.choose(operation, clients, octets)
        )

    def algorithm(self, operation: str, clients: int, octets: int) -> str:
        """Return the name of the chosen algorithm, with its segment; empty: none was chosen."""

        reductions = ("reduce", "reduce-ordered", "allreduce", "reduce_scatter")
        if REPRODUCIBLE in self.collectives and operation in reductions:
            return "reproducible"

        if (rule := self.rule(operation, clients, octets)) is not None:
            return (
                f"{rule.algorithm}/{rule.segment}" if rule.segment else rule.algorithm
            )

        return "masters" if f"{operation}=masters" in self.collectives else ""


SPECIFIED: Final = Choices()
"""No choice: IMPI's own algorithms."""


def parse_choices(text: str, tuning: Decisions | None = None) -> Choices:
    """Parse a list of :data:`CHOICES` such as ``scatter=masters,bcast=chain/64K``.

    Args:
        text: the list; a slash begins a segment's size.
        tuning: a table for operations that the list lacks.

    Raises:
        UsageError: an algorithm is unknown or not simulated.
    """

    collectives: list[str] = []

    rules: dict[str, tuple[Rule, ...]] = {} if tuning is None else dict(tuning.rules)
    for item in filter(None, text.split(",")):
        name, slash, segment = item.strip().partition("/")
        if name not in CHOICES:
            raise UsageError(
                f"there is no {name!r} to simulate; the choices are {', '.join(CHOICES)}"
            )

        operation, _, algorithm = name.partition("=")
        if name not in ALTERNATIVES:
            rules[operation] = (
                Rule(algorithm, segment=parse_size(segment) if slash else 0),
            )
        elif slash:
            raise UsageError(f"{item!r}: {name} has no segment; write {name}")
        else:
            collectives.append(name)

    return Choices(
        tuple(dict.fromkeys(collectives)), Decisions.of(rules) if rules else None
    )
