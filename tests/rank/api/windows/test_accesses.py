"""Accesses of memory that this proc can load and store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.places import Place
from impi.rank.api.constants import ERR_RMA_RANGE, ERR_TYPE
from impi.rank.api.types.buffers import UserBuffer, read_buffer
from impi.rank.api.types.datatypes import DOUBLE, INT
from impi.rank.api.windows.accesses import Aim, Direct, octets_of, operand

AIM = Aim(0, 1, 2, INT.typemap)
"""The second and third int."""


class Memory(Direct):
    """Ints of one rank, and when they were accumulated into."""

    def __init__(self, *values: int) -> None:
        self.values: Any = np.array(values, "i4")
        self.alone: list[int] = []

    def place(self, aim: Aim) -> Place:
        return Place(self.values.view("u1").data, aim.disp * 4, aim.count, aim.typemap)

    @contextmanager
    def exclusively(self, rank: int) -> Iterator[None]:
        self.alone.append(rank)
        yield


def ints(*values: int) -> UserBuffer:
    return read_buffer(np.array(values, "i4"), readonly=False)


def test_an_aim_within_a_window_or_not() -> None:
    assert (AIM.nbytes, AIM.span(4, 12), AIM.span(8, None)) == (8, (4, 12), (8, 16))
    for disp_unit, nbytes in ((4, 11), (-4, 12)):
        with pytest.raises(MPIException) as caught:
            AIM.span(disp_unit, nbytes)
        assert caught.value == ERR_RMA_RANGE
    # No data, no matter where
    assert Aim(0, 99, 0, INT.typemap).span(4, 0)[0] == 99 * 4


def test_put_and_get() -> None:
    memory, answer = Memory(1, 2, 3, 4), ints(0, 0)
    memory.put(ints(7, 8), AIM)
    assert memory.values.tolist() == [1, 7, 8, 4]
    memory.get(answer, AIM)
    assert octets_of(answer) == octets_of(ints(7, 8))
    assert memory.alone == []


def test_accumulations_have_the_memory_for_themselves() -> None:
    memory, answer = Memory(1, 2, 3, 4), ints(0, 0)
    memory.accumulate("SUM", ints(10, 20), AIM)
    memory.get_accumulate("PROD", ints(2, 2), answer, AIM)
    assert (memory.values.tolist(), octets_of(answer)) == (
        [1, 24, 46, 4],
        octets_of(ints(12, 23)),
    )
    assert memory.alone == [0, 0]
    assert operand("NO_OP", ints(1), AIM) == ()


def test_a_swap_of_what_is_expected() -> None:
    memory, answer, one = Memory(1, 2, 3), ints(0), Aim(0, 1, 1, INT.typemap)
    memory.swap(ints(9), ints(5), answer, one)
    assert (memory.values.tolist(), octets_of(answer)) == (
        [1, 2, 3],
        octets_of(ints(2)),
    )
    memory.swap(ints(9), ints(2), answer, one)
    assert memory.values.tolist() == [1, 9, 3]
    with pytest.raises(MPIException) as caught:
        memory.swap(ints(9), ints(2), answer, Aim(0, 0, 1, DOUBLE.typemap))
    assert caught.value == ERR_TYPE
