"""Rows and comparisons as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from impi.tools.bench.compare import Change
from impi.tools.bench.rows import Row, Spread, octets

if TYPE_CHECKING:
    from impi.tools.bench.profiles import Hot


_SIGNS = {True: Text("✓", "green"), False: Text("✗", "red"), None: Text("")}


def _right(heading: str) -> Column:
    return Column(heading, justify="right")


def number(value: float) -> str:
    """Return a number with three significant digits: 0.0123, 4.56, 789, 12300."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(of: Spread | None) -> str:
    return f"{number(of.median)} [{number(of.low)}, {number(of.high)}]" if of else "-"


def rows_table(rows: Sequence[Row]) -> Table:
    """Return a table of medians with their quartiles, ratios and bounds."""

    heads = (
        "measure",
        "vendors",
        "size",
        "variant",
        _right("value"),
        "unit",
        _right("reference"),
        "against",
    )

    table = Table(
        *heads,
        _right("ratio"),
        "bound",
        "",
        title="medians \\[quartiles]; ratios are of pairs of runs",
    )
    for row in rows:
        cells = [
            row.measure,
            row.vendors,
            octets(row.size),
            row.variant,
            _spread(row.value),
            row.unit,
        ]

        # The column has what the bound is about: a ratio, or for "+3 us" a difference.
        ratio = _spread(row.ratio)
        if row.bound and row.bound.of == "difference" and row.difference:
            ratio = f"{row.difference.median:+.3g} {row.unit}"

        cells += [
            _spread(row.reference) if row.reference else "",
            row.against,
            ratio if row.ratio else "",
        ]
        table.add_row(
            *cells,
            str(row.bound or ""),
            _SIGNS[row.holds] if not row.error else Text("error", "magenta"),
        )

    return table


def hot_table(title: str, several: Sequence[Hot]) -> Table:
    """Return a table of the functions with most time, in all ranks of a job together."""
    table = Table(
        *map(_right, ("self s", "share", "calls", "us a call")), "function", title=title
    )
    for hot in several:
        each = hot.seconds / hot.calls * 1e6 if hot.calls else 0.0
        table.add_row(
            f"{hot.seconds:.3f}",
            f"{hot.share:.1%}",
            str(hot.calls),
            number(each),
            Text(hot.where),
        )

    return table


def changes_table(changes: Sequence[Change]) -> Table:
    """Return a table of old and new medians; changes beyond the spread are marked as such."""

    title = "new against old; marked is what exceeds the spread"

    table = Table(
        "measure", _right("old"), _right("new"), "of", _right("change"), "", title=title
    )
    for change in changes:
        old, new = (
            getattr(change.old, change.quantity),
            getattr(change.new, change.quantity),
        )
        relative = f"{change.relative:+.1%}" if change.relative is not None else "-"
        mark = (
            Text("worse", "red")
            if change.worse
            else Text("better", "green")
            if change.beyond
            else Text("")
        )
        of = "ratio" if change.quantity == "ratio" else change.new.unit
        table.add_row(change.new.title, _spread(old), _spread(new), of, relative, mark)

    return table
