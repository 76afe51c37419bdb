"""The cache: its place, and folders that are made once."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import cache


def test_the_place() -> None:
    assert cache.folder({"IMPI_CACHE": "/mine", "HOME": "/home/me"}) == "/mine"
    assert cache.folder({"HOME": "/home/me"}) == "/home/me/.cache/impi"


def test_a_folder_is_made_once_however_many_want_it(tmp_path: Path) -> None:
    place, made = str(tmp_path / "sub" / "done"), []

    def fill(folder: str) -> None:
        made.append(folder)
        Path(folder).mkdir()
        Path(folder).with_name("scratch").touch()
        Path(folder, "file").write_text("whole")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: cache.make(place, fill, ["file"]), range(8)))
    assert len(made) == 1
    assert Path(place, "file").read_text() == "whole"
    assert sorted(path.name for path in Path(place).parent.iterdir()) == [
        "done",
        "done.lock",
    ]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: str) -> None:
        Path(folder).mkdir()
        raise LaunchError("no compiler")

    with pytest.raises(LaunchError, match="no compiler"):
        cache.make(str(tmp_path / "done"), fail, ["file"])
    assert [path.name for path in tmp_path.iterdir()] == ["done.lock"]


def fill(folder: str) -> None:
    Path(folder).mkdir()
    Path(folder, "file").write_text("whole")
    Path(folder, "other").touch()


def test_a_folder_with_a_hole_is_made_again(tmp_path: Path) -> None:
    """Tools that clean up remove single files, old ones first."""
    place = tmp_path / "done"
    for _ in range(2):
        cache.make(str(place), fill, ["file", "other"])
        assert (place / "file").read_text() == "whole"
        (place / "file").unlink()
        (place / "other").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["done", "done.lock"]


def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    cache.make(str(tmp_path / "done"), fill, ["file"])
    assert (tmp_path / "done" / "file").exists()


def test_where_nothing_can_be_written_temporary_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "file"
    home.touch()
    own = tmp_path / f"impi-{os.geteuid()}"
    assert cache.folder({}) == str(own)
    assert cache.place({"HOME": str(home)}, "mpich", ["x"]) == f"{own}/mpich"
    tmp_path.chmod(0o777)
    with pytest.raises(
        LaunchError,
        match=r"others can rename what is in it \('chmod \+t' forbids that\); set IMPI_CACHE",
    ):
        cache.place({"HOME": str(home)}, "mpich", ["x"])


@pytest.mark.parametrize("named", ["", "mpich"])
def test_nothing_is_loaded_from_where_others_can_write(
    named: str, tmp_path: Path
) -> None:
    place = tmp_path / "cache" / "mpich"
    cache.make(str(place), fill, ["file", "other"])
    environ = {"IMPI_CACHE": str(tmp_path / "cache")}
    assert cache.place(environ, "mpich", ["file"]) == str(place)
    (tmp_path / "cache" / named).chmod(0o775)
    with pytest.raises(
        LaunchError,
        match=r"^others can write .*: 'chmod go-w' it if it is yours, or set IMPI_CACHE to",
    ):
        cache.place(environ, "mpich", ["file"])


def test_others_cannot_write_what_is_made_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache.make(str(tmp_path / "cache" / "done"), fill, ["file"])
    finally:
        os.umask(before)
    made = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert not any(path.stat().st_mode & 0o022 for path in made)


def test_what_killed_builds_leave_is_swept(tmp_path: Path) -> None:
    for name in ("done", "gone", "busy"):
        (tmp_path / f"{name}.made-x1y2").mkdir()
    (tmp_path / "mine").mkdir()
    with (tmp_path / "busy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache.make(str(tmp_path / "done"), fill, ["file"])
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "busy.made-x1y2",
        "done",
        "mine",
    ]


def test_a_lock_is_no_link_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "done.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(
        LaunchError,
        match="cannot be made: Too many levels of symbolic links; set IMPI_CACHE",
    ):
        cache.make(str(tmp_path / "done"), fill, ["file"])
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize("name", ["my home", "a:b"])
def test_a_path_that_the_loader_cannot_take_has_a_link(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = cache.place({"IMPI_CACHE": str(tmp_path / name)}, "mpich", ["file"])
    assert not {*" :"} & {*place}
    cache.make(place, fill, ["file"])
    assert (tmp_path / name / "mpich" / "file").exists()
    assert cache.place({"IMPI_CACHE": str(tmp_path / name)}, "mpich", ["file"]) == place
