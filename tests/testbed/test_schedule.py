from __future__ import annotations

import threading
from collections import Counter

import pytest
from forge import FakeBackend, Job

from impi.testbed.cases import CASES
from impi.testbed.cell import Cell
from impi.testbed.execute import Limits
from impi.testbed.schedule import Scheduler
from impi.testbed.topology import parse_topology

LIMITS = Limits(server=0.3, cell=0.3, grace=0.1)


def cells(*names: str, vendors=("mpich", "openmpi"), topology="1x2+1x2"):
    return [Cell(CASES[n], vendors, parse_topology(topology)) for n in names]


def run(backend, what, **more):
    results = []
    scheduler = Scheduler(backend, "r", limits=LIMITS, **more)
    scheduler.run(what, lambda cell: None, results.append)
    return results


def test_a_lab_is_reused_and_closed():
    backend = FakeBackend()
    results = run(backend, cells("p2p.ring", "coll.all", "p2p.any"))
    assert [r.verdict.outcome for r in results] == ["pass"] * 3
    assert backend.log == ["open", *["begin", "end"] * 3, "close"]


def test_a_lab_is_discarded_after_a_non_pass():
    def fault(job: Job) -> None:
        if job.name == "p2p.ring":
            job.wraps[0]["status"] = 1

    backend = FakeBackend(tweak=fault)
    results = run(backend, cells("p2p.ring", "coll.all", "p2p.any"))
    assert [r.verdict.outcome for r in results] == ["fail", "pass", "pass"]
    assert backend.log == ["open", "begin", "end", "close", "open", *["begin", "end"] * 2, "close"]
    assert backend.open_labs == 0


def test_a_lab_is_kept_when_asked():
    backend = FakeBackend(tweak=lambda job: job.wraps[0].update(status=1))
    (result,) = run(backend, cells("p2p.ring"), keep=True)
    assert result.kept
    assert backend.open_labs == 1


def test_a_lab_that_does_not_open_is_an_error():
    backend = FakeBackend()
    backend.broken_open = "no subnet is free"
    results = run(backend, cells("p2p.ring", "p2p.any"))
    assert [(r.verdict.outcome, r.verdict.phase, r.verdict.reason) for r in results] == [
        ("error", "up", "no subnet is free")
    ] * 2


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_cell_runs_once(jobs):
    what = [c for v in ("pure", "mpich", "openmpi") for c in cells("p2p.ring", "p2p.any", vendors=(v, v))]
    backend = FakeBackend()
    results = run(backend, what, jobs=jobs)
    assert Counter(r.cell.id for r in results) == Counter(c.id for c in what)
    assert backend.open_labs == 0


def test_the_slots_bound_what_runs_at_once():
    backend = FakeBackend()
    scheduler = Scheduler(backend, "r", limits=LIMITS, jobs=4, slots=4)
    running: set[str] = set()
    most = []

    def began(cell: Cell) -> None:
        running.add(cell.id)
        most.append(len(running))

    scheduler.run(
        [c for v in ("pure", "mpich", "openmpi") for c in cells("p2p.ring", "p2p.any", vendors=(v, v))],
        began,
        lambda result: running.discard(result.cell.id),
    )
    assert max(most) == 1


def test_stop_ends_the_run_and_closes_the_labs():
    backend = FakeBackend()
    results = []
    scheduler = Scheduler(backend, "r", limits=LIMITS)

    def done(result) -> None:
        results.append(result)
        scheduler.stop.set()

    scheduler.run(cells("p2p.ring", "coll.all", "p2p.any"), lambda cell: None, done)
    assert len(results) == 1
    assert backend.open_labs == 0


def test_stop_in_the_middle_of_a_cell_gives_no_verdict():
    backend = FakeBackend(tweak=lambda job: job.hangs.update({"client 0", "server"}))
    scheduler = Scheduler(backend, "r", limits=Limits(server=5, cell=30, grace=30))
    timer = threading.Timer(0.2, scheduler.stop.set)
    timer.start()
    results = []
    scheduler.run(cells("p2p.ring"), lambda cell: None, results.append)
    timer.join()
    assert results == []
    assert backend.open_labs == 0


def test_an_error_in_a_callback_comes_out():
    backend = FakeBackend()

    def broken(_result) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Scheduler(backend, "r", limits=LIMITS).run(cells("p2p.ring"), lambda cell: None, broken)
    assert backend.open_labs == 0
