"""Each clause that crosses the wire has an item or a case; each case names known clauses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from impi.lab.cases import CASES
from impi.lab.cases.clauses import CLAUSES, SILENT, table
from impi.lab.judge.items import ITEMS

NUMBERS = [clause.number for clause in CLAUSES]
OF_THE_TESTS = tomllib.loads(
    (Path(__file__).parents[2] / "clauses/clauses.toml").read_text()
)


@pytest.mark.parametrize("clause", CLAUSES, ids=NUMBERS)
def test_something_turns_red_without_it(clause):
    assert clause.items or clause.cases
    assert set(clause.items) <= set(ITEMS)


def test_cases_name_clauses_of_the_table():
    unknown = {case.name: set(case.clauses) - set(NUMBERS) for case in CASES.values()}
    assert not any(unknown.values()), "the clauses are in impi/lab/cases/clauses.py"


def test_every_clause_of_chapters_2_and_3_is_in_the_table_or_silent():
    assert set(OF_THE_TESTS["titles"]) <= {*NUMBERS, *SILENT}
    assert not set(SILENT) & set(NUMBERS)


def test_the_collectives_have_cases_of_their_own():
    of_operations = [
        clause
        for clause in CLAUSES
        if clause.number.startswith("4.")
        and 4 <= int(clause.number[2:4].strip(".")) <= 23
    ]
    assert len(of_operations) == 20
    assert all(clause.cases for clause in of_operations)


def test_each_is_listed_once():
    assert len(set(NUMBERS)) == len(NUMBERS)
    lines = list(table())
    assert len(lines) == len(CLAUSES)
    assert any(
        line.startswith("3.6 ") and "traffic.protocol" in line and "p2p.flood" in line
        for line in lines
    )
