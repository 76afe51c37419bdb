"""The clause table fits the code: a quick check of the minutes-long `make clauses`."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads(
    (Path(__file__).parent / "clauses.toml").read_text(encoding="utf-8")
)
# Every numbered clause of chapters 2 and 3.
CLAUSES = [
    "2.1",
    "2.2",
    "2.2.1",
    "2.2.2",
    "2.2.3",
    "2.2.4",
    "2.3",
    "2.3.1",
    "2.3.2",
    "2.3.3",
    "2.3.4",
    "2.3.5",
    "2.3.6",
    "2.3.7",
    "2.3.8",
    "2.4",
    "2.5",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.7.1",
    "3.7.2",
    "3.7.3",
    "3.7.4",
    "3.8",
    "3.9",
]


def test_every_clause_has_a_title_and_a_mutation() -> None:
    assert list(TABLE["titles"]) == CLAUSES
    assert {mutation["clause"] for mutation in TABLE["mutation"]} == set(CLAUSES)


@pytest.mark.parametrize(
    "mutation", TABLE["mutation"], ids=lambda m: f"{m['clause']} {m['name']}"
)
def test_every_mutation_still_fits(mutation: dict[str, object]) -> None:
    text = (ROOT / str(mutation["file"])).read_text(encoding="utf-8")
    assert text.count(str(mutation["old"])) == 1
    assert mutation["old"] != mutation["new"]
