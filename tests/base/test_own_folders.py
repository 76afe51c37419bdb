"""Folders of this user's own, beside another user who takes their names."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from impi.base import own_folders


def be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what this user has that of somebody else, for the module."""
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)


def test_the_temporary_folder_is_one_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = own_folders.temporary()
    assert own == f"{tmp_path}/impi-{os.geteuid()}" == own_folders.temporary()
    assert Path(own).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("planted", ["folder", "link", "file"])
def test_who_takes_its_name_gets_nothing(
    planted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    name = tmp_path / f"impi-{os.geteuid()}"
    if planted == "folder":
        name.mkdir()
        name.chmod(0o777)
    elif planted == "link":
        (tmp_path / "elsewhere").mkdir(0o700)
        name.symlink_to(tmp_path / "elsewhere")
    else:
        name.touch()
    own = own_folders.temporary()
    assert own.startswith(f"{name}-")
    assert own_folders.temporary() == own
    assert own_folders.is_mine(own)


def test_a_folder_of_another_user_is_neither_mine_nor_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    assert own_folders.is_mine(str(tmp_path)) and own_folders.is_safe(str(tmp_path))
    be_another(monkeypatch)
    assert not own_folders.is_mine(str(tmp_path))
    assert own_folders.is_safe(str(tmp_path)) is (tmp_path.stat().st_uid == 0)
    assert own_folders.is_safe("/usr") and not own_folders.is_mine("/usr")
    assert not own_folders.is_safe(str(tmp_path / "none"))


def test_a_link_may_lead_to_a_safe_folder_but_is_not_mine(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(0o700)
    (tmp_path / "link").symlink_to("there")
    assert own_folders.is_safe(str(tmp_path / "link")) and not own_folders.is_mine(
        str(tmp_path / "link")
    )


def test_temporary_files_where_others_can_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    own_folders.temporary()
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="others can rename what is in it"):
        own_folders.temporary()


def test_a_lock_is_held_or_not(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with own_folders.opened_lock(path) as lock:
        assert not own_folders.is_held(path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert own_folders.is_held(path)
    assert not own_folders.is_held(path)
    assert own_folders.is_held(str(tmp_path / "none" / "lock"))


def test_others_lose_the_right_to_write(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir(0o777)
    (tmp_path / "in" / "file").touch()
    (tmp_path / "in" / "file").chmod(0o666)
    (tmp_path / "in" / "link").symlink_to("nowhere")
    own_folders.close_to_others(str(tmp_path))
    assert (tmp_path / "in" / "file").stat().st_mode & 0o777 == 0o644
