"""An error that nobody thought of is told as one, and has no exit code of a verdict."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from impi.cli.guard import guarded


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["impilab", "ls"], 3), (["impilab", "repro", "x"], 125), (["impi"], 3)],
)
def test_a_fault_of_our_own_is_no_verdict(
    argv: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main() -> int:
        raise LookupError("nobody thought of this")

    monkeypatch.setattr(sys, "argv", argv)
    assert guarded(argv[0], main) == code
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == "LookupError: nobody thought of this"
    assert (
        said[-1]
        == f"{argv[0]}: that is a fault of {argv[0]}, and no verdict; please report these lines"
    )


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.EACCES, "name one that you may use"),
        (errno.EROFS, "name one on a file system that can be written"),
        (errno.ENAMETOOLONG, "name a shorter one"),
        (errno.ELOOP, "name the file itself"),
        (errno.ENOTDIR, "a part of that path is a file"),
    ],
)
@pytest.mark.parametrize(("name", "code"), [("impirun", 4), ("impilab", 3)])
def test_a_path_that_the_system_refuses_is_one_sentence(
    number: int, cure: str, name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Path.is_file() raises where a folder above is closed, or the name too long."""

    def main() -> int:
        raise OSError(number, os.strerror(number), "/closed/x.py")

    assert guarded(name, main) == code
    said = capsys.readouterr().err
    assert said.startswith(f"{name}: /closed/x.py: {os.strerror(number)}; ")
    assert cure in said
    assert said.count("\n") == 1


def test_ctrl_c_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise KeyboardInterrupt

    assert guarded("impilab", main) == 2
    assert capsys.readouterr().err == "impilab: interrupted\n"


def test_other_commands_keep_their_tracebacks() -> None:
    def main() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        guarded("impirun", main)
