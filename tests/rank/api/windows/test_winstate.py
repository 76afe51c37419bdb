"""The object behind a window: its memory, its regions, its hints, and groups of procs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from window_world import comm, refused

from impi.rank.api.constants import (
    ERR_RMA_ATTACH,
    ERR_RMA_FLAVOR,
    ERR_RMA_RANGE,
    WIN_FLAVOR_DYNAMIC,
)
from impi.rank.api.handles.info import Info
from impi.rank.api.types.bufferclass import buffer
from impi.rank.api.types.buffers import BOTTOM
from impi.rank.api.types.datatypes import Get_address
from impi.rank.api.windows.window import Win

pytestmark = pytest.mark.usefixtures("active")


class TestDynamic:
    def test_targets_are_addresses(self) -> None:
        window = Win.Create_dynamic(comm=comm())
        assert (window.attrs, window.flavor, len(window.tomemory())) == (
            (0, 0, 1),
            WIN_FLAVOR_DYNAMIC,
            0,
        )
        first, second = np.arange(4, dtype="i4"), np.arange(10, 14, dtype="i4")
        window.Attach(first)
        window.Attach(second)
        window.Fence()
        window.Put(np.array([70], "i4"), 0, Get_address(second) + 4)
        assert second.tolist() == [10, 70, 12, 13]
        window.Accumulate(np.array([5, 5], "i4"), 0, Get_address(first))
        assert first.tolist() == [5, 6, 2, 3]
        refused(
            ERR_RMA_RANGE,
            window.Put,
            np.zeros(1, "i4"),
            0,
            Get_address(first) + 16 * 1024,
        )
        window.Detach(second)
        refused(ERR_RMA_RANGE, window.Put, np.zeros(1, "i4"), 0, Get_address(second))
        assert second.tolist() == [10, 70, 12, 13]

    def test_regions_do_not_overlap(self) -> None:
        window = Win.Create_dynamic(comm=comm())
        whole = np.zeros(8, "u1")
        window.Attach(whole[2:6])
        for part in (whole, whole[2:6], whole[:3], whole[5:], whole[3:4]):
            refused(ERR_RMA_ATTACH, window.Attach, part)
        window.Attach(whole[:2])
        window.Attach(whole[6:])
        refused(ERR_RMA_ATTACH, window.Detach, whole[1:])
        window.Detach(whole[2:6])
        refused(ERR_RMA_ATTACH, window.Detach, whole[2:6])

    def test_only_dynamic_windows_have_regions(self, win: Win) -> None:
        refused(ERR_RMA_FLAVOR, win.Attach, bytearray(1))
        refused(ERR_RMA_FLAVOR, win.Detach, bytearray(1))
        refused(ERR_RMA_FLAVOR, Win.Create_dynamic(comm=comm()).Shared_query, 0)


def test_the_memory_lives_as_long_as_the_window() -> None:
    window = Win.Create(buffer.allocate(4, clear=True), comm=comm())
    window.Fence()
    window.Put(b"abcd", 0)
    assert window.tomemory().tobytes() == b"abcd"


@pytest.mark.parametrize(
    "nothing", [None, BOTTOM, bytearray()], ids=["None", "BOTTOM", "empty"]
)
def test_on_no_memory(nothing: Any) -> None:
    window = Win.Create(nothing, comm=comm())
    assert window.attrs == (0, 0, 1)
    assert len(window.tomemory()) == 0


def test_hints() -> None:
    window = Win.Allocate(1, info=Info.Create({"no_locks": "true"}), comm=comm())
    window.info = Info.Create({"a": "b", "accumulate_ordering": "none"})
    hints = dict(window.Get_info().items())
    assert (hints["no_locks"], hints["accumulate_ordering"]) == ("true", "none")
    assert hints["accumulate_ops"] == "same_op_no_op"
    assert "a" not in hints
