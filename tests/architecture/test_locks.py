"""Every package that an environment or an image installs has its hashes in a lock file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
TEXT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = TEXT["project"]
LISTS: dict[str, list[str]] = {
    "build": TEXT["build-system"]["requires"],
    "base": PROJECT["dependencies"],
    **PROJECT["optional-dependencies"],
    **TEXT["dependency-groups"],
}
LAB = ("build", "base", "lab", "compiled", "web")
ENVIRONMENTS = {
    "lab": LAB,
    "dev": (*LAB, "plots", "kubernetes", "test", "lint", "schemas"),
    "tests": ("base", "lab", "test"),
    **{group: (group,) for group in ("browser", "docs", "fuzz", "lock", "package")},
}
LOCKS = [
    *(ROOT / "ci" / "locks").glob("*.txt"),
    *(ROOT / "images").glob("*/locked.txt"),
]


def _locked(file: Path) -> dict[str, set[str]]:
    """The requirements of a lock file, each with its hashes."""
    text = file.read_text().replace("\\\n", " ")
    hashes = re.compile(r"sha256:[0-9a-f]{64}")
    return {
        line.split(" --hash")[0].strip(): set(hashes.findall(line))
        for line in text.splitlines()
    }


@pytest.mark.parametrize(
    "file", LOCKS, ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_every_package_has_a_version_and_hashes(file: Path) -> None:
    found = _locked(file)
    assert found
    for requirement, hashes in found.items():
        assert "==" in requirement, requirement
        assert hashes, requirement


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_lock_file_has_the_versions_of_pyproject(name: str) -> None:
    rows = [
        Requirement(text) for text in _locked(ROOT / "ci" / "locks" / f"{name}.txt")
    ]
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.name, []).extend(each.version for each in row.specifier)
    for wanted in map(
        Requirement, (text for part in ENVIRONMENTS[name] for text in LISTS[part])
    ):
        versions = found.get(wanted.name, [])
        assert versions, f"{wanted.name} is in no line: run ci/lock.sh"
        assert all(wanted.specifier.contains(version) for version in versions), (
            f"{wanted}: run ci/lock.sh"
        )


def test_users_get_ranges() -> None:
    """A version alone would forbid every environment that has another one."""
    rows = [
        *PROJECT["dependencies"],
        *(row for part in PROJECT["optional-dependencies"].values() for row in part),
    ]
    assert [row for row in rows if "==" in row or ">=" not in row] == []


def test_images_install_nothing_else() -> None:
    found = [
        f"{file.parent.name}: {line.strip()}"
        for file in (ROOT / "images").glob("*/Dockerfile")
        for line in file.read_text().splitlines()
        if "pip install" in line
    ]
    assert found == []


def test_the_versions_of_vendors_have_hashes() -> None:
    for file in (ROOT / "images").glob("*/locked.txt"):
        manifest = file.with_name(f"{file.parent.name}.toml")
        if not manifest.exists():
            continue
        table = tomllib.loads(manifest.read_text())
        # Apt checks these
        versions = {table["version"], *table["versions"].values()} - {
            "debian",
            "checked",
        }
        assert {
            requirement.partition("==")[2] for requirement in _locked(file)
        } == versions, "run ci/lock.sh"
