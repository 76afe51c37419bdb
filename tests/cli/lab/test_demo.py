"""impilab demo: which cells it runs, and when it says how to go on."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from impi.cli.impilab import main
from impi.cli.lab.demo import _demo


@pytest.mark.parametrize("code", [0, 1])
def test_what_follows_is_said_after_a_pass(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []
    assert _demo(lambda line: ran.append(line) or code, Namespace()) == code
    assert ran[0][:3] == ["run", "--backend", "local"]
    assert all(cell.endswith("/pure+pure/1x2+1x2") for cell in ran[0][3:])
    assert ("Go on:" in capsys.readouterr().out) == (code == 0)


def test_the_first_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert "impilab doctor" in capsys.readouterr().out
