"""How impi and impilab end."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from impi.base.errors import JobError, UsageError
from impi.cli import impi, impilab
from impi.cli.ending import VERBS_OF, Ending

ENDING = Ending(prog="prog", usage=2, wrong=1, interrupted=130)


def test_the_verbs_of_both_commands_are_known() -> None:
    """An error names them without the other command's parser, which takes long to make."""
    for parser in (impilab.parser_of_all(), impi.parsers()[0]):
        [verbs] = [
            each.choices for each in parser._actions if isinstance(each.choices, dict)
        ]
        assert {*VERBS_OF[parser.prog]} - {"simulate"} == {*verbs}


def fail(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UsageError("no such thing"), 2, "prog: no such thing\n"),
        (JobError("it broke", clause="3.8"), 1, "prog: it broke (IMPI 3.8)\n"),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
    ],
)
def test_errors(
    error: BaseException, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ENDING.of(lambda: fail(error)) == code
    assert capsys.readouterr().err == sentence


def test_the_code_of_the_verb() -> None:
    assert [ENDING.of(partial(int, code)) for code in (0, 1, 77)] == [0, 1, 77]


@pytest.mark.parametrize("words", ["'x'", "'x', flush=True"])
def test_an_output_that_is_full(words: str) -> None:
    program = (
        "import sys; from impi.cli.ending import Ending; "
        "ending = Ending(prog='prog', usage=2, wrong=3, interrupted=130); "
        f"sys.exit(ending.of(lambda: print({words}) or 0))"
    )
    with Path("/dev/full").open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    said = "prog: No space left on device: free some space\n"
    assert (done.returncode, done.stderr) == (3, said)


@pytest.mark.parametrize(
    ("work", "unread", "code", "sentence"),
    [
        # It had ended; only what it said was not read
        ("print('x' * 9) or 7", "", 7, ""),
        ("print('x' * 9) or 7", "not finished", 7, ""),
        ("print('x' * 9, flush=True)", "", 0, ""),
        ("print('x' * 9, flush=True)", "not finished", 1, "prog: not finished\n"),
    ],
)
def test_a_reader_that_is_gone(
    work: str, unread: str, code: int, sentence: str
) -> None:
    program = (
        "import sys; from impi.cli.ending import Ending; "
        "ending = Ending(prog='prog', usage=2, wrong=1, interrupted=130); "
        f"sys.exit(ending.of(lambda: {work}, unread={unread!r}))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"
    }
    with os.fdopen(writing, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (code, sentence)
