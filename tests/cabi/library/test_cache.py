"""The cache: its place, and folders that are made once."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import cache


def test_the_place() -> None:
    assert cache.folder({"IMPI_CACHE": "/mine", "HOME": "/home/me"}) == "/mine"
    assert cache.folder({"HOME": "/home/me"}) == "/home/me/.cache/impi"
    assert cache.folder({}) == f"{tempfile.gettempdir()}/.cache/impi"


def test_a_folder_is_made_once_however_many_want_it(tmp_path: Path) -> None:
    place, made = str(tmp_path / "sub" / "done"), []

    def fill(folder: str) -> None:
        made.append(folder)
        Path(folder).mkdir()
        Path(folder).with_name("scratch").touch()
        Path(folder, "file").write_text("whole")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: cache.make(place, fill), range(8)))
    assert len(made) == 1
    assert Path(place, "file").read_text() == "whole"
    assert sorted(path.name for path in Path(place).parent.iterdir()) == ["done", "done.lock"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: str) -> None:
        Path(folder).mkdir()
        raise LaunchError("no compiler")

    with pytest.raises(LaunchError, match="no compiler"):
        cache.make(str(tmp_path / "done"), fail)
    assert [path.name for path in tmp_path.iterdir()] == ["done.lock"]
