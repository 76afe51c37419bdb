from __future__ import annotations

import array
from typing import Any, cast

import numpy as np
import pytest

from impi.rank.api.types.bufferclass import buffer
from impi.rank.api.types.memory import address_of


class TestBuffer:
    def test_empty(self) -> None:
        empty = buffer()
        assert (len(empty), empty.nbytes, empty.address, empty.obj) == (0, 0, 0, None)
        assert not empty
        assert memoryview(cast(Any, empty)).tobytes() == b""

    def test_view_of_anything_with_memory(self) -> None:
        source = array.array("i", [1, 2, 3])
        view = buffer(source)
        assert (view.nbytes, view.itemsize, view.format, view.readonly) == (
            12,
            1,
            "B",
            False,
        )
        assert view.obj is source
        assert view.address == source.buffer_info()[0]
        view[0] = 9
        assert source[0] == 9
        assert view.cast("i").tolist() == [9, 2, 3]
        assert view.cast("i", (3, 1))[2, 0] == 3
        assert np.frombuffer(view, "i4").tolist() == [9, 2, 3]
        assert bytes(view) == view.tobytes() == source.tobytes()

    def test_items_and_slices(self) -> None:
        view = buffer.allocate(8, clear=True)
        view[:4] = b"abcd"
        view[4:] = 7
        view[-1] = 300
        assert view.tobytes() == b"abcd\7\7\7\x2c"
        part = view[1:3]
        assert type(part) is buffer
        assert part.tobytes() == b"bc"
        part[0] = ord("z")
        assert view[1] == ord("z")
        for index in (8, -9, slice(None, None, 2)):
            with pytest.raises(IndexError):
                view[index]
        with pytest.raises(TypeError):
            view[None]
        with pytest.raises(ValueError, match="length"):
            view[:2] = b"abc"
        with pytest.raises(NotImplementedError):
            del view[0]

    def test_read_only(self) -> None:
        for view in (
            buffer(b"abc"),
            buffer.frombuffer(bytearray(3), readonly=True),
            buffer.allocate(3).toreadonly(),
        ):
            assert view.readonly
            assert memoryview(cast(Any, view)).readonly
            with pytest.raises(TypeError, match="read-only"):
                view[0] = 1
        with pytest.raises(BufferError):
            buffer.frombuffer(b"abc")

    def test_by_address(self) -> None:
        source = bytearray(b"hello")
        view = buffer.fromaddress(address_of(memoryview(source)), 5)
        assert view.tobytes() == b"hello"
        view[0] = ord("j")
        assert source == b"jello"
        assert view.obj is None
        with pytest.raises(ValueError, match="NULL"):
            buffer.fromaddress(0, 1)
        with pytest.raises(ValueError, match="non-negative"):
            buffer.fromaddress(1, -1)

    def test_release(self) -> None:
        view = buffer.allocate(4)
        view.release()
        assert (len(view), view.nbytes, view.address, view.obj, view.readonly) == (
            0,
            0,
            0,
            None,
            False,
        )
        assert view.tobytes() == b""

    def test_compared_by_identity(self) -> None:
        one, two = buffer(b"abc"), buffer(b"abc")
        assert one == one
        assert one != two
        assert len({one, two}) == 2

    def test_bad(self) -> None:
        bad: Any
        for bad in (None, 0, [], ()):
            with pytest.raises(TypeError):
                buffer(bad)
        with pytest.raises(ValueError, match="non-negative"):
            buffer.allocate(-1)
        with pytest.raises(TypeError):
            buffer.allocate(None)  # type: ignore[arg-type]
        assert buffer.allocate(0).nbytes == 0
