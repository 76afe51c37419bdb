from __future__ import annotations

import itertools

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.darray import Distribution, darray
from impi.protocol.semantics.values.datatype import NAMED

NONE, BLOCK, CYCLIC = Distribution.NONE, Distribution.BLOCK, Distribution.CYCLIC
INT = NAMED["INT"]


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize(
    "how", list(itertools.product([BLOCK, CYCLIC], [NONE, BLOCK, CYCLIC]))
)
@pytest.mark.parametrize("block", [None, 2])
def test_the_shares_make_up_the_array(
    how: tuple[Distribution, Distribution], block: int | None, fortran: bool
) -> None:
    shape = (5, 4)
    grid = [3, 1 if how[1] is NONE else 2]
    size = grid[0] * grid[1]
    array = np.arange(20, dtype="i4").reshape(shape, order="F" if fortran else "C")
    octets = array.ravel(order="K").view(np.uint8).data
    seen: list[int] = []
    for rank in range(size):
        share = darray(
            size, rank, shape, how, [block, block], grid, INT, fortran=fortran
        )
        assert (share.lb, share.extent) == (0, 80)
        seen += np.frombuffer(share.pack(octets, 0, 1, external=False), "i4").tolist()
    assert sorted(seen) == list(range(20))


def test_a_block_share_is_a_block() -> None:
    matrix = np.arange(24, dtype="i4").reshape(4, 6)
    share = darray(
        4, 3, (4, 6), (BLOCK, BLOCK), (None, None), (2, 2), INT, fortran=False
    )
    wire = share.pack(matrix.view(np.uint8).reshape(-1).data, 0, 1, external=False)
    assert np.frombuffer(wire, "i4").tolist() == matrix[2:, 3:].ravel().tolist()


def test_a_cyclic_share_takes_turns() -> None:
    row = np.arange(10, dtype="i4")
    share = darray(2, 1, (10,), (CYCLIC,), (3,), (2,), INT, fortran=False)
    wire = share.pack(row.view(np.uint8).data, 0, 1, external=False)
    assert np.frombuffer(wire, "i4").tolist() == [3, 4, 5, 9]


def test_a_process_may_have_nothing() -> None:
    assert darray(4, 3, (3,), (BLOCK,), (None,), (4,), INT, fortran=False).size == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 2, (4,), (BLOCK,), (None,), (2,)),
        (3, 0, (4,), (BLOCK,), (None,), (2,)),
        (2, 0, (4,), (NONE,), (None,), (2,)),
        (2, 0, (4,), (BLOCK,), (1,), (2,)),
        (2, 0, (4,), (CYCLIC,), (0,), (2,)),
        (1, 0, (0,), (BLOCK,), (None,), (1,)),
        (1, 0, (), (), (), ()),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...]) -> None:
    with pytest.raises(MPIException):
        darray(*arguments, INT, fortran=False)  # type: ignore[arg-type, misc]
