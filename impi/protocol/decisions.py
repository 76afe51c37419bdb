"""The masters' algorithms of collectives, where they differ from those of chapter 4.

How it works: a table has a list of rules for each operation, and the first rule whose limits hold
decides. A table of decisions is a fact of the job: every client must decide alike, so one text goes
to all of them at start-up (:mod:`impi.protocol.startup.choices`). A decision depends only on the
operation, the number of clients in the communicator and octets that every process knows. Where all
clients are ours and none has a table, :data:`USUAL` decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from impi.base.errors import UsageError
from impi.base.records import record

FORMAT: Final = "impi tuning 1"
"""The format name in the text; another number is another meaning."""

SPECIFICATION: Final = "specification"
"""The algorithm of chapter 4, used where no rule is found."""

ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "allgather": (SPECIFICATION, "exchange"),
    "barrier": (SPECIFICATION, "exchange"),
    "bcast": (SPECIFICATION, "flat", "chain", "binomial"),
    "scatter": (SPECIFICATION, "flat", "chain", "binomial"),
    "reduce": (SPECIFICATION, "flat", "binomial", "elimination"),
    "allreduce": (SPECIFICATION, "flat", "binomial", "elimination"),
}
"""The algorithms that a table can choose, by operation."""

# Algorithms that can send or combine a value in parts. Elsewhere a segment is an error: the user
# would believe that it has an effect.
_CUT: Final = {
    ("bcast", "flat"),
    ("bcast", "chain"),
    ("bcast", "binomial"),
    ("reduce", "elimination"),
    ("allreduce", "elimination"),
}
# A table may come from another client. These bound its memory, and the search at each collective.
_MOST_RULES: Final = 1000
_HIGHEST: Final = 2**62
_KEYS: Final = {"clients", "octets", "algorithm", "segment"}
_Rules: TypeAlias = tuple["Rule", ...]


@record
class Rule:
    """One decision, and the upper limits up to which it holds."""

    algorithm: str
    clients: int | None = None
    """Most clients in the communicator; None: any number."""
    octets: int | None = None
    """Most octets on the wire: the whole of a broadcast or reduction, each piece of a scatter or
    allgather, 0 where procs know only their own (pickles) and in a barrier.
    """
    segment: int = 0
    """Octets of a broadcast's segments, or above which an elimination halves buffers.

    Zero: no segments, and halving down to single elements.
    """

    def holds(self, clients: int, octets: int) -> bool:
        return (self.clients is None or clients <= self.clients) and (
            self.octets is None or octets <= self.octets
        )


@record
class Decisions:
    """The rules of each operation; the first that holds decides."""

    rules: tuple[tuple[str, _Rules], ...] = ()
    """Sorted by operation, so that equal tables are equal values."""

    @classmethod
    def of(cls, rules: Mapping[str, tuple[Rule, ...]]) -> Decisions:
        for operation, several in rules.items():
            if operation not in ALGORITHMS:
                raise UsageError(
                    f"there are no decisions for {operation!r}, only for {', '.join(ALGORITHMS)}"
                )

            if len(several) > _MOST_RULES:
                raise UsageError(
                    f"{len(several)} decisions for {operation} are more than {_MOST_RULES}"
                )

            for number, rule in enumerate(several, 1):
                _check(operation, rule, f"decision {number} for {operation}")

        return cls(
            tuple(
                sorted(
                    (operation, tuple(several)) for operation, several in rules.items()
                )
            )
        )

    @classmethod
    def parse(cls, text: str | bytes) -> Decisions:
        """Return the table of a JSON text: an object with ``format`` and ``decisions``.

        ``decisions`` has a list of rules for each operation; a rule has ``algorithm`` and, as
        limits, ``clients``, ``octets`` and ``segment``.

        Raises:
            UsageError: not such a text; the message says where and why.
        """

        # The text may come from another client, so nothing in it is taken for granted, and error
        # messages quote only its beginning.
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"no JSON: {str(error)[:200]}") from None

        if not isinstance(value, dict) or value.get("format") != FORMAT:
            found = value.get("format") if isinstance(value, dict) else None
            raise UsageError(
                f'its "format" is {json.dumps(found)[:50]}, not "{FORMAT}": make one with impi tune'
            )

        tables = value.get("decisions")
        if not isinstance(tables, dict) or not all(
            isinstance(rules, list) for rules in tables.values()
        ):
            raise UsageError(
                'its "decisions" are not an object of lists: make one with impi tune'
            )

        return cls.of(
            {
                name: tuple(_rule(name, n, rule) for n, rule in enumerate(r, 1))
                for name, r in tables.items()
            }
        )

    def to_value(self) -> dict[str, list[dict[str, Any]]]:
        """The rules as ``decisions`` of the text that :meth:`parse` reads."""
        return {
            operation: [_plain(rule) for rule in several]
            for operation, several in self.rules
        }

    def to_json(self) -> str:
        """The text that :meth:`parse` reads, on one line; equal for equal tables."""
        # In one order: clients compare tables as octets (startup.choices).
        value = {"format": FORMAT, "decisions": self.to_value()}
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    def choose(self, operation: str, clients: int, octets: int) -> Rule | None:
        """Return the rule for a number of clients and of octets; None for IMPI's algorithm."""
        for name, several in self.rules:
            if name == operation:
                for rule in several:
                    if rule.holds(clients, octets):
                        return None if rule.algorithm == SPECIFICATION else rule

        return None


