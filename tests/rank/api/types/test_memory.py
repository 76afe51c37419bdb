from __future__ import annotations

import mmap

import numpy as np
import pytest

from impi.rank.api.types.memory import address_of, at_address, octets_of, within_reach


class TestOctets:
    @pytest.mark.parametrize(
        "dtype", ["i4", "c16", "f2", "g", "?", "M8[s]", [("a", "i4"), ("b", "f8")]]
    )
    def test_any_type_of_numpy(self, dtype: object) -> None:
        values = np.zeros(3, dtype)  # type: ignore[call-overload]
        view, _ = octets_of(values, readonly=False)
        assert (view.format, view.ndim, view.nbytes) == ("B", 1, values.nbytes)
        assert address_of(view) == values.ctypes.data

    @pytest.mark.parametrize("dtype", ["i4", "c16"])
    def test_fortran_order_is_contiguous(self, dtype: str) -> None:
        values = np.asfortranarray(np.arange(6, dtype=dtype).reshape(2, 3))
        view, _ = octets_of(values, readonly=False)
        assert bytes(view) == values.tobytes(order="F")
        assert address_of(view) == values.ctypes.data

    def test_no_octets(self) -> None:
        assert octets_of(np.zeros((0, 3)), readonly=False)[0].nbytes == 0
        assert octets_of(b"", readonly=True)[0].nbytes == 0

    def test_format(self) -> None:
        assert octets_of(np.zeros(2, "c8"), readonly=True)[1] == "Zf"
        assert octets_of(b"ab", readonly=True)[1] == "B"

    def test_refusals(self) -> None:
        with pytest.raises(BufferError, match="contiguous"):
            octets_of(memoryview(bytes(8))[::2], readonly=True)
        with pytest.raises(BufferError, match="read-only"):
            octets_of(b"abc", readonly=False)
        with pytest.raises(TypeError):
            octets_of([1, 2], readonly=True)


class TestReach:
    def test_memory_of_this_process(self) -> None:
        memory = bytearray(b"hello")
        assert within_reach(address_of(memoryview(memory)), 5, writable=True)
        assert memory == b"hello"

    def test_read_only_memory(self) -> None:
        pages = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
        address = address_of(memoryview(pages))
        assert within_reach(address, mmap.PAGESIZE, writable=False)
        assert not within_reach(address, mmap.PAGESIZE, writable=True)

    def test_no_memory_at_all(self) -> None:
        assert not within_reach(16, 1, writable=False)
        assert within_reach(16, 0, writable=True)

    def test_the_owner_lives_as_long_as_the_view(self) -> None:
        class Owner(bytearray):
            gone = False

            def __del__(self) -> None:
                Owner.gone = True

        owner = Owner(b"abc")
        view = at_address(address_of(memoryview(owner)), 3, owner)
        del owner
        assert bytes(view) == b"abc"
        assert not Owner.gone
        del view
        assert Owner.gone
