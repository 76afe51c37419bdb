"""The level of an implementation: parts of chapters, and the sentence about them."""

from __future__ import annotations

from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.outcomes import ClauseVerdict, Outcome, outcome_of
from impi.lab.conform.report.levels import CHAPTERS, conclusion, level_of, told
from impi.lab.conform.script.script_files import Test, all_tests

HOLDS, BROKEN = ClauseVerdict.HOLDS, ClauseVerdict.BROKEN


def a_test(name: str, level: str = "MUST", *, reading: bool = False) -> Test:
    return Test(
        name=name,
        title="T",
        level=level,
        steps=("I0: echo",),
        setup=Configuration(),
        reading=reading,
    )


TESTS = [
    a_test("2.3.5/a"),
    a_test("2.3.5/b", "SHOULD"),
    a_test("3.6/a"),
    a_test("3.10/a"),
    a_test("4.16/a"),
    a_test("4.16/b", reading=True),
]


def run(**verdicts: ClauseVerdict) -> list[Outcome]:
    """All tests hold, but for those that are named by chapter."""
    return [
        outcome_of(test, verdicts.get(f"of_{test.clause[0]}", HOLDS), 0.1)
        for test in TESTS
    ]


def test_a_row_for_each_chapter() -> None:
    assert told(level_of(run(of_3=BROKEN), TESTS)) == [
        "chapter             mandatory  optional  text lost",
        "2 start-up and end  1 passed   1 passed  -",
        "3 data transfer     2 failed   -         -",
        "4 collectives       1 passed   -         1 passed",
        "conforms to chapters 2, 4 of IMPI 0.0; not to chapter 3 (3.6, 3.10)",
    ]


def test_what_was_not_chosen_was_not_tried() -> None:
    level = level_of(run()[:3], TESTS)
    assert str(level["3"]["mandatory"]) == "1 passed, 1 not tried"
    assert (
        conclusion(level)
        == "conforms to chapter 2 of IMPI 0.0; not tried as a whole: chapters 3, 4"
    )


def test_optional_parts_and_readings_do_not_change_the_sentence() -> None:
    outcomes = run()
    for at, verdict in ((1, BROKEN), (5, ClauseVerdict.UNDECIDED)):
        outcomes[at] = outcome_of(TESTS[at], verdict, 0.1)
    level = level_of(outcomes, TESTS)
    assert conclusion(level) == "conforms to chapters 2, 3, 4 of IMPI 0.0"
    assert str(level["2"]["optional"]) == str(level["4"]["text lost"]) == "1 failed"


def test_nothing_holds() -> None:
    broken = {f"of_{chapter}": BROKEN for chapter in "234"}
    assert conclusion(level_of(run(**broken), TESTS)) == (
        "does not conform to chapters 2 (2.3.5), 3 (3.6, 3.10), 4 (4.16) of IMPI 0.0"
    )
    assert conclusion(level_of([], TESTS)) == "not tried as a whole: chapters 2, 3, 4"


def test_every_test_belongs_to_a_chapter() -> None:
    assert {test.clause[0] for test in all_tests()} == set(CHAPTERS)
