"""Conditions on records: ``type=DATA|DATASYNC,tag>=7``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from impi.base.errors import UsageError
from impi.lab.dissect.show.record_list import FIELDS, Value

_CONDITION: Final = re.compile(r"\s*(\w+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*")
_ORDERS: Final[dict[str, Callable[[int | float, int | float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of the value of ``name`` with any of ``wanted``."""

    name: str
    sign: str
    wanted: tuple[str, ...]

    def holds(self, fields: Mapping[str, Value | float]) -> bool:
        """Whether a record with these values meets it; without a value only ``!=`` does."""

        value = fields.get(self.name)

        found = value if isinstance(value, list) else [] if value is None else [value]
        if self.sign in _ORDERS:
            limit = _number(self.wanted[0])
            return any(
                not isinstance(v, str) and _ORDERS[self.sign](v, limit) for v in found
            )

        equal = any(_equal(v, wanted) for v in found for wanted in self.wanted)

        return equal if self.sign == "=" else not equal


def parse_conditions(text: str) -> list[Condition]:
    """Return the conditions of a list with commas; a record must meet all of them.

    Raises:
        UsageError: it is not such a list, or names what no record has.
    """
    found = []
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None or not match[3]:
            raise UsageError(
                f"{part!r} is not a condition; write NAME=VALUE, with = != < <= > >=, as in tag=7"
            )

        if match[1] not in FIELDS:
            raise UsageError(
                f"no record has a {match[1]!r}; there are: {', '.join(FIELDS)}"
            )

        condition = Condition(match[1], match[2], tuple(match[3].split("|")))
        if condition.sign in _ORDERS:
            _number(match[3])

        found.append(condition)

    return found


def satisfies(fields: Mapping[str, Value | float], conditions: list[Condition]) -> bool:
    """Whether values meet all conditions."""
    return all(condition.holds(fields) for condition in conditions)


def _equal(value: int | float | str, wanted: str) -> bool:
    if isinstance(value, str):
        return value.lower() == wanted.lower()

    try:
        return value == _number(wanted)
    except UsageError:
        return False


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        pass

    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a number, so nothing can be less or more"
        ) from None
