"""``impilab plan``: list the cells that a run would have, its time, and why others are left out."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from impi.cli.ending import Verbs, add_verb, show
from impi.cli.lab.select import (
    EXIT_CODES,
    SELECTION,
    SELECTORS,
    backend_of,
    expectations_of,
    jobs_of,
    planned,
)
from impi.lab.plan.cell import Cell
from impi.lab.plan.lab_sharing import labs_of
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.report.history import DEFAULT_S, durations, expected_s
from impi.lab.report.results import plan_value

_NARROWEST: Final = 40


def add_plan(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "plan",
        _plan,
        {
            **SELECTION,
            "--json": {"action": "store_true", "help": "as JSON"},
            "--all": {
                "action": "store_true",
                "help": "list every cell that is left out, not only counts and reasons",
            },
        },
        help="show which cells would be run, how long that takes, and why others are left out",
        epilog=f"{SELECTORS}\n{EXIT_CODES}",
    )


def _plan(options: argparse.Namespace) -> int:
    jobs, expectations = jobs_of(options), expectations_of(options)
    backend = backend_of(options)
    plan = planned(options, backend)
    known = durations(options.runs, backend.name)

    seconds = expected_s(plan.cells, known, jobs)
    if options.json:
        value = {
            **plan_value(plan),
            "expected_seconds": round(seconds, 1),
            "jobs": jobs,
        }
        print(json.dumps(value, indent=1))
        return _code(plan)

    for cell in plan.cells:
        row = next((row for row in expectations.rows if row.names(cell)), None)
        expected = f"  {row.result} expected: {row.issue}" if row is not None else ""
        print(
            f"{cell.hash}  {cell.id:<52} {known.get(cell.id, DEFAULT_S):6.1f}s{expected}"
        )

    show(_each(plan) if options.all else _grouped(plan))
    hint = (
        ""
        if options.all or not plan.excluded
        else "; --all names every cell that is left out"
    )
    print(f"{_counts(plan, backend.parts)}; {time_text(plan.cells, known, jobs)}{hint}")

    return _code(plan)


def _each(plan: Plan) -> Iterator[str]:
    for excluded in plan.excluded:
        yield f"{excluded.cell.hash}  {excluded.cell.id}  {_kind(excluded)}: {excluded.reason}"


def _grouped(plan: Plan) -> Iterator[str]:
    """Yield lines by reason, topology and parties; the cells of a line differ in cases alone."""
    reasons: dict[tuple[str, str], dict[tuple[str, str], list[Cell]]] = {}
    for excluded in plan.excluded:
        cell = excluded.cell
        groups = reasons.setdefault((_kind(excluded), excluded.reason), {})
        groups.setdefault((str(cell.topology), cell.parties), []).append(cell)

    for (kind, reason), groups in reasons.items():
        count = sum(map(len, groups.values()))
        yield _wrapped(f"{kind}: {reason}: {count} cell{'s' * (count != 1)}")

        # Pairs of vendors that leave out the same cases share a line.
        lines: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (topology, parties), cells in groups.items():
            lines.setdefault(
                (topology, tuple(dict.fromkeys(c.case.name for c in cells))), []
            ).append(parties)

        for (topology, cases), parties_of in lines.items():
            yield _wrapped(
                f"    {topology:<12} {', '.join(parties_of)}: {' '.join(cases)}"
            )


def _wrapped(text: str) -> str:
    """The text in lines that fit the terminal, or 80 columns; the first one tells the indent."""
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    return textwrap.fill(
        text,
        width,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _kind(excluded: Excluded) -> str:
    return "unsupported" if excluded.kind == "unsupported" else "excluded"


def _code(plan: Plan) -> int:
    return 0 if plan.cells else 5


def _counts(plan: Plan, shares: bool) -> str:
    left_out = {e.reason: 0 for e in plan.excluded if e.kind != "unsupported"}
    for excluded in plan.excluded:
        if excluded.reason in left_out:
            left_out[excluded.reason] += 1

    labs = labs_of(plan.cells, parts=shares)
    parts = [
        f"{len(plan.cells)} cells",
        f"{labs} labs",
        f"{len(plan.unsupported)} unsupported",
    ]

    return ", ".join(
        [
            *parts,
            *(f"{count} left out ({reason})" for reason, count in left_out.items()),
        ]
    )


def time_text(
    cells: Sequence[Cell], known: dict[str, float], jobs: int, repeat: int = 1
) -> str:
    """Return the expected time of a run, such as ``about 2 min 5 s with 2 at a time``.

    Args:
        cells: the cells to run.
        known: seconds of cells from earlier runs, by cell id.
        jobs: number of labs at a time.
        repeat: number of attempts at each cell.
    """

    seconds = round(expected_s(cells, known, jobs) * repeat)
    text = (
        f"about {seconds // 60} min {seconds % 60} s"
        if seconds >= 60
        else f"about {seconds} s"
    )
    new = sum(cell.id not in known for cell in cells)
    guess = f", {new} of them guessed at {DEFAULT_S} s" if new else ""

    return f"{text} with {jobs} at a time{guess}"
