"""Workers in virtual time."""

from __future__ import annotations

from impi.tools.simulate.model.clock import Clock, Workers


def test_a_worker_does_one_thing_after_another_on_a_core_of_its_node() -> None:
    def ends(cores: int) -> list[tuple[str, int]]:
        clock, done = Clock(), list[tuple[str, int]]()
        workers = Workers(clock, [0, 0, 1], cores)
        for worker, name in ((0, "a"), (0, "b"), (1, "c"), (2, "d")):
            workers.do(worker, 10, lambda name=name: done.append((name, clock.now)))
        clock.run()
        return sorted(done)

    assert ends(0) == ends(2) == [("a", 10), ("b", 20), ("c", 10), ("d", 10)]
    assert ends(1) == [("a", 10), ("b", 20), ("c", 30), ("d", 10)]
