"""The level of an implementation: the chapters to which it conforms, and counts of tests.

A chapter has three parts. *Mandatory* tests are about its demands, *optional* ones about its
recommendations. The text of the third part is *lost*: tests compare with our reading of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from impi.base.columns import aligned
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.script.script_files import Test, clause_order

PARTS: Final = ("mandatory", "optional", "text lost")
"""The parts of a chapter."""
CHAPTERS: Final = {
    "1": "types",
    "2": "start-up and end",
    "3": "data transfer",
    "4": "collectives",
}
"""Titles of the chapters of IMPI 0.0 that have tests."""


@dataclass(slots=True)
class Count:
    """The tests of one part of a chapter."""

    passed: int = 0
    failed: int = 0
    not_tried: int = 0
    clauses: list[str] = field(default_factory=list)  # of those that failed

    def __str__(self) -> str:
        told = [
            f"{number} {what}"
            for number, what in (
                (self.passed, "passed"),
                (self.failed, "failed"),
                (self.not_tried, "not tried"),
            )
            if number
        ]
        return ", ".join(told) or "-"


Level = dict[str, dict[str, Count]]
"""By chapter and part."""


def level_of(outcomes: Sequence[Outcome], tests: Sequence[Test]) -> Level:
    """Count the tests of each part of each chapter.

    Args:
        outcomes: of the tests that were chosen.
        tests: all there are for such an implementation; one without an outcome was not tried.
    """
    verdicts = {outcome.test: outcome.verdict for outcome in outcomes}
    found: Level = {
        chapter: {part: Count() for part in PARTS}
        for chapter in CHAPTERS
        if any(_chapter(test) == chapter for test in tests)
    }

    for test in tests:
        count = found[_chapter(test)][_part(test)]
        match verdicts.get(test.name, ClauseVerdict.UNTESTED):
            case ClauseVerdict.HOLDS:
                count.passed += 1
            case ClauseVerdict.UNTESTED:
                count.not_tried += 1
            case _:
                count.failed += 1
                count.clauses.append(test.clause)

    return found


def _chapter(test: Test) -> str:
    return test.clause.partition(".")[0]


def _part(test: Test) -> str:
    if test.reading:
        return "text lost"

    return "mandatory" if test.level == "MUST" else "optional"


def told(level: Level) -> list[str]:
    """Return a line for each chapter, and one with the verdict on the mandatory parts."""
    rows: list[tuple[str, ...]] = [("chapter", *PARTS)]
    rows += [
        (f"{chapter} {CHAPTERS[chapter]}", *(str(parts[part]) for part in PARTS))
        for chapter, parts in level.items()
    ]

    return [*aligned(rows), conclusion(level)]


def conclusion(level: Level) -> str:
    """Return which chapters' mandatory parts hold, which are broken, and which are open."""
    whole, broken, left = [], [], []
    for chapter, parts in level.items():
        count = parts["mandatory"]
        if count.failed:
            where = sorted(set(count.clauses), key=clause_order)
            broken.append(f"{chapter} ({', '.join(where)})")
        elif count.not_tried:
            left.append(chapter)
        elif count.passed:
            whole.append(chapter)

    said = [
        f"conforms to {_named(whole)} of IMPI 0.0" if whole else "",
        f"{'not' if whole else 'does not conform'} to {_named(broken)}"
        + ("" if whole else " of IMPI 0.0")
        if broken
        else "",
        f"not tried as a whole: {_named(left)}" if left else "",
    ]

    return "; ".join(text for text in said if text)


def _named(chapters: Sequence[str]) -> str:
    return f"{'chapter' if len(chapters) == 1 else 'chapters'} {', '.join(chapters)}"
