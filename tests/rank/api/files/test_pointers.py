"""File pointers, the shared one by several objects and several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import ERR_ACCESS, ERR_ARG, ERR_BAD_FILE
from impi.rank.api.files.pointers import Explicit, Individual, Shared, companion_of


def test_one_procs_own() -> None:
    pointer = Individual(3)
    assert [
        pointer.advance(2),
        pointer.advance(0),
        pointer.advance(1),
        pointer.position,
    ] == [3, 5, 5, 6]


def test_an_offset() -> None:
    assert [Explicit(3).advance(2), Explicit(0).advance(9)] == [3, 0]
    with pytest.raises(MPIException) as raised:
        Explicit(-1)
    assert raised.value == ERR_ARG


def test_one_for_all(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "companion")
    a, b = Shared(path, 5), Shared(path, 5)
    assert (a.position, list(tmp_path.iterdir())) == (5, [])  # a look makes none
    assert [a.advance(2), b.advance(3), a.advance(1)] == [5, 7, 10]
    assert (a.position, b.position) == (11, 11)
    for pointer in (a, b):
        pointer.begin(100)
    assert (a.position, b.position) == (100, 100)
    assert [b.advance(1), a.advance(1)] == [100, 101]
    a.close(remove=False)
    b.close(remove=True)
    assert list(tmp_path.iterdir()) == []
    b.close(remove=True)


def test_one_for_all_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between look and write of one, another would move it: the kernel has one owner."""
    pointer = Shared(os.fsencode(tmp_path / "companion"), 0)
    read = os.pread

    def slow(*args: int) -> bytes:
        row = read(*args)
        turn.set()
        go.wait(0.05)
        return row

    monkeypatch.setattr(os, "pread", slow)
    turn, go = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(pointer.advance, 1)
        turn.wait(20)
        second = pool.submit(pointer.advance, 1)
        assert sorted([first.result(20), second.result(20)]) == [0, 1]
    pointer.close(remove=True)


def test_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pointer = Shared(os.fsencode(tmp_path / "file" / "companion"), 0)
    for call in (lambda: pointer.advance(1), lambda: pointer.position):
        with pytest.raises(MPIException) as raised:
            call()
        assert raised.value.Get_error_class() in (ERR_BAD_FILE, ERR_ACCESS)


PROGRAM = """
import sys
from impi.rank.api.files.pointers import Shared
pointer = Shared(sys.argv[1].encode(), 0)
print(*(pointer.advance(1) for _ in range(2000)))
"""


def test_processes_never_get_one_place_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "companion")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    places = [
        int(word) for process in running for word in process.communicate()[0].split()
    ]
    assert sorted(places) == list(range(6000))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"a", b".a.impi-t"),
        (b"/a", b"/.a.impi-t"),
        (b"x/y/a.b", b"x/y/.a.b.impi-t"),
        (b"x/" + b"n" * 255, b"x/." + b"n" * 200 + b".impi-t"),
    ],
)
def test_companions(path: bytes, expected: bytes) -> None:
    assert companion_of(path, "t") == expected
