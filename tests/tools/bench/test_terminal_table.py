"""Rows, changes and profiles as tables on a terminal."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.table import Table

from impi.tools.bench.compare import compare
from impi.tools.bench.profiles import Hot
from impi.tools.bench.rows import Row, at_most
from impi.tools.bench.terminal_table import changes_table, hot_table, number, rows_table


def shown(table: Table) -> list[list[str]]:
    """The cells of each row below the headings."""
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(table)
    lines = [
        line for line in console.export_text().splitlines() if line.startswith("│")
    ]
    console.file.close()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def row(*values: float, **more: object) -> Row:
    given: dict[str, object] = {
        "measure": "latency",
        "vendors": "a+b",
        "unit": "us",
        "better": "lower",
        **more,
    }
    return Row(values=values, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123"),
        (4.561, "4.56"),
        (99.99, "100"),
        (789.4, "789"),
        (12345.0, "12345"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


def test_rows_have_their_ratio_their_bound_and_whether_it_holds() -> None:
    good = row(2.0, references=(1.0,), against="sockets", bound=at_most(2), size=8)
    late = row(
        9.0, references=(1.0,), against="sockets", bound=at_most(3, "difference", "us")
    )
    bare, lost = row(5.0), row(error="lost", bound=at_most(2))
    first, second, third, fourth = shown(rows_table([good, late, bare, lost]))
    assert first[2:] == [
        "8 B",
        "",
        "2 [2, 2]",
        "us",
        "1 [1, 1]",
        "sockets",
        "2 [2, 2]",
        "<= 2 x",
        "✓",
    ]
    assert second[8:] == ["+8 us", "<= +3 us", "✗"]
    assert third[4:] == ["5 [5, 5]", "us", "", "", "", "", ""]
    assert fourth[4:] == ["-", "us", "", "", "", "<= 2 x", "error"]


def test_changes_beyond_the_spread_are_marked() -> None:
    old, new = row(1.0, 1.1, 1.2), row(2.0, 2.1, 2.2)
    assert shown(changes_table(compare([old], [new])[0]))[0][3:] == [
        "us",
        "+90.9%",
        "worse",
    ]
    assert shown(changes_table(compare([new], [old])[0]))[0][4:] == ["-47.6%", "better"]
    assert shown(changes_table(compare([row(1.0)], [row()])[0]))[0][2:] == [
        "-",
        "us",
        "-",
        "worse",
    ]


def test_what_took_the_time_is_told_by_the_call() -> None:
    [cells] = shown(hot_table("x", [Hot("a.py:1 f", 4, 0.002, 0.25)]))
    assert cells == ["0.002", "25.0%", "4", "500", "a.py:1 f"]
