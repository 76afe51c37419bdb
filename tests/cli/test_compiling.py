"""The common part of impicc and impifort."""

from __future__ import annotations

import sys
import threading

import pytest

from impi.base.errors import LaunchError
from impi.cli import compiling


def test_what_makes_no_program_needs_no_library() -> None:
    assert compiling.links(["x.o", "-o", "x"])
    assert not any(
        compiling.links([flag, "x.c"])
        for flag in ("-c", "-S", "-E", "-M", "-fsyntax-only")
    )


def test_the_compilers_exit_code_is_passed_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command_of(arguments, _environ):
        return [sys.executable, "-c", f"raise SystemExit({arguments[0]})"]

    assert compiling.run("mine", "usage: mine", command_of, ["5"]) == 5
    assert compiling.run("mine", "usage: mine", command_of, ["-show", "5"]) == 0
    assert capsys.readouterr().out == f"{sys.executable} -c 'raise SystemExit(5)'\n"
    assert compiling.run("mine", "usage: mine", command_of, ["--help"]) == 0
    assert compiling.run("mine", "usage: mine", command_of, []) == 4
    assert capsys.readouterr().out == "usage: mine\n" * 2


def test_a_first_use_that_takes_long_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told, known = threading.Event(), compiling._tell

    def tell(name: str) -> None:
        known(name)
        told.set()

    def command_of(_arguments, _environ):
        assert told.wait(60)
        return ["true"]

    monkeypatch.setattr(compiling, "_SILENT_S", 0.0)
    monkeypatch.setattr(compiling, "_tell", tell)
    assert compiling.run("mine", "", command_of, ["x.c"]) == 0
    assert capsys.readouterr().err.startswith("mine: compiling impi's own library")


def test_what_is_missing_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def command_of(_arguments, _environ):
        raise LaunchError("there is no compiler")

    assert compiling.run("mine", "", command_of, ["x.c"]) == 1
    assert capsys.readouterr().err == "mine: there is no compiler\n"
