"""How long a wait sleeps on a library that wakes nobody."""

from __future__ import annotations

import math

import pytest
from engine_world import make_job, run_job

from impi.rank.engine import turns
from impi.rank.engine.engine import Engine

WAIT_S = 10.0


class Clock:
    """Time that goes by in sleeps alone, and a little between them."""

    def __init__(self) -> None:
        self.now = 1.0
        self.naps: list[tuple[float, float]] = []

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now

    def turn(self, timeout: float) -> bool:
        self.naps.append((self.now - 1.0, timeout))
        self.now += timeout
        return False


def naps(monkeypatch: pytest.MonkeyPatch, *, busy: bool) -> list[tuple[float, float]]:
    """The time and length of each sleep in a wait of :data:`WAIT_S` for a local message."""
    clock = Clock()

    def program(engine: Engine) -> None:
        own = engine.turns
        own._vendor_fd, own.others, own.patience.spin_s = None, True, 0.0
        with monkeypatch.context() as patch:
            patch.setattr(turns, "perf_counter", clock)
            patch.setattr(own, "_turn", clock.turn)
            # The test's own threads
            patch.setattr(type(own.threads), "notice", lambda _self: False)
            if busy:
                patch.setattr(own, "active", [object()])
            own.wait(lambda: clock.now > 1.0 + WAIT_S, polling=True)

    run_job(make_job([1]), program)
    return clock.naps


def test_a_message_after_a_long_wait_is_late_by_a_hundredth_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = naps(monkeypatch, busy=False)
    assert all(timeout <= turns._NAP_S + waited / 100 for waited, timeout in found)
    late = [timeout for waited, timeout in found if waited > 1.0]
    assert len(late) < 100 * math.log(WAIT_S) + 3, (
        "of looks that are a hundredth of the wait apart, as many lie between 1 and 2 s as "
        "between 10 and 20 s"
    )


@pytest.mark.parametrize("first", [turns.REMOTE_ONLY_S, turns.IDLE_S])
def test_sleeps_without_a_clock_grow_by_a_hundredth_of_the_wait(first: float) -> None:
    waited, sleep_s = 0.0, first
    while waited < 200.0:
        assert sleep_s == pytest.approx(min(first + waited / 100, turns.IDLE_S))
        waited += sleep_s
        sleep_s = turns.longer(sleep_s)


def test_requests_of_the_library_are_asked_a_thousand_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (
        max(timeout for _, timeout in naps(monkeypatch, busy=True))
        == turns._LONGEST_NAP_S
    )
