"""POSIX calls on pieces of a file, and the classes of their errors."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.errors import MPIException
from impi.rank.api import constants as C
from impi.rank.api.files import descriptor as module
from impi.rank.api.files.descriptor import Descriptor, delete, failure_of
from impi.rank.api.files.view import NOTHING, Pieces


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Descriptor]:
    file = Descriptor(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT), "file")
    yield file
    file.close()


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=12),
    st.booleans(),
)
def test_pieces_against_a_model(gaps: list[tuple[int, int]], atomic: bool) -> None:
    """In any order of pieces, with the end of the file anywhere."""
    number = os.memfd_create("file")
    file = Descriptor(number, "file")
    offsets, lengths, end = [], [], 0
    for gap, length in gaps:
        offsets.append(end + gap)
        lengths.append(length)
        end += gap + length
    pieces = Pieces(offsets, lengths)
    data = os.urandom(sum(lengths))
    model = bytearray(end)
    begin = 0
    for offset, length in zip(offsets, lengths, strict=True):
        model[offset : offset + length] = data[begin : begin + length]
        begin += length
    file.write(pieces, memoryview(data), atomic=atomic)
    assert os.pread(number, 2 * end, 0) == bytes(model)
    for size in (end, end - 1, end // 2, 0):
        file.resize(size)
        room = memoryview(bytearray(len(data)))
        whole = b"".join(
            bytes(model[o : min(o + n, size)])
            for o, n in zip(offsets, lengths, strict=True)
        )
        assert file.read(pieces, room, atomic=atomic) == len(whole)
        assert bytes(room[: len(whole)]) == whole
    file.close()


def test_far_pieces_are_read_alone(opened: Descriptor) -> None:
    opened.write(Pieces([0, 1 << 30], [3, 3]), memoryview(b"abcdef"), atomic=False)
    room = memoryview(bytearray(6))
    assert opened.read(Pieces([0, 1 << 30], [3, 3]), room, atomic=False) == 6
    assert bytes(room) == b"abcdef"
    assert opened.read(Pieces([(1 << 30) + 2, 0], [3, 3]), room, atomic=False) == 1


def test_nothing(opened: Descriptor) -> None:
    opened.write(NOTHING, memoryview(b""), atomic=True)
    assert opened.read(NOTHING, memoryview(bytearray()), atomic=True) == 0
    assert opened.size == 0


def test_calls_that_move_less_than_all(
    opened: Descriptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 4)
    opened.write(Pieces([1, 20], [10, 2]), memoryview(b"0123456789ab"), atomic=False)
    room = memoryview(bytearray(12))
    assert opened.read(Pieces([1, 20], [10, 2]), room, atomic=False) == 12
    assert bytes(room) == b"0123456789ab"


def test_sizes(opened: Descriptor) -> None:
    opened.reserve(100)
    assert opened.size == 100
    opened.reserve(10)
    assert opened.size == 100
    opened.resize(10)
    assert opened.size == 10
    opened.sync()


LOCKS = """
import os, sys
from impi.rank.api.files.descriptor import Descriptor
from impi.rank.api.files.view import Pieces
file = Descriptor(os.open(sys.argv[1], os.O_RDWR), "file")
pieces = Pieces([8 * i for i in range(64)], [4] * 64)
room = memoryview(bytearray(256))
for turn in range(300):
    if sys.argv[2] == "writes":
        file.write(pieces, memoryview(bytes([turn % 251] * 256)), atomic=True)
    else:
        assert file.read(pieces, room, atomic=True) == 256
        assert len(set(room)) == 1, bytes(room)
"""


def test_an_atomic_access_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(512))
    commands = [
        [sys.executable, "-c", LOCKS, str(path), how]
        for how in ("writes", "reads", "writes")
    ]
    running = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    assert [process.communicate()[1] for process in running] == [""] * 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [(errno.ENOENT, C.ERR_NO_SUCH_FILE), (errno.EROFS, C.ERR_READ_ONLY), (errno.ENOSPC, C.ERR_NO_SPACE),
     (errno.EDQUOT, C.ERR_QUOTA), (errno.EIO, C.ERR_IO), (errno.EISDIR, C.ERR_BAD_FILE)],
)  # fmt: skip
def test_classes_of_errors(code: int, expected: int) -> None:
    failure = failure_of(OSError(code, "x"), "the file")
    assert failure == expected
    assert failure.detail.startswith("the file: ")


def test_errors_of_calls(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = Descriptor(os.open(tmp_path / "file", os.O_RDONLY), "file")
    for call in (
        lambda: file.resize(3),
        lambda: file.write(Pieces([0], [1]), memoryview(b"x"), atomic=False),
    ):
        with pytest.raises(MPIException) as raised:
            call()
        assert raised.value == C.ERR_IO
    file.close()
    delete(os.fsencode(tmp_path / "file"))
    for path, expected in (
        (tmp_path / "file", C.ERR_NO_SUCH_FILE),
        (tmp_path, C.ERR_BAD_FILE),
    ):
        with pytest.raises(MPIException) as raised:
            delete(os.fsencode(path))
        assert raised.value == expected
