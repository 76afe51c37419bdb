"""Parts of a plan: together they are all of it, and each machine cuts alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.lab.plan.matrix import NothingSelected, Plan, choose
from impi.lab.plan.shard import Shard, parse_shard


def plan(tier: str = "core") -> Plan:
    return choose(FakeBackend(), tier=tier)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_parts_are_the_whole(count: int) -> None:
    whole = plan()
    parts = [Shard(i + 1, count).of(whole) for i in range(count)]
    ids = sorted(cell.id for part in parts for cell in part.cells)
    assert ids == sorted(cell.id for cell in whole.cells)
    assert len({e.cell.id for part in parts for e in part.excluded}) == len(
        whole.excluded
    )
    assert {part.whole for part in parts} == {tuple(ids)}
    sizes = [len(part.cells) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_the_order_of_a_plan_changes_nothing() -> None:
    whole = plan("smoke")
    assert Shard(2, 3).of(whole) == Shard(2, 3).of(
        replace(whole, cells=whole.cells[::-1])
    )


def test_few_labs_are_opened_twice() -> None:
    whole = plan()
    parts = [{cell.lab for cell in Shard(i, 4).of(whole).cells} for i in range(1, 5)]
    assert sum(map(len, parts)) <= len({cell.lab for cell in whole.cells}) + 3


def test_more_shards_than_cells() -> None:
    small = replace(plan(), cells=plan().cells[:2])
    with pytest.raises(NothingSelected, match="3 shards are more than the 2 cells"):
        Shard(1, 3).of(small)


def test_a_shard_as_text() -> None:
    assert parse_shard("2/3") == Shard(2, 3)
    assert str(Shard(2, 3)) == "2/3"
    for wrong in ("", "2", "0/3", "4/3", "1/1001", "-1/3", "1/2/3", "a/b", "٣/٣"):
        with pytest.raises(UsageError, match="write I/N"):
            parse_shard(wrong)
