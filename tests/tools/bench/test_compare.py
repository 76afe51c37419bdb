"""One run beside an earlier one."""

from __future__ import annotations

import pytest

from impi.tools.bench.compare import compare
from impi.tools.bench.rows import Row, at_most


def _row(
    *values: float,
    better: str = "lower",
    references: tuple[float, ...] = (),
    measure: str = "latency",
) -> Row:
    return Row(
        measure=measure,
        vendors="pure+pure",
        unit="us",
        better=better,
        values=values,
        references=references,
        against="sockets" if references else "",
        bound=at_most(2) if references else None,
    )


def test_a_change_within_the_spread_is_none() -> None:
    changes, gone, added = compare([_row(1, 2, 3)], [_row(2, 3, 4)])
    assert (changes[0].beyond, changes[0].worse, gone, added) == (False, False, [], [])
    assert changes[0].relative == 0.5


@pytest.mark.parametrize(("better", "worse"), [("lower", True), ("higher", False)])
def test_a_change_beyond_the_spread(better: str, worse: bool) -> None:
    change = compare(
        [_row(1, 1.1, 1.2, better=better)], [_row(2, 2.1, 2.2, better=better)]
    )[0][0]
    assert change.beyond
    assert change.worse is worse


def test_a_slower_machine_is_no_regression() -> None:
    old = _row(2, 2.1, 2.2, references=(1, 1.05, 1.1))
    new = _row(20, 21, 22, references=(10, 10.5, 11))
    change = compare([old], [new])[0][0]
    assert (change.quantity, change.worse) == ("ratio", False)


def test_two_runs_have_no_spread() -> None:
    assert not compare([_row(1, 1)], [_row(9, 9)])[0][0].beyond


def test_what_cannot_be_measured_any_more_is_worse() -> None:
    assert compare([_row(1, 1, 1)], [_row()])[0][0].worse


def test_rows_of_one_run_only() -> None:
    changes, gone, added = compare(
        [_row(1), _row(1, measure="gone")], [_row(1), _row(1, measure="new")]
    )
    assert ([c.new.measure for c in changes], gone[0].measure, added[0].measure) == (
        ["latency"],
        "gone",
        "new",
    )
