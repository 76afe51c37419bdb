"""An error that nobody thought of is told as one, and has no exit code of a verdict."""

from __future__ import annotations

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
