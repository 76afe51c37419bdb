"""Upkeep of the expectations: the faults of rows by a run or the calendar, and their repair."""

from __future__ import annotations

import datetime
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from impi.base.errors import UsageError
from impi.lab.cases.own import is_own
from impi.lab.judge.expectations import MAY_PASS, RESULTS, Expectations, Row
from impi.lab.run.schedule import Done

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*expect[ \t]*\]\]", re.MULTILINE)
_ITEM = re.compile(r"\b[a-z]+\.[a-z-]+: ")
_WIDTH = 120


def check_rows(
    expectations: Expectations, today: datetime.date, extra: Iterable[Done] = ()
) -> list[str]:
    """Return faults of rows that need no run to show: expired, no cells, or a wrong count.

    ``extra``: cells of a run; a row may name one that belongs to no tier.
    """

    found = []

    cells = [done.cell for done in extra]
    for row in expectations.rows:
        named = row.named()
        if row.until < today:
            found.append(
                f"{row} expired on {row.until}: cure the bug, or renew the row ({row.issue})"
            )

        elsewhere = all(map(is_own, row.cells))  # of a program that other runs may have
        if not named and not elsewhere and not any(row.names(cell) for cell in cells):
            found.append(f"{row} names no cell: correct or remove it")
        elif row.count not in (None, len(named)):
            found.append(
                f"{row} names {len(named)} cells, but its count is {row.count}: narrow the row, or correct it"
            )

    return found


def check_run(expectations: Expectations, dones: Sequence[Done]) -> list[str]:
    """Return rows that a run has shown to be stale: their cells ran, and none ended as they say.

    Flaky cells may well pass; a row about them only expires.
    """
    found = []
    for row in expectations.rows:
        ran = list(_deciding_cells(row, expectations, dones))
        if (
            row.result not in MAY_PASS
            and ran
            and not any(row.explains(done.verdict) for done in ran)
        ):
            passed = sum(done.verdict.outcome == "pass" for done in ran)
            other = (
                "" if passed == len(ran) else f", {len(ran) - passed} ended otherwise"
            )
            found.append(
                f"{row} is stale: of {len(ran)} cells {passed} passed{other}; see 'impilab expect update'"
            )

    return found


def _deciding_cells(
    row: Row, expectations: Expectations, dones: Sequence[Done]
) -> Iterator[Done]:
    """Return cells of a run that decide whether a row is true: no other row explains them."""
    for done in _cells_with_answer(dones):
        if row.names(done.cell) and (
            row.explains(done.verdict)
            or done.verdict.outcome == "pass"
            or expectations.find(done.cell, done.verdict) is None
        ):
            yield done


def _cells_with_answer(dones: Iterable[Done]) -> Iterator[Done]:
    """Return cells of which a run says something: tried, and not lost by the lab's own fault."""
    return (done for done in dones if done.attempts and done.verdict.outcome != "error")


@dataclass(frozen=True, slots=True)
class Updated:
    """A corrected file."""

    text: str
    changes: tuple[str, ...]  # a sentence for each change; none: the text is unchanged


def update(
    text: str,
    expectations: Expectations,
    dones: Sequence[Done],
    *,
    issue: str,
    until: datetime.date,
) -> Updated:
    """Return the file's text changed so that the run would end as expected.

    Rows without cells, or whose cells all ended otherwise, go; if some did, the row is narrowed to
    the others. Failures without a row get rows with ``issue`` and ``until``. Expired rows and wrong
    counts stay: a person decides on them.

    Raises:
        UsageError: cells failed without a row, and there is no ``issue``.
    """

    starts = [match.start() for match in _HEADER.finditer(text)]
    if len(starts) != len(expectations.rows):
        raise UsageError(
            f"expectations {expectations.path}: write each row below a line [[expect]] of its own"
        )

    starts = [_with_comments(text, at) for at in starts]
    parts = [text[: starts[0]] if starts else text]

    changes = []
    for row, (at, end) in zip(
        expectations.rows, itertools.pairwise([*starts, len(text)]), strict=True
    ):
        block = text[at:end]

        remaining = _remaining(row, expectations, dones)
        if remaining is None:
            parts.append(block)
        elif not remaining:
            changes.append(f"{row} removed")
        else:
            comments = block[: _HEADER.search(block).start()]  # type: ignore[union-attr]
            parts.append(comments + _written(replace(row, cells=remaining)) + "\n")
            changes.append(f"{row} narrowed to {len(remaining)} cells")

    rows = list(_new_rows(expectations, dones, issue, until))
    if rows and not issue:
        count = sum(len(row.cells) for row in rows)
        raise UsageError(
            f"{count} cells failed without a row: name the place where that is tracked with --issue URL"
        )

    for row in rows:
        parts.append(
            ("" if parts[-1].endswith("\n\n") or not parts[-1] else "\n")
            + _written(row)
        )
        changes.append(
            f"row added for {len(row.cells)} cells: {row.result} in {row.phase or 'no phase'}"
        )

    return Updated("".join(parts), tuple(changes))


def _with_comments(text: str, at: int) -> int:
    """Return where the lines of comment above a row begin: they go where the row goes."""
    while at and (line := text[: at - 1].rpartition("\n")[2]).startswith("#"):
        at -= len(line) + 1

    return at


def _remaining(
    row: Row, expectations: Expectations, dones: Sequence[Done]
) -> tuple[str, ...] | None:
    """Return ids of the cells for which the row may still be true; None: for all of them."""

    named = dict.fromkeys(
        [*row.named(), *(done.cell for done in dones if row.names(done.cell))]
    )

    wrong = {
        done.cell
        for done in _deciding_cells(row, expectations, dones)
        if not row.explains(done.verdict)
    }
    if named and (row.result in MAY_PASS or not wrong):
        return None

    return tuple(cell.id for cell in named if cell not in wrong)


def _new_rows(
    expectations: Expectations, dones: Sequence[Done], issue: str, until: datetime.date
) -> Iterator[Row]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for done in _cells_with_answer(dones):
        verdict = done.verdict
        if verdict.outcome in RESULTS and expectations.find(done.cell, verdict) is None:
            item = _ITEM.search(verdict.reason)
            reason = re.escape(item[0].strip()) if item else ""
            groups.setdefault((verdict.outcome, verdict.phase, reason), []).append(
                done.cell.id
            )

    for (result, phase, reason), cells in groups.items():
        yield Row(
            number=0,
            cells=tuple(cells),
            result=result,
            phase=phase,
            reason=reason,
            issue=issue,
            until=until,
        )


def _written(row: Row) -> str:
    """Return a row as TOML, without its count: its cells are listed."""

    cells = _quoted(row.cells[0])
    if len(row.cells) > 1:
        cells = "[" + ", ".join(map(_quoted, row.cells)) + "]"
        if len(cells) + len("cells = ") > _WIDTH:
            cells = (
                "[\n" + "".join(f"    {_quoted(cell)},\n" for cell in row.cells) + "]"
            )

    lines = ["[[expect]]", f"cells = {cells}", f"result = {_quoted(row.result)}"]
    lines += [f"phase = {_quoted(row.phase)}"] if row.phase else []
    lines += [f"reason = {_quoted(row.reason)}"] if row.reason else []

    return "\n".join(
        [*lines, f"issue = {_quoted(row.issue)}", f"until = {row.until}", ""]
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a basic string of TOML
