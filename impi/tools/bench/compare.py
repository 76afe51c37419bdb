"""Comparison of one run with an earlier one, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from impi.tools.bench.rows import Row, Spread

ENOUGH = 3
"""Fewest runs for a change to count: the spread of fewer runs proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of a row; ``relative`` is the new median divided by the old one, minus 1."""

    old: Row
    new: Row
    # Ratio if both have a reference, which cancels the machine's state; else value
    quantity: str
    relative: float | None  # None: a median is missing, or the old one is 0
    beyond: bool  # whether the middle halves of both runs do not touch

    @property
    def worse(self) -> bool:
        """Whether the row is worse beyond the spread, or can no longer be measured."""
        if self.relative is None:
            return bool(self.old.values) and not self.new.values

        return self.beyond and (self.relative > 0) == (self.new.better == "lower")


def compare(
    old: Sequence[Row], new: Sequence[Row]
) -> tuple[list[Change], list[Row], list[Row]]:
    """Return pairs of rows in the order of ``new``; rows only in ``old``; rows only in ``new``."""

    before = {row.key: row for row in old}
    changes = [_change(before[row.key], row) for row in new if row.key in before]
    after = {row.key for row in new}

    return (
        changes,
        [row for row in old if row.key not in after],
        [row for row in new if row.key not in before],
    )


def _change(old: Row, new: Row) -> Change:
    quantity = "ratio" if old.ratio and new.ratio else "value"
    one: Spread | None = getattr(old, quantity)

    other: Spread | None = getattr(new, quantity)
    if one is None or other is None or not one.median:
        return Change(old=old, new=new, quantity=quantity, relative=None, beyond=False)

    enough = min(len(old.values), len(new.values)) >= ENOUGH
    relative = other.median / one.median - 1

    return Change(
        old=old,
        new=new,
        quantity=quantity,
        relative=relative,
        beyond=enough and one.apart(other),
    )
