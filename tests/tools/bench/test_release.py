"""The run of the last release: by its tag, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.tools.bench import release
from impi.tools.bench.rows import Row
from impi.tools.bench.run_file import Report, save


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True
    )


def report(*values: float) -> Report:
    row = Row(
        measure="latency", vendors="pure+pure", unit="us", better="lower", values=values
    )
    return Report(rows=(row,), machine={}, versions={}, options={})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository whose only commit keeps a run."""
    folder = tmp_path / "tree" / "docs" / "measurements"
    folder.mkdir(parents=True)
    save(report(1.0, 1.1, 1.2), folder / "usual.json", brief=True)
    git(tmp_path / "tree", "init", "-q")
    git(tmp_path / "tree", "add", ".")
    git(tmp_path / "tree", "commit", "-q", "-m", "x")
    return tmp_path / "tree"


def test_without_a_tag_there_is_no_release(checkout: Path) -> None:
    assert release.released(checkout) is None
    git(checkout, "tag", "not-a-release")
    assert release.released(checkout) is None
    assert release.released(checkout.parent) is None


def test_the_run_of_the_tag_counts_not_that_of_the_tree(checkout: Path) -> None:
    git(checkout, "tag", "v0.1.0")
    (checkout / "docs" / "measurements" / "usual.json").unlink()
    found = release.released(checkout)
    assert found is not None
    assert found[0] == "v0.1.0"
    assert found[1].rows[0].values == (1.0, 1.1, 1.2)


def test_compare_with_one_file_takes_the_release(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("impi.tools.bench.release.released.__defaults__", (checkout,))
    save(report(2.0, 2.1, 2.2), tmp_path / "new.json")
    assert main(["bench", "compare", str(tmp_path / "new.json")]) == 0
    assert "there is no release with a run" in capsys.readouterr().out
    git(checkout, "tag", "v0.1.0")
    assert main(["bench", "compare", str(tmp_path / "new.json")]) == 1
    assert "beside the run of v0.1.0" in capsys.readouterr().out
