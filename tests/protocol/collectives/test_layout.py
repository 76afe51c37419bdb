"""Masters and locals (4.2), with the example of the specification's own text."""

from __future__ import annotations

import pytest

from impi.base.errors import LocalProtocolError
from impi.protocol.collectives import Layout

A, B, C = 7, 3, 5  # the numbers of clients do not matter


def test_eight_processes_of_three_clients() -> None:
    # IMPI 4.2: ranks 0,1,4 under A, 2,3,5 under B, 6,7 under C.
    layout = Layout([A, A, B, B, A, B, C, C])
    assert layout.size == 8
    assert layout.num_masters() == 3
    assert [layout.master_rank(n) for n in range(3)] == [0, 2, 6]
    assert [layout.is_master(r) for r in range(8)] == [r in (0, 2, 6) for r in range(8)]
    assert [layout.master_num(r) for r in range(8)] == [0, -1, 1, -1, -1, -1, 2, -1]
    assert [layout.local_master_num(r) for r in range(8)] == [0, 0, 1, 1, 0, 1, 2, 2]
    assert [layout.local_master_rank(r) for r in range(8)] == [0, 0, 2, 2, 0, 2, 6, 6]
    assert [layout.num_local_to_master(n) for n in range(3)] == [3, 3, 2]
    assert [layout.num_local_to_rank(r) for r in range(8)] == [3, 3, 3, 3, 3, 3, 2, 2]
    assert [layout.locals_to_master(n) for n in range(3)] == [
        (0, 1, 4),
        (2, 3, 5),
        (6, 7),
    ]
    assert layout.locals_to_rank(5) == (2, 3, 5)
    assert (
        layout.are_local(0, 4) and layout.are_local(6, 7) and not layout.are_local(1, 2)
    )


def test_masters_are_numbered_by_rank_not_by_client() -> None:
    layout = Layout([2, 0, 1])
    assert [layout.master_rank(n) for n in range(3)] == [0, 1, 2]
    assert layout.local_master_num(0) == 0


def test_rank_0_is_always_a_master() -> None:
    assert Layout([1, 0, 0]).master_num(0) == 0


def test_a_communicator_has_processes() -> None:
    with pytest.raises(LocalProtocolError, match="without processes"):
        Layout([])


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_is_in_the_communicator(rank: int) -> None:
    with pytest.raises(
        LocalProtocolError, match=f"root {rank} is not in a communicator of 2 processes"
    ):
        Layout([0, 1]).check(rank, "root")
