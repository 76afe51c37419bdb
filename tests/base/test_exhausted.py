"""Sentences about what is exhausted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from impi.base import exhausted


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(errno.EMFILE, "x", "/dev/null"),
            "Too many open files at /dev/null: 'ulimit -n' shows how many files",
        ),
        (
            OSError(errno.ENOSPC, "x", b"/tmp/f"),
            "No space left on device at /tmp/f: free some space",
        ),
        (
            OSError(errno.ENOMEM, "x"),
            "Cannot allocate memory: run fewer processes, or on more nodes",
        ),
        (
            RuntimeError("can't start new thread"),
            "this process gets no more threads: 'ulimit -u' shows how many processes",
        ),
        (RuntimeError("x"), ""),
        (MemoryError(), "this process gets no more memory: run fewer processes"),
        (OSError(errno.ENOENT, "x"), ""),
        (BlockingIOError(errno.EAGAIN, "x"), ""),
        (ValueError("x"), ""),
        (None, ""),
    ],
)
def test_sentences(error: BaseException | None, told: str) -> None:
    assert exhausted.sentence(error).startswith(told) and bool(
        exhausted.sentence(error)
    ) == bool(told)


def test_what_is_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(exhausted, "_MEMORY", str(tmp_path / "meminfo"))
    assert exhausted.short([str(tmp_path), str(tmp_path / "none")]) == ""
    monkeypatch.setattr(exhausted, "_LEAST", 1 << 70)
    assert exhausted.short([str(tmp_path)]).startswith(f"{tmp_path} has ")
    for text, told in (
        ("", ""),
        ("MemAvailable: 2048 kB\n", "memory has 2 MB left"),
        ("MemAvailable:\n", ""),
    ):
        (tmp_path / "meminfo").write_text(text)
        assert exhausted.short([]) == told


def test_a_file_system_without_free_inodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fields = list(os.statvfs(tmp_path))
    full = os.statvfs_result([*fields[:5], 7, 0, 0, *fields[8:]])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert "free space" in exhausted.short(["/x"])
