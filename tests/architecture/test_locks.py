"""Every package that an environment or an image installs has its hashes in a lock file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ENVIRONMENTS = {
    "lab": ("lab", "vendors", "compiled", "web"),
    "dev": ("lab", "vendors", "compiled", "web", "test", "lint", "plots", "kubernetes", "schemas"),
    "fuzz": ("fuzz",),
    "tests": ("test",),
    "browser": ("browser",),
    "lock": ("lock",),
}
LOCKS = [*(ROOT / "ci" / "locks").glob("*.txt"), *(ROOT / "images").glob("*/locked.txt")]


def _locked(file: Path) -> dict[str, set[str]]:
    """The requirements of a lock file, each with its hashes."""
    text = file.read_text().replace("\\\n", " ")
    hashes = re.compile(r"sha256:[0-9a-f]{64}")
    return {line.split(" --hash")[0].strip(): set(hashes.findall(line)) for line in text.splitlines()}


@pytest.mark.parametrize("file", LOCKS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_package_has_a_version_and_hashes(file: Path) -> None:
    found = _locked(file)
    assert found
    for requirement, hashes in found.items():
        assert "==" in requirement, requirement
        assert hashes, requirement


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_lock_file_has_the_versions_of_pyproject(name: str) -> None:
    found = {requirement.split(" ;")[0] for requirement in _locked(ROOT / "ci" / "locks" / f"{name}.txt")}
    wanted = {requirement for extra in ENVIRONMENTS[name] for requirement in EXTRAS[extra]}
    assert wanted - found == set(), "run ci/lock.sh"


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
        versions = {table["version"], *table["versions"].values()} - {"debian", "checked"}  # apt checks these
        assert {requirement.partition("==")[2] for requirement in _locked(file)} == versions, "run ci/lock.sh"
