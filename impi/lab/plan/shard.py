"""A part of a plan, for machines that share the cells of a run: ``--shard 2/3``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from impi.base.errors import UsageError
from impi.lab.plan.cell import Cell
from impi.lab.plan.matrix import NothingSelected, Plan

_MOST: Final = 1000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several equal parts of a plan."""

    index: int  # from 1 on
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, plan: Plan) -> Plan:
        """Return this part of a plan. All machines cut alike: nothing but the plan decides.

        Cells of the same lab stay together, so that few labs are opened twice.

        Raises:
            NothingSelected: there are more shards than cells.
        """

        if plan.cells and len(plan.cells) < self.count:
            raise NothingSelected(
                f"nothing to run: {self.count} shards are more than the {len(plan.cells)} cells"
            )

        cells = sorted(plan.cells, key=_by_lab)
        excluded = sorted(plan.excluded, key=lambda each: _by_lab(each.cell))

        return replace(
            plan,
            cells=tuple(self._slice(cells)),
            excluded=tuple(self._slice(excluded)),
            shard=str(self),
            whole=tuple(sorted(cell.id for cell in cells)),
        )

    def _slice(self, every: Sequence[_T]) -> Sequence[_T]:
        return every[
            len(every) * (self.index - 1) // self.count : len(every)
            * self.index
            // self.count
        ]


def _by_lab(cell: Cell) -> tuple[object, str]:
    return cell.lab, cell.id


def parse_shard(text: str) -> Shard:
    """Return the shard of ``I/N``.

    Raises:
        UsageError: it is none.
    """

    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)

    shard = Shard(*map(int, match.groups())) if match else Shard(0, 0)
    if not 1 <= shard.index <= shard.count <= _MOST:
        raise UsageError(
            f"--shard {text}: write I/N, from 1/N to N/N, with N of at most {_MOST}"
        )

    return shard
