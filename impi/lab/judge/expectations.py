r"""Known failures: the rows of ``ci/expectations.toml``.

::

    [[expect]]
    cells = "coll.rooted/*+openmpi/**"      # a selector, or a list of them
    result = "fail"                         # or timeout, red, flaky, sometimes
    phase = "case"                          # optional: the phase in which it ends
    reason = 'end\.checks: .* rank 3'       # optional: a regular expression found in its reason
    count = 12                              # optional: number of cells of --tier full it names
    issue = "https://tracker.example/41"
    until = 2027-03-01                      # from the day after, the row is an error

A row explains cells that it names and that end exactly as it says: ``fail`` explains no timeout
and no error of the lab. A pass despite ``fail`` or ``timeout`` is an *xpass*. What fails by
the timing of a vendor's own is ``sometimes``, and then the reason must be there.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError
from impi.base.files import read_toml
from impi.base.manifests import names, vendors
from impi.lab.judge.verdict import PHASES, Verdict
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell, check_selector, is_literal, matches, select
from impi.lab.plan.matrix import cells_of

DEFAULT_FILE: Final = Path("ci/expectations.toml")
RESULTS: Final = ("fail", "timeout", "red", "flaky", "sometimes")
"""``red``: fail or timeout; ``sometimes``: a pass, or red for a known reason, by timing."""
_RED: Final = ("fail", "timeout")
MAY_PASS: Final = ("flaky", "sometimes")
"""Results of rows that a pass does not contradict."""
_REQUIRED: Final = ("cells", "result", "issue", "until")
_GLOBS: Final = frozenset("*?[")
_MOST_PARTIES: Final = 1000
_KEYS: Final = (*_REQUIRED, "phase", "reason", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the file: the cells that it names, and how they are expected to end."""

    number: int  # in the file, from 1
    cells: tuple[str, ...]  # selectors
    result: str
    issue: str
    until: datetime.date
    phase: str = ""
    reason: str = ""
    count: int | None = None

    def __str__(self) -> str:
        more = f" and {len(self.cells) - 1} more" if len(self.cells) > 1 else ""
        return f"row {self.number} ({self.cells[0]}{more})"

    def names(self, cell: Cell) -> bool:
        return any(matches(cell, selector) for selector in self.cells)

    def explains(self, verdict: Verdict) -> bool:
        """Whether a cell that the row names was expected to end like this."""
        # A cell that passed in some attempts only is not a stable failure:
        # "sometimes" covers it, "red" does not.
        meant = {"red": _RED, "sometimes": (*_RED, "flaky")}.get(
            self.result, (self.result,)
        )
        return (
            verdict.outcome in meant
            and self.phase in ("", verdict.phase)
            and re.search(self.reason, verdict.reason) is not None
        )

    def named(self) -> list[Cell]:
        """Return the cells that the row names, on all topologies that exist or it spells out."""
        return list(
            dict.fromkeys(cell for selector in self.cells for cell in _named(selector))
        )


@cache
def _named(selector: str) -> tuple[Cell, ...]:
    # All cells that exist, in every tier: a row may name what the run
    # at hand leaves out.
    cells = [*_everything()]

    parts = selector.split("/")
    # A topology that is spelled out need not be a listed one, so build its cells.
    if len(parts) > 2 and not _GLOBS & set(parts[2]):
        # Names without a vendor or case have no cells
        with contextlib.suppress(UsageError):
            topology = parse_topology(parts[2])
            each = [_vendors(part) for part in parts[1].split("+")]
            # The product of stars grows with each client: five of them over ten
            # vendors are 100 000.
            parties = list(itertools.islice(itertools.product(*each), _MOST_PARTIES))
            cells += cells_of(
                "full",
                [topology],
                parties if len(each) == len(topology.clients) else [],
            )

    # To hash a cell takes longer than to match it: only what is selected gets one.
    return tuple(dict.fromkeys(select(cells, [selector])))


@cache
def _everything() -> tuple[Cell, ...]:
    return tuple(cells_of("full"))


def _vendors(part: str) -> list[str]:
    """Return the vendors that a part of a selector picks; versions only if it names one."""
    versions = [
        f"{each.name}@{version}"
        for each in vendors()
        for version in each.versions
        if "@" in part
    ]
    return fnmatch.filter([*names(), *versions], part)


@dataclass(frozen=True, slots=True)
class Expectations:
    """All rows of a file; without rows, only passes are expected."""

    path: Path | None = None
    rows: tuple[Row, ...] = field(default=())

    def find(self, cell: Cell, verdict: Verdict) -> Row | None:
        """Return the row that explains the verdict or wrongly excluded a pass; None without one."""
        rows = [row for row in self.rows if row.names(cell)]
        # A pass is explained by no row. The row that excluded it is
        # returned, for the xpass.
        if verdict.outcome == "pass":
            return next((row for row in rows if row.result not in MAY_PASS), None)

        return next((row for row in rows if row.explains(verdict)), None)


