"""The memory of a shared window: its file, the locks among processes, the layout."""

from __future__ import annotations

import mmap
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.rank.api.windows.shared import SharedFile, layout

OTHER = """
import sys
from impi.rank.api.windows.shared import SharedFile

path, nbytes = sys.argv[1:]
file = SharedFile.open(path, int(nbytes))
for line in sys.stdin:
    what, *octets = line.split()
    first, count = map(int, octets)
    if what == "write":
        file.view[first : first + count] = bytes([7]) * count
        print(True, flush=True)
    elif what == "unlock":
        print(file.unlock(first, count), flush=True)
    else:
        print(file.try_lock(first, count, exclusive=what == "exclusive"), flush=True)
"""
NBYTES = 10_000


class Other:
    """Another process with the same file."""

    def __init__(self, path: str) -> None:
        command = [sys.executable, "-c", OTHER, path, str(NBYTES)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, what: str, first: int = 0, count: int = 1) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{what} {first} {count}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def file() -> Iterator[SharedFile]:
    file = SharedFile.create(NBYTES)
    yield file
    file.close()


@pytest.fixture
def other(file: SharedFile) -> Iterator[Other]:
    other = Other(file.path)
    yield other
    other.kill()


def test_memory_is_common(file: SharedFile, other: Other) -> None:
    assert bytes(file.view) == bytes(NBYTES)
    assert other("write", 9990, 10) == other("write", 0, 2) == "True"
    assert bytes(file.view) == b"\7\7" + bytes(9988) + b"\7" * 10


def test_a_file_has_no_name_that_could_be_left_behind(file: SharedFile) -> None:
    assert Path(file.path).stat().st_nlink == 0


def test_memory_outlives_the_file() -> None:
    file = SharedFile.create(5)
    view = file.view
    file.close()
    del file
    view[:] = b"still"
    assert bytes(view) == b"still"


@pytest.mark.parametrize(
    ("mine", "theirs", "both"),
    [
        ("exclusive", "exclusive", False),
        ("exclusive", "shared", False),
        ("shared", "exclusive", False),
        ("shared", "shared", True),
    ],
)
def test_locks(
    file: SharedFile, other: Other, mine: str, theirs: str, both: bool
) -> None:
    assert file.try_lock(3, 1, exclusive=mine == "exclusive")
    assert other(theirs, 3) == str(both)
    assert other(theirs, 0, 10) == str(both)  # a lock of all is a lock of each
    assert other(theirs, 4) == "True"
    file.unlock(3, 1)
    assert other("exclusive", 3) == "True"
    assert not file.try_lock(3, 1, exclusive=False)


def test_a_killed_process_has_no_locks(file: SharedFile, other: Other) -> None:
    assert other("exclusive", 0, 5) == "True"
    assert not file.try_lock(4, 1, exclusive=False)
    other.kill()
    assert file.try_lock(4, 1, exclusive=False)


def test_a_moment_of_ones_own(file: SharedFile, other: Other) -> None:
    with file.locked(8):
        assert (other("exclusive", 8), other("exclusive", 7)) == ("False", "True")
    assert other("exclusive", 8) == "True"


def test_a_moment_of_one_thread(file: SharedFile) -> None:
    """The kernel would give both threads the lock: it belongs to their process."""
    inside, seen = threading.Event(), list[bool]()

    def other_thread() -> None:
        with file.locked(8):
            seen.append(inside.is_set())

    thread = threading.Thread(target=other_thread)
    with file.locked(8):
        inside.set()
        thread.start()
        thread.join(0.05)
        assert seen == []
        inside.clear()
    thread.join(20)
    assert seen == [False]


def test_no_octets() -> None:
    file = SharedFile.create(0)
    again = SharedFile.open(file.path, 0)
    assert (len(file.view), len(again.view)) == (0, 0)
    assert file.try_lock(0, 3, exclusive=True)
    again.close()
    file.close()


def test_more_than_there_is() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match="space"):
        SharedFile.create(1 << 60)
    assert set(Path("/proc/self/fd").iterdir()) <= before
    with pytest.raises(FileNotFoundError):
        SharedFile.open("/proc/self/fd/absent", 1)


@given(st.lists(st.integers(0, 20_000), min_size=1))
def test_layouts(sizes: list[int]) -> None:
    """Contiguous: no gap between two ranks. Apart: no page of two ranks."""
    close, apart = layout(sizes, apart=False), layout(sizes, apart=True)
    assert close == ([sum(sizes[:rank]) for rank in range(len(sizes))], sum(sizes))
    offsets, nbytes = apart
    ends = [*offsets[1:], nbytes]
    assert all(offset % mmap.PAGESIZE == 0 for offset in offsets)
    assert all(
        0 <= end - offset - size < mmap.PAGESIZE
        for offset, size, end in zip(offsets, sizes, ends, strict=True)
    )
