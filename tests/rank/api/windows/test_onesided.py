"""The calls on a window of one process: transfers, accumulations, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from window_world import comm, refused

from impi.protocol.semantics.constants import PROC_NULL
from impi.rank.api.constants import (
    ERR_COUNT,
    ERR_DISP,
    ERR_OP,
    ERR_RANK,
    ERR_RMA_RANGE,
    ERR_RMA_SYNC,
    ERR_TRUNCATE,
    ERR_TYPE,
)
from impi.rank.api.types.datatypes import BYTE, DOUBLE, DOUBLE_INT, INT, SHORT, Datatype
from impi.rank.api.types.ops import MAXLOC, NO_OP, PROD, REPLACE, SUM, Op
from impi.rank.api.windows.window import Win

pytestmark = pytest.mark.usefixtures("active")


class TestTransfers:
    def test_put_and_get(self, win: Win, memory: Any) -> None:
        win.Put(np.array([70, 80], "i4"), 0, 2)
        assert memory.tolist() == [0, 1, 70, 80, 4, 5, 6, 7]
        back = np.zeros(3, "i4")
        win.Get(back, 0, [1])
        assert back.tolist() == [1, 70, 80]

    def test_datatypes_of_both_sides(self, win: Win, memory: Any) -> None:
        every_other = INT.Create_vector(3, 1, 2).Commit()
        win.Put([np.array([70, 0, 80, 0, 90], "i4"), 1, every_other], 0, (1, 3, INT))
        assert memory.tolist() == [0, 70, 80, 90, 4, 5, 6, 7]
        back = np.zeros(3, "i4")
        win.Get(back, 0, (3, 1, every_other))
        assert back.tolist() == [90, 5, 7]
        win.Get([back, 12, BYTE], 0, (0, 3, "i"))
        assert back.tolist() == [0, 70, 80]

    def test_a_datatype_of_the_target_must_be_committed(self, win: Win) -> None:
        refused(
            ERR_TYPE, win.Put, np.zeros(2, "i4"), 0, (0, 1, INT.Create_contiguous(2))
        )

    def test_memory_of_the_window_as_origin(self, win: Win, memory: Any) -> None:
        win.Put(memory[0:4], 0, 1)
        assert memory.tolist() == [0, 0, 1, 2, 3, 5, 6, 7]

    def test_nobody(self, win: Win, memory: Any) -> None:
        win.Put(None, PROC_NULL, None)
        win.Get(None, PROC_NULL)
        win.Accumulate([None, INT], PROC_NULL, None, SUM)
        win.Get_accumulate(None, None, PROC_NULL)
        win.Fetch_and_op(None, None, PROC_NULL)
        win.Compare_and_swap(None, None, None, PROC_NULL)
        assert memory.tolist() == list(range(8))

    @pytest.mark.parametrize(
        ("rank", "target", "code"),
        [
            (1, None, ERR_RANK),
            (-1, None, ERR_RANK),
            (0, 7, ERR_RMA_RANGE),
            (0, (0, 9, INT), ERR_RMA_RANGE),
            (0, (-1, 2, INT), ERR_DISP),
            (0, (0, -2, INT), ERR_COUNT),
            (0, (0, 3, INT), ERR_TRUNCATE),
            (0, (0, 1, INT), ERR_TRUNCATE),
        ],
    )
    def test_bad_targets(
        self, win: Win, memory: Any, rank: int, target: Any, code: int
    ) -> None:
        two = np.full(2, 99, "i4")
        refused(code, win.Put, two, rank, target)
        refused(code, win.Get, two, rank, target)
        refused(code, win.Accumulate, two, rank, target)
        refused(code, win.Get_accumulate, two, two.copy(), rank, target)
        assert (memory.tolist(), two.tolist()) == (list(range(8)), [99, 99])

    @pytest.mark.parametrize(
        "target", [(0, 1, INT, 4), {1: 2}, "abc"], ids=["four items", "dict", "text"]
    )
    def test_bad_specifications(self, win: Win, target: Any) -> None:
        with pytest.raises(ValueError, match="target: expecting"):
            win.Put(np.zeros(1, "i4"), 0, target)

    def test_an_epoch_is_needed(self, memory: Any) -> None:
        window = Win.Create(memory, comm=comm())
        one = np.zeros(1, "i4")
        for call in (
            window.Put,
            window.Get,
            window.Accumulate,
            window.Rput,
            window.Rget,
            window.Raccumulate,
        ):
            refused(ERR_RMA_SYNC, call, one, 0)
        window.Fence()
        refused(ERR_RMA_SYNC, window.Rput, one, 0)
        window.Put(one, 0)

    def test_requests(self, win: Win, memory: Any) -> None:
        back = np.zeros(1, "i4")
        win.Lock(0)
        for request in (
            win.Rput(np.array([50], "i4"), 0),
            win.Raccumulate(np.array([5], "i4"), 0),
            win.Rget_accumulate(np.array([2], "i4"), back, 0, op=PROD),
        ):
            assert request.Test()
        assert (memory[0], back[0]) == (110, 55)
        win.Rget(back, 0).Wait()
        win.Rput(None, PROC_NULL).Wait()
        win.Flush(0)
        win.Flush_local_all()
        win.Sync()
        win.Unlock(0)
        assert back[0] == 110


class TestAccumulations:
    def test_replace_sum_and_nothing(self, win: Win, memory: Any) -> None:
        two = np.array([10, 20], "i4")
        win.Accumulate(two, 0, 1)
        assert memory[:4].tolist() == [0, 11, 22, 3]
        win.Accumulate(two, 0, 1, REPLACE)
        assert memory[:4].tolist() == [0, 10, 20, 3]
        back = np.zeros(2, "i4")
        win.Get_accumulate(two, back, 0, 2, SUM)
        assert (back.tolist(), memory[:4].tolist()) == ([20, 3], [0, 10, 30, 23])
        win.Get_accumulate([None, 0, BYTE], back, 0, (2, 2, INT), NO_OP)
        assert (back.tolist(), memory[:4].tolist()) == ([30, 23], [0, 10, 30, 23])

    def test_derived_datatypes(self, win: Win, memory: Any) -> None:
        win.Accumulate(
            np.array([10, 20], "i4"), 0, (1, 1, INT.Create_vector(2, 1, 3).Commit())
        )
        assert memory.tolist() == [0, 11, 2, 3, 24, 5, 6, 7]

    def test_pairs(self) -> None:
        typemap = DOUBLE_INT.typemap
        pairs: Any = np.zeros(2, typemap.dtype)
        pairs["value"], pairs["index"] = [1.0, 5.0], [7, 8]
        window = Win.Create(pairs.view("u1"), comm=comm())
        window.Fence()
        mine = np.zeros(2, typemap.dtype)
        mine["value"], mine["index"] = [3.0, 3.0], [1, 2]
        window.Accumulate([mine.view("u1"), 2, DOUBLE_INT], 0, op=MAXLOC)
        assert (pairs["value"].tolist(), pairs["index"].tolist()) == (
            [3.0, 5.0],
            [1, 8],
        )

    def test_what_cannot_be_accumulated(self, win: Win, memory: Any) -> None:
        one = np.array([9], "i4")
        own = Op.Create(lambda a, b, t: None)
        refused(ERR_OP, win.Accumulate, one, 0, None, own)
        own.Free()
        refused(ERR_OP, win.Accumulate, one, 0, None, NO_OP)
        refused(ERR_OP, win.Accumulate, one, 0, None, Op())
        refused(ERR_OP, win.Accumulate, [one, BYTE], 0)
        refused(ERR_TYPE, win.Accumulate, one, 0, (0, 2, SHORT))
        mixed = Datatype.Create_struct([1, 1], [0, 2], [SHORT, BYTE]).Commit()
        refused(ERR_TYPE, win.Accumulate, [bytearray(3), 1, mixed], 0)
        back = np.array([1], "i4")
        refused(ERR_OP, win.Get_accumulate, [one, BYTE], [back, BYTE], 0)
        assert (memory.tolist(), back.tolist()) == (list(range(8)), [1])

    def test_fetch_and_op(self, win: Win, memory: Any) -> None:
        back = np.zeros(1, "i4")
        win.Fetch_and_op(np.array([10], "i4"), back, 0, 3)
        assert (back[0], memory[3]) == (3, 13)
        win.Fetch_and_op(np.array([99], "i4"), back, 0, 3, NO_OP)
        assert (back[0], memory[3]) == (13, 13)
        refused(ERR_RMA_RANGE, win.Fetch_and_op, back, back, 0, 8)
        pair = INT.Create_contiguous(2).Commit()
        refused(
            ERR_TYPE,
            win.Fetch_and_op,
            [bytearray(8), 1, pair],
            [bytearray(8), 1, pair],
            0,
        )

    def test_compare_and_swap(self, win: Win, memory: Any) -> None:
        back, new = np.zeros(1, "i4"), np.array([50], "i4")
        win.Compare_and_swap(new, np.array([4], "i4"), back, 0, 4)
        assert (back[0], memory[4]) == (4, 50)
        win.Compare_and_swap(np.array([60], "i4"), np.array([4], "i4"), back, 0, 4)
        assert (back[0], memory[4]) == (50, 50)
        eight = bytearray(8)
        refused(
            ERR_TYPE,
            win.Compare_and_swap,
            [eight, DOUBLE],
            [eight, DOUBLE],
            [eight, DOUBLE],
            0,
        )

    def test_single_elements_of_one_type(self, win: Win) -> None:
        one, two, byte = np.zeros(1, "i4"), np.zeros(2, "i4"), bytearray(1)
        with pytest.raises(
            ValueError, match="origin: expecting a single element, got 2"
        ):
            win.Fetch_and_op(two, one, 0)
        with pytest.raises(
            ValueError, match="result: expecting a single element, got 2"
        ):
            win.Fetch_and_op(one, two, 0)
        with pytest.raises(
            ValueError, match="mismatch in origin and result MPI datatypes"
        ):
            win.Fetch_and_op(one, byte, 0)
        with pytest.raises(
            ValueError, match="compare: expecting a single element, got 2"
        ):
            win.Compare_and_swap(one, two, one.copy(), 0)
        with pytest.raises(
            ValueError, match="mismatch in origin and compare MPI datatypes"
        ):
            win.Compare_and_swap(one, byte, one.copy(), 0)
