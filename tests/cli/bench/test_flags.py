"""The options of impi bench, apart from its work."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

import pytest

from impi.base.errors import UsageError
from impi.cli.bench.flags import BENCH_ENDING, add_bench


@pytest.fixture
def parser() -> ArgumentParser:
    made = ArgumentParser()
    add_bench(made.add_subparsers())
    return made


def test_defaults(parser: ArgumentParser) -> None:
    options = parser.parse_args(["bench"])
    assert (options.what, options.vendors, options.runs) == (
        [],
        "pure,mpich,openmpi",
        None,
    )
    assert not options.quick and not options.pin
    assert (options.languages, options.data, options.spin) == (
        "python,c",
        "array",
        None,
    )


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_numbers_of_runs_begin_at_1(
    text: str, parser: ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parser.parse_args(["bench", "--runs", "3"]).runs == 3
    with pytest.raises(SystemExit):
        parser.parse_args(["bench", f"--runs={text}"])
    assert f"{text!r} is not a number from 1" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "long", "inf", "nan"])
def test_spins_are_seconds(
    text: str, parser: ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parser.parse_args(["bench", "--spin", "0.5"]).spin == 0.5
    with pytest.raises(SystemExit):
        parser.parse_args(["bench", f"--spin={text}"])
    assert f"{text!r} is not a number of seconds" in capsys.readouterr().err


def test_a_module_that_is_missing_is_told_with_the_cure(
    parser: ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = parser.parse_args(["bench"])
    monkeypatch.delitem(sys.modules, "impi.cli.bench.verb", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(
        UsageError, match=r"rich.* is not installed; run: pip install 'impilab\[lab\]'"
    ):
        options.handler(options)


def test_a_fault_of_the_benchmark_has_a_code_of_its_own() -> None:
    assert (BENCH_ENDING.prog, BENCH_ENDING.usage, BENCH_ENDING.wrong) == (
        "impi bench",
        4,
        3,
    )
