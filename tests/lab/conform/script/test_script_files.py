"""The tests of the tester are files: all of them can be read, and make sense."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.report.verdict_reports import TITLES
from impi.lab.conform.script.script_files import (
    all_tests,
    clause_order,
    read_test,
    select,
)


def test_all_files_can_be_read() -> None:
    tests = all_tests()
    assert len(tests) > 100
    assert len({test.name for test in tests}) == len(tests)
    assert all(test.passive == (not test.steps) for test in tests)
    assert [
        test.title for test in tests if not test.title or test.title.endswith(".")
    ] == []


def test_every_clause_that_a_client_shows_has_a_test() -> None:
    wanted = {
        "1.2.2",
        "2.3.2",
        "2.3.3",
        "2.3.4",
        "2.3.5",
        "2.3.7",
        "2.3.8",
        "2.4",
        "2.5",
        "3.1",
        "3.2",
        "3.3",
        "3.4",
        "3.5",
    }
    wanted |= {"3.6", "3.7.1", "3.7.2", "3.7.3", "3.7.4", "3.8", "3.9"}
    wanted |= {f"4.{number}" for number in range(4, 25)}
    assert wanted <= {test.clause for test in all_tests()}


def test_every_clause_with_tests_has_a_title() -> None:
    assert TITLES.keys() == {test.clause for test in all_tests()}


def test_selection() -> None:
    tests = all_tests()
    assert [t.name for t in select(tests, ["3.7.2/send-long"])] == ["3.7.2/send-long"]
    assert {t.clause for t in select(tests, ["3.7"])} == {
        "3.7",
        "3.7.1",
        "3.7.2",
        "3.7.3",
        "3.7.4",
    }
    assert {t.clause for t in select(tests, ["cancel"])} == {"3.5", "3.7.4"}
    assert select(tests, []) == tests
    with pytest.raises(UsageError, match="no test is named"):
        select(tests, ["9.9"])
    assert sorted(["3.10", "3.9"], key=clause_order) == ["3.9", "3.10"]


def test_repetition_and_parameters(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'title = "t"\nsteps = """\n# a comment\n{n} x I0: echo a={i}\n"""\n[each]\nn = [1, 2]\n'
    )
    test = read_test(path, "3.1/a")
    assert list(test.variants()) == [{"n": 1}, {"n": 2}]
    path.write_text('title = "t"\nsteps = "finish"\n[each]\nroot = ["ranks"]\n')
    assert list(read_test(path, "3.1/a").variants(3)) == [
        {"root": 0},
        {"root": 1},
        {"root": 2},
    ]
    assert list(test.lines({"n": 2})) == ["I0: echo a=0", "I0: echo a=1"]


def test_a_test_like_another() -> None:
    tests = {test.name: test for test in all_tests()}
    one, other = tests["4.10/two-clients"], tests["4.10/tree"]
    assert (one.title, one.steps) == (other.title, other.steps)
    assert len(one.setup.clients) == 2
    assert len(other.setup.clients) == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = ", "Invalid value"),
        ('title = "t"\nother = 1', "no key 'other'"),
        ('title = "t"\nlevel = "MAY"', "MUST or SHOULD"),
        ('title = "t"\n[job]\nfoo = 1', "a job has no 'foo'"),
        ('title = "t"\n[job]\nclients = ["2"]', "one client of several"),
        ('title = "t"\n[job]\nvariation = "x"', "variation 'x'"),
        ('title = "t"\n[job]\nrefusal = "x"', "refusal 'x'"),
        ('title = "t"\n[job]\nauth = "x"', "none or key"),
    ],
)
def test_what_is_no_test(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=told):
        read_test(path, "3.1/a")


MISTAKES = [
    # the file
    ('title = "t"\nsteps = 1', "steps is a text"),
    ('steps = "finish"', "a test has a title"),
    ('title = "t"', "has steps, or it is passive"),
    ('title = "t"\npassive = true\nsteps = "finish"', "has steps, or it is passive"),
    ('title = "t"\nends = 1', "ends is true or false"),
    ('title = "t"\nlike = "3.1/none"', "No such file"),
    ('title = "t"\n[job]\ndatalen = "9"', "job.datalen is a number"),
    ('title = "t"\n[job]\nxsize = true', "job.xsize is a number"),
    (
        'title = "t"\n[job]\nclients = ["IUT", "2,x"]',
        "the procs of its hosts, not '2,x'",
    ),
    ('title = "t"\n[job]\nclients = "IUT"', "job.clients is a list"),
    ('title = "t"\n[each]\nn = 1', "each.n is a list"),
    ('title = "t"\n[each]\nn = []', "each.n is a list of numbers or words"),
]


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_mistakes_of_a_file(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(
        UsageError,
        match=rf"^\S+\.toml(: | cannot be read: | is not TOML: ).*{re.escape(told)}",
    ):
        read_test(path, "3.1/a")


def test_mistakes_in_some_combination(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'title = "t"\nsteps = "S0 -> I0: DATA data={type}:1:1"\n[each]\ntype = ["byte", "bite"]\n'
    )
    with pytest.raises(UsageError, match="no type 'bite'"):
        read_test(path, "3.1/a")
