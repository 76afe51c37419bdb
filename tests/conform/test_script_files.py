"""The tests of the tester are files: all of them can be read, and make sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.conform.clause_titles import TITLES
from impi.conform.configuration import Configuration
from impi.conform.expressions import evaluate, substitute
from impi.conform.script_files import all_tests, clause_order, read_test, select
from impi.errors import UsageError


def test_all_files_can_be_read() -> None:
    tests = all_tests()
    assert len(tests) > 100
    assert len({test.name for test in tests}) == len(tests)
    assert all(test.passive == (not test.steps) for test in tests)
    assert [test.title for test in tests if not test.title or test.title.endswith(".")] == []


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
    assert {t.clause for t in select(tests, ["3.7"])} == {"3.7", "3.7.1", "3.7.2", "3.7.3", "3.7.4"}
    assert {t.clause for t in select(tests, ["cancel"])} == {"3.7.4"}
    assert select(tests, []) == tests
    with pytest.raises(UsageError, match="no test is named"):
        select(tests, ["9.9"])
    assert sorted(["3.10", "3.9"], key=clause_order) == ["3.9", "3.10"]


def test_expressions() -> None:
    assert evaluate("2*datalen + 1 - n // 2", {"datalen": 8, "n": 5}) == 15
    assert substitute("len={n % 4} tag={-n}", {"n": 6}) == "len=2 tag=-6"
    for wrong in ("other", "1 +", "open('x')", "n ** 2"):
        with pytest.raises(UsageError, match="cannot be evaluated"):
            evaluate(wrong, {"n": 1})


def test_repetition_and_parameters(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('title = "t"\nsteps = """\n# a comment\n{n} x I0: echo a={i}\n"""\n[each]\nn = [1, 2]\n')
    test = read_test(path, "3.1/a")
    assert list(test.variants()) == [{"n": 1}, {"n": 2}]
    path.write_text('title = "t"\nsteps = "finish"\n[each]\nroot = ["ranks"]\n')
    assert list(read_test(path, "3.1/a").variants(3)) == [{"root": 0}, {"root": 1}, {"root": 2}]
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


def test_the_control_rank_is_the_last_simulated_one() -> None:
    assert Configuration(clients=("IUT", "2,1"), procs=2).control == 4
    assert Configuration(clients=("2,1", "IUT"), procs=2).control == 2
    assert Configuration(clients=("1", "IUT", "1"), procs=3).control == 4
