"""The figures of the program that a real job runs."""

from __future__ import annotations

import numpy as np

from impi.protocol.collectives import Recv, Send
from impi.tools.simulate import probe


def test_the_lowest_tenth_counts() -> None:
    assert probe._low([]) == 0.0
    assert probe._low(range(100, 0, -1)) == 11


def test_of_two_rounds_the_lower_figures_count() -> None:
    one = {
        "wide": {"small": 1.0, "large": 9.0},
        "rows": [{"name": "bcast", "time": 5.0}],
    }
    other = {
        "wide": {"small": 2.0, "large": 8.0},
        "rows": [{"name": "bcast", "time": 4.0}],
    }
    assert probe._least(one, other) == {
        "wide": {"small": 1.0, "large": 8.0},
        "rows": [{"name": "bcast", "time": 4.0}],
    }


def test_a_start_is_as_late_as_its_last_process() -> None:
    class Comm:
        def allgather(self, mine: dict[str, float]) -> list[dict[str, float]]:
            return [mine, {"submitted": 3.0, "answered": 4.0, "danced": 9.0}]

    stamps = {"submitted": 1.0, "answered": 5.0, "danced": 6.0}
    assert probe._start(Comm(), stamps) == {"labels": 2.0, "ready": 6.0}


def test_a_round_trip_is_sent_by_one_and_answered_by_the_other() -> None:
    def steps(rank: int) -> list[type]:
        taken: list[float] = []
        found = [
            type(step) for steps in probe._trips(rank, 2, 8, 2, taken) for step in steps
        ]
        assert len(taken) == (2 if rank == 0 else 0)
        return found

    assert steps(0) == [Send, Recv] * 2
    assert steps(2) == [Recv, Send] * 2
    assert steps(1) == []


def test_the_order_of_the_ordered_operation_matters() -> None:
    one, other = np.array([1]), np.array([2])
    probe._first(one, other, None)
    assert other == [1]
