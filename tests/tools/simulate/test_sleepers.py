"""Two processes that sleep, as two threads."""

from __future__ import annotations

import queue
import threading
from typing import Any

from impi.tools.simulate.sleepers import sleepers


class Pair:
    """A communicator of two threads."""

    def __init__(self, rank: int, way: queue.Queue[Any]) -> None:
        self.rank, self.way = rank, way

    def Get_rank(self) -> int:
        return self.rank

    def send(self, value: object, dest: int) -> None:
        assert dest == 1
        self.way.put(value)

    def recv(self, source: int) -> Any:
        assert source == 0
        return self.way.get(timeout=30)


def test_rank_0_sees_all_times_and_rank_1_none() -> None:
    way: queue.Queue[Any] = queue.Queue()
    other: list[dict[str, float]] = []
    second = threading.Thread(target=lambda: other.append(sleepers(Pair(1, way), 5)))
    second.start()
    found = sleepers(Pair(0, way), 5)
    second.join()
    assert found.keys() == {"connect", "accept", "send", "way"}
    assert all(0 < seconds < 30 for seconds in found.values())
    assert found["way"] >= found["send"] / 2
    assert other == [{}]
