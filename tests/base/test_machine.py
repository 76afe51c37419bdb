"""The machine and the commit that a file of results names."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from impi.base import machine as base
from impi.base.machine import commit, machine


def test_a_machine_is_described_without_its_name() -> None:
    found = machine()
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert str(found["system"]).startswith(platform.system())
    assert found.keys() == {"system", "processor", "cores", "load"}


@pytest.mark.parametrize("text", [None, "flags : fpu\n"])
def test_a_processor_without_a_name_is_named_by_its_kind(
    text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(_path: Path, *_how: str) -> str:
        if text is None:
            raise OSError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)
    assert machine()["processor"] == platform.machine()


def test_a_commit_is_that_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "a").touch()
    subprocess.run([*git, "add", "a"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    monkeypatch.setattr(base, "_ROOT", tmp_path)
    clean = commit()
    assert len(clean) == 10
    (tmp_path / "a").write_text("b")
    assert commit() == f"{clean}, with changes"
    (tmp_path / "site-packages").mkdir()
    monkeypatch.setattr(base, "_ROOT", tmp_path / "site-packages")
    assert commit() == "", "impi is installed in a repository of its user"


def test_without_git_there_is_no_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(base, "_ROOT", tmp_path)
    assert commit() == ""
    (tmp_path / ".git").touch()
    assert commit() == "", "git cannot say"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == ""
