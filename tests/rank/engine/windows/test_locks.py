"""The locks of one target, against a model that knows every holder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from impi.rank.engine.windows.locks import Locks


def test_an_exclusive_lock_waits_for_shared_ones_and_is_not_overtaken() -> None:
    locks = Locks()
    assert locks.request(0, exclusive=False)
    assert locks.request(1, exclusive=False)
    assert not locks.request(2, exclusive=True)
    assert not locks.request(3, exclusive=False)
    assert locks.release(0) == []
    assert locks.release(1) == [2]
    assert not locks.request(4, exclusive=False)
    assert locks.release(2) == [3, 4]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_holders_exclude_each_other_and_nobody_is_forgotten(
    steps: list[tuple[int, bool]],
) -> None:
    locks = Locks()
    held: dict[int, bool] = {}
    waiting: dict[int, bool] = {}

    def granted(ranks: list[int]) -> None:
        for rank in ranks:
            held[rank] = waiting.pop(rank)
        assert len(held) <= 1 or not any(held.values())

    for rank, exclusive in steps:
        if rank in held:
            del held[rank]
            granted(locks.release(rank))
        elif rank not in waiting:
            waiting[rank] = exclusive
            if locks.request(rank, exclusive=exclusive):
                granted([rank])
    while held:
        rank = min(held)
        del held[rank]
        granted(locks.release(rank))
    assert not waiting
