"""``make release``: what has to agree before, and what is left in dist/."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType

import pytest

from impi import __version__

TOP = Path(__file__).parents[2]
CHANGES = """# Changelog

## 0.2.0 (unreleased)
* Later.

## 0.1.0 (2026-11-28)

### Mixed jobs
* This.

## 0.0.9 (2026-01-01)
* Before.
"""


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", TOP / "ci/release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notes_are_the_part_of_the_version(release: ModuleType) -> None:
    assert release.notes(CHANGES, "0.1.0") == (
        "2026-11-28",
        "### Mixed jobs\n* This.\n",
    )


@pytest.mark.parametrize(
    ("base", "due"),
    [
        ("", "See a file, a\ntest and [a page](https://a.example/b)."),
        (
            "https://h.example/o/impi/blob/v1",
            "See [a file](https://h.example/o/impi/blob/v1/docs/a.md), [a\ntest]"
            "(https://h.example/o/impi/blob/v1/b.md) and [a page](https://a.example/b).",
        ),
    ],
)
def test_notes_stand_alone(release: ModuleType, base: str, due: str) -> None:
    text = "See [a file](docs/a.md), [a\ntest](b.md) and [a page](https://a.example/b)."
    assert release.standing_alone(text, base) == due


def test_a_workflow_knows_the_address_of_the_tree(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://h.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/impi")
    assert release.tree_on_github("1.0") == "https://h.example/o/impi/blob/v1.0"
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert release.tree_on_github("1.0") == ""


def test_what_is_released_has_a_date(release: ModuleType) -> None:
    with pytest.raises(release.NoRelease, match=r"write '## 0.2.0 \(YYYY-MM-DD\)'"):
        release.notes(CHANGES, "0.2.0")
    with pytest.raises(release.NoRelease, match="has no part about 0"):
        release.notes(CHANGES, "0.3.0")


def test_the_citation_is_of_the_same_version_and_date(release: ModuleType) -> None:
    text = "title: x\nversion: 0.1.0\ndate-released: 2026-11-28\n"
    release.check_citation(text, "0.1.0", "2026-11-28")
    with pytest.raises(release.NoRelease, match="write 'version: "):
        release.check_citation(text, "0.2.0", "2026-11-28")
    with pytest.raises(release.NoRelease, match="write 'date-released: 2026-12-01'"):
        release.check_citation(text, "0.1.0", "2026-12-01")


@pytest.mark.parametrize("tags", [[], ["v0.1.0"], ["v0.1.0", "nightly"], ["nightly"]])
def test_a_release_with_and_without_a_tag(release: ModuleType, tags: list[str]) -> None:
    release.check_tags(tags, [], "0.1.0")


def test_a_tag_names_this_version_and_this_commit(release: ModuleType) -> None:
    with pytest.raises(release.NoRelease, match=r"the tag v0\.2\.0 is not that"):
        release.check_tags(["v0.2.0"], [], "0.1.0")
    with pytest.raises(release.NoRelease, match=r"README\.md is not as in the tagged"):
        release.check_tags(["v0.1.0"], ["README.md"], "0.1.0")
    release.check_tags([], ["README.md"], "0.1.0")


def test_this_version_can_be_released(release: ModuleType) -> None:
    date, text = release.notes((TOP / "CHANGELOG.md").read_text("utf-8"), __version__)
    assert "### Mixed jobs" in text
    citation = (TOP / "CITATION.cff").read_text("utf-8")
    release.check_citation(citation, __version__, date)


def test_no_release_is_one_sentence(
    release: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(release, "__version__", "7.0")
    monkeypatch.setattr("sys.argv", ["release.py", str(tmp_path / "dist")])
    assert release.main() == 4
    told = capsys.readouterr().err
    assert told.startswith("release: ") and told.count("\n") == 1
    assert not (tmp_path / "dist").exists()


def ran(*argv: object, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [*map(str, argv)],
        cwd=cwd,
        env={"PATH": os.defpath, "HOME": str(cwd), "LANG": "C.UTF-8", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.mark.proof
def test_the_release_works_from_an_empty_folder(tmp_path: Path) -> None:
    """The verb itself, whose build and twine an index gives; then a user who has dist/ only."""
    dist, empty = tmp_path / "dist", tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [TOP / "ci/release.sh", dist],
        env=os.environ | {"PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2
    names = {path.name for path in dist.iterdir()}
    stem = f"impilab-{__version__}"
    wheel = f"{stem}-py3-none-any.whl"
    others = {
        f"{stem}.tar.gz",
        f"{stem}-notes.md",
        f"{stem}-lab.cdx.json",
        "SHA256SUMS",
    }
    assert names == {wheel, *others}
    assert done.stdout.count("cdx.json\n") == 1
    assert done.stdout.endswith(f"{wheel}[lab]'\n")
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert digest == hashlib.sha256((dist / name).read_bytes()).hexdigest()
        names.remove(name)
    assert names == {"SHA256SUMS"}
    assert re.match(
        rf"# impilab {__version__} \(\d{{4}}-\d\d-\d\d\)\n",
        (dist / f"{stem}-notes.md").read_text("utf-8"),
    )

    shutil.copy(dist / wheel, empty)
    venv.create(tmp_path / "v", with_pip=True)
    bin_ = tmp_path / "v/bin"
    pip = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
    ran(bin_ / "pip", "install", "--quiet", empty / wheel, cwd=empty, **pip)
    assert ran(bin_ / "impilab", "--version", cwd=empty) == f"impilab {__version__}\n"
    assert "~ p2p.ring/pure+pure/1x2+1x2" in ran(bin_ / "impilab", "demo", cwd=empty)
