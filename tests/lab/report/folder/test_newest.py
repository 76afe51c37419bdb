"""The newest run is found, whatever became of the link that points at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from impi.lab.report.folder.newest import newest_run, point_at


def run(runs: Path, name: str) -> Path:
    (runs / name).mkdir(parents=True)
    (runs / name / "plan.json").touch()
    return runs / name


def test_the_link_tells(tmp_path: Path) -> None:
    assert newest_run(tmp_path) is None
    for day in (2, 1):
        path = run(tmp_path, f"2026112{day}T000000-aaaa")
        assert point_at(path) == ""
        assert newest_run(tmp_path) == path.resolve()


def test_a_folder_in_the_place_of_the_link_is_no_hindrance(tmp_path: Path) -> None:
    """A cache of a CI service, or 'cp -r', has followed the link."""
    run(tmp_path, "latest")
    assert newest_run(tmp_path) == tmp_path / "latest"
    path = run(tmp_path, "20261121T000000-aaaa")
    assert (
        point_at(path)
        == f"{tmp_path}/latest does not point at this run: Is a directory"
    )
    assert newest_run(tmp_path) == path.resolve()
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, "latest"]


def test_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    for day in (1, 2):
        path = run(tmp_path, f"2026112{day}T000000-aaaa")
        assert point_at(path).endswith(
            "does not point at this run: Operation not permitted"
        )
    assert newest_run(tmp_path) == path.resolve()


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("gone")
    assert newest_run(tmp_path) is None
    path = run(tmp_path, "20261121T000000-aaaa")
    assert newest_run(tmp_path) == path.resolve()