def load(path: Path) -> Expectations:
    """The rows of a file.

    Raises:
        UsageError: it cannot be read, or a row is wrong; the message names file, row and cure.
    """

    value = read_toml(path, "expectations")

    rows = value.get("expect", [])
    # A misspelt table would be an expectation that no run applies: refuse it.
    if (
        set(value) - {"expect"}
        or not isinstance(rows, list)
        or not all(isinstance(r, dict) for r in rows)
    ):
        raise UsageError(
            f"expectations {path}: write nothing but rows, each one below a line [[expect]]"
        )

    found = []
    for number, row in enumerate(rows, start=1):
        try:
            found.append(_row(number, row))
        except UsageError as error:
            raise UsageError(f"expectations {path}, row {number}: {error}") from None

    return Expectations(path, tuple(found))


def _row(number: int, row: Mapping[str, Any]) -> Row:
    for key in row:
        if key not in _KEYS:
            raise UsageError(f"there is no key {key!r}; there are {', '.join(_KEYS)}")

    for key in _REQUIRED:
        if key not in row:
            raise UsageError(f"it has no {key}; add {key} = ...")

    cells = [row["cells"]] if isinstance(row["cells"], str) else row["cells"]
    if (
        not isinstance(cells, list)
        or not cells
        or not all(isinstance(c, str) for c in cells)
    ):
        raise UsageError(
            "cells is not a selector; write one in quotes, or a list of them"
        )

    for selector in cells:
        _check_cells(selector)

    until = row["until"]
    # For Python a time of day is a date, too.
    if not isinstance(until, datetime.date) or isinstance(until, datetime.datetime):
        raise UsageError(
            f"until = {str(until)!r} is not a date; write one without quotes, such as 2027-03-01"
        )

    return Row(
        number=number,
        cells=tuple(cells),
        result=_one_of(row, "result", RESULTS),
        issue=check_issue(row["issue"]),
        until=until,
        phase=_one_of(row, "phase", PHASES) if "phase" in row else "",
        reason=_reason(row),
        count=_count(row.get("count")),
    )


def _check_cells(selector: str) -> None:
    check_selector(selector)
    parts = selector.split("/")

    # A row for one literal cell may name any vendor. A pattern must
    # name at least one, or it would excuse everybody's failures.
    parties = parts[1] if len(parts) > 1 else "*"
    if not is_literal(selector) and not any(
        part.partition("@")[0] in names() for part in parties.split("+")
    ):
        raise UsageError(
            f"{selector!r} leaves every vendor open, so it would excuse all of them; name one, as in"
            f" '{parts[0]}/*+{names()[-1]}/**'"
        )


def _one_of(row: Mapping[str, object], key: str, known: Sequence[str]) -> str:
    if row[key] not in known:
        raise UsageError(
            f"{key} = {row[key]!r} is unknown; write one of {', '.join(known)}"
        )

    return str(row[key])


def check_issue(value: object) -> str:
    """Return the link to a bug's tracker. UsageError: it is not a link."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^/\s]+/\S+", value):
        raise UsageError(
            f"issue = {value!r} is not a link; write the address where the bug is tracked, https://..."
        )

    return value


def _reason(row: Mapping[str, object]) -> str:
    found = _pattern(row.get("reason", ""))
    if row["result"] == "sometimes" and not found:
        raise UsageError(
            "sometimes needs a reason: else any failure of these cells would be excused"
        )

    return found


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(
            f"reason = {value!r} is not text; write a regular expression in quotes"
        )

    try:
        re.compile(value)
    except re.error as error:
        raise UsageError(
            f"reason = {value!r} is not a regular expression: {error}"
        ) from None

    return value


def _count(value: object) -> int | None:
    if value is not None and (
        not isinstance(value, int) or isinstance(value, bool) or value < 1
    ):
        raise UsageError(
            f"count = {value!r} is not a number of cells; write how many the row names"
        )

    return value


def declared_rows() -> Expectations:
    """Return a row for each declaration of a manifest: its vendor's cells are not to pass."""
    declarations = [(each, row) for each in vendors() for row in each.unsupported]
    return Expectations(
        rows=tuple(
            Row(
                number=number,
                cells=_cells_of_vendor(vendor.name, declaration.cells),
                # A declaration says that these cells cannot pass. How they fail is
                # left open.
                result="red",
                issue=f"images/{vendor.name}/{vendor.name}.toml",
                until=datetime.date.max,
            )
            for number, (vendor, declaration) in enumerate(declarations, 1)
        )
    )


def _cells_of_vendor(vendor: str, selector: str) -> tuple[str, ...]:
    """Return selectors of the cells of a declaration in which the vendor is a party."""

    case, _, rest = selector.partition("/")

    parties, _, others = (rest or "*").partition("/")
    # A declaration for all parties holds where the vendor is first, and
    # where it comes later.
    if parties != "*":
        return (selector,)

    tail = f"/{others}" if others else ""

    return tuple(f"{case}/{each}{tail}" for each in (f"{vendor}*", f"*+{vendor}*"))