def _plain(rule: Rule) -> dict[str, Any]:
    limits = {
        "clients": rule.clients,
        "octets": rule.octets,
        "segment": rule.segment or None,
    }
    return {"algorithm": rule.algorithm} | {
        name: value for name, value in limits.items() if value is not None
    }


def _rule(operation: str, number: int, value: Any) -> Rule:
    where = f"decision {number} for {operation}"
    if not isinstance(value, dict) or not isinstance(value.get("algorithm"), str):
        raise UsageError(f'{where} is not an object with an "algorithm"')

    for key in value.keys() - _KEYS:
        raise UsageError(
            f"{where} has a {key!r}; what it may have is {', '.join(sorted(_KEYS))}"
        )

    return Rule(
        value["algorithm"],
        value.get("clients"),
        value.get("octets"),
        value.get("segment", 0),
    )


def _check(operation: str, rule: Rule, where: str) -> None:
    if rule.algorithm not in ALGORITHMS[operation]:
        choices = ", ".join(ALGORITHMS[operation])
        raise UsageError(
            f"{where} is {rule.algorithm[:50]!r}, but the choices are {choices}"
        )

    for name, number in (
        ("clients", rule.clients),
        ("octets", rule.octets),
        ("segment", rule.segment),
    ):
        lowest = 1 if name == "clients" else 0
        if number is None and name != "segment":
            continue

        # isinstance() would take JSON's true for a number: bool is a kind of int.
        if type(number) is not int or not lowest <= number <= _HIGHEST:
            raise UsageError(
                f'{where}: "{name}" is {json.dumps(number)[:50]}, but must be a number from {lowest}'
            )

    if rule.segment and (operation, rule.algorithm) not in _CUT:
        raise UsageError(f'{where}: a {rule.algorithm} {operation} has no "segment"')


USUAL: Final = Decisions.of(
    {
        # An exchange takes ceil(log2 n) hops, so one between two clients; chapter 4 has two or more
        # (docs/decisions/tuned-algorithms.md).
        "allgather": (Rule("exchange"),),
        # Two clients send whole values at once, which is as fast as halves there and back. More
        # clients would send them several times, so they halve long ones.
        "allreduce": (
            Rule("elimination", clients=2, segment=_HIGHEST),
            Rule("elimination", segment=64 * 1024),
        ),
        "barrier": (Rule("exchange"),),
    }
)
"""The table of a job whose clients are all ours, where no client has one of its own."""

BY_SPECIFICATION: Final = Decisions()
"""Chapter 4 everywhere, which a client of ours can ask for as for any other table."""
