"""The folder of a new vendor: what is written, and names that are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.base.manifests import read
from impi.lab.nodes.new_vendor import new_vendor


def test_the_folder_has_all_files_of_the_contract(tmp_path: Path) -> None:
    written = new_vendor(tmp_path, "acme")
    assert {path.name for path in written} == {
        "acme.toml",
        "Dockerfile",
        "install",
        "version",
    }
    manifest = read(tmp_path / "acme" / "acme.toml")
    assert (manifest.name, manifest.kind, manifest.tier) == ("acme", "backed", "weekly")
    for path in written:
        assert "NAME" not in path.read_text("utf-8").replace("/NAME", "").replace(
            "N@V", ""
        )
    for script in ("install", "version"):
        subprocess.run(["/bin/sh", "-n", str(tmp_path / "acme" / script)], check=True)


def test_its_install_gets_nothing_from_a_stranger_before_it_is_edited(
    tmp_path: Path,
) -> None:
    """A registry may have a package of that name, of somebody else: acme is one."""
    new_vendor(tmp_path, "acme")
    script = tmp_path / "acme" / "install"
    done = subprocess.run(
        ["/bin/sh", str(script), str(tmp_path / "prefix"), "1.0", "/bin/false"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"{script}: write here what puts version 1.0 of acme" in done.stderr


@pytest.mark.parametrize("name", ["", "Acme", "1st", "a", "a-b", "../x", "acme@1"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a name of a vendor"):
        new_vendor(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["mpich", "base", "acme"])
def test_what_is_taken_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    with pytest.raises(UsageError, match="is taken"):
        new_vendor(tmp_path, name)
    assert list((tmp_path / "acme").iterdir()) == []
