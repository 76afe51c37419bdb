"""impilab new, check and vendor-ci: a vendor's own verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from forge import FakeBackend

from impi.cli.impilab import main
from impi.cli.lab import vendor as verbs
from impi.lab.run.vendor_check import Requirement


def test_the_ci_of_a_vendor_runs_no_cell_before_its_requirements_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran: list[list[str]] = []

    def run(line: list[str]) -> int:
        ran.append(line)
        return 1

    options = type("Options", (), {"name": "mpich", "backend": None})()
    assert verbs._vendor_ci(options, run) == 1
    assert ran == [["check", "mpich"]]
    assert "no cell was run" in capsys.readouterr().err
    ran.clear()
    assert verbs._vendor_ci(options, lambda line: ran.append(line) or 0) == 0
    assert ran[1:] == [["run", "--with", "mpich", "--tier", "pairs"]]


def test_a_new_vendor_is_a_folder_with_what_is_to_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs, "new_vendors", lambda: tmp_path / "images")
    assert main(["new", "vendor", "acme"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert str(tmp_path / "images" / "acme" / "acme.toml") in printed
    assert all(Path(line).is_file() for line in printed[:-1])
    assert printed[-1] == "edit these, then: impilab check acme"


def test_a_requirement_that_is_not_fulfilled_is_told_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Requirement(number="R01", text="one", ok=True, evidence="well"),
        Requirement(number="R02", text="two", ok=False, evidence="bad", cure="mend it"),
        Requirement(number="R03", text="three", ok=None, evidence="R02"),
    ]
    monkeypatch.setattr(verbs, "check", lambda name, backend: rows)
    assert main(["check", "mpich"], choose=lambda name: FakeBackend()) == 1
    out = capsys.readouterr().out
    assert "R01 ✓ one: well\n" in out
    assert (
        "R02 ✗ two: bad\n      cure: mend it\nR03 – three: R02\n"
        "mpich: 1 not fulfilled, 1 not tried\n" in out
    )
    monkeypatch.setattr(verbs, "check", lambda name, backend: rows[:1])
    assert main(["check", "mpich"], choose=lambda name: FakeBackend()) == 0
    assert main(["check", "nosuch"], choose=lambda name: FakeBackend()) == 4
