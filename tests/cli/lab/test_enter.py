"""Into a lab that stays."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from impi.base.errors import LabError
from impi.cli.lab import enter as entering
from impi.cli.lab.enter import enter


def saved(home: Path, *, private_key: str = "", **environment: str):
    """A lab with one node."""
    access = SimpleNamespace(environment={"c0n0": environment}, private_key=private_key)
    return SimpleNamespace(
        access=access,
        node=lambda name: SimpleNamespace(home=str(home)),
        config=home / "ssh_config",
    )


def test_on_loopback_it_is_a_process_with_the_nodes_variables(tmp_path: Path) -> None:
    lab = saved(tmp_path, MINE="7")
    script = "import os, pathlib; pathlib.Path('told').write_text(os.environ['MINE']); raise SystemExit(3)"
    assert enter(lab, "c0n0", [sys.executable, "-c", script]) == 3
    assert (tmp_path / "told").read_text() == "7"


@pytest.mark.parametrize(
    ("script", "code"), [("kill -TERM $$", 128 + 15), ("exit 0", 0)]
)
def test_the_status_is_that_of_a_shell(script: str, code: int, tmp_path: Path) -> None:
    assert (
        enter(saved(tmp_path, PATH="/usr/bin:/bin"), "c0n0", ["/bin/sh", "-c", script])
        == code
    )


def test_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert enter(saved(tmp_path), "c0n0", ["/no/such/program"]) == 127
    assert (
        "impilab: /no/such/program: No such file or directory"
        in capsys.readouterr().err
    )


def test_containers_are_reached_by_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(entering, "_run", lambda argv: ran.append(argv) or 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    lab = saved(tmp_path, private_key="secret", B="two words", A="1")
    assert enter(lab, "c0n0", ["echo", "it's"]) == 0
    assert ran == [
        [
            "ssh",
            "-F",
            str(tmp_path / "ssh_config"),
            "c0n0",
            "env A=1 'B=two words' echo 'it'\"'\"'s'",
        ]
    ]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LabError, match="there is no ssh on this machine"):
        enter(lab, "c0n0", [])
