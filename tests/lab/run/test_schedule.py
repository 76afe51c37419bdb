from __future__ import annotations

import threading
from collections import Counter
from itertools import count

import pytest
from forge import FakeBackend, Job

from impi.base.errors import LabError
from impi.lab.cases import CASES
from impi.lab.nodes.interface import Terms
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits
from impi.lab.run.remote_party import Invitations
from impi.lab.run.schedule import Care, Done, Scheduler

LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def cells(*names: str, vendors=("mpich", "openmpi"), topology="1x2+1x2"):
    return [Cell(CASES[n], vendors, parse_topology(topology)) for n in names]


def run(backend, what, **more):
    results: list[Done] = []
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
    assert backend.log == [
        "open",
        "begin",
        "end",
        "close",
        "open",
        *["begin", "end"] * 2,
        "close",
    ]
    assert backend.open_labs == 0


def test_a_lab_that_is_given_away_is_not_closed_and_the_rest_gets_another():
    backend = FakeBackend()
    given = []

    def keep(cell, verdict, lab):
        if cell.case.name == "coll.all":
            given.append((cell.case.name, verdict.outcome, lab.access.lab))
        return cell.case.name == "coll.all"

    results = run(
        backend, cells("p2p.ring", "coll.all", "p2p.any"), care=Care(keep=keep)
    )
    assert [r.kept for r in results] == [False, True, False]
    assert given == [("coll.all", "pass", results[1].attempts[0].lab)]
    assert [r.attempts[0].lab for r in results] == ["lab-1", "lab-1", "lab-2"]
    assert backend.log == [
        "open",
        *["begin", "end"] * 2,
        "open",
        "begin",
        "end",
        "close",
    ]
    assert backend.open_labs == 1


def test_an_isolated_cell_has_its_lab_for_itself():
    backend = FakeBackend()
    results = run(backend, cells("p2p.ring", "coll.all"), care=Care(isolated=True))
    assert [r.verdict.outcome for r in results] == ["pass"] * 2
    assert backend.log == ["open", "begin", "end", "close"] * 2


def test_a_lab_is_replaced_before_its_nodes_end_by_themselves():
    backend = FakeBackend()
    run(backend, cells("p2p.ring", "coll.all"), care=Care(terms=Terms(ttl_s=0.0)))
    assert backend.log == ["open", "begin", "end", "close"] * 2


def test_a_lab_that_is_there_is_used():
    backend = FakeBackend()
    standing = backend.open(
        ("mpich", "openmpi"), parse_topology("1x2+1x2"), run="before"
    )
    (result,) = run(backend, cells("p2p.ring"), care=Care(open=lambda cell: standing))
    assert result.attempts[0].lab == standing.access.lab
    assert backend.log == ["open", "begin", "end", "close"]


TRIO = ("pure", "mpich", "openmpi"), "1x2+1x2+1x2"


def shared_cells() -> list[Cell]:
    """Three cells whose nodes the lab of the first one has, under the same names."""
    vendors, topology = TRIO
    return [
        *cells("p2p.ring", vendors=vendors, topology=topology),
        *cells("p2p.ring", "p2p.any", vendors=vendors[:2]),
    ]


def sharing_backend(**more) -> FakeBackend:
    backend = FakeBackend(**more)
    backend.parts = True
    return backend


def test_cells_with_fewer_clients_run_in_a_part_of_a_lab():
    backend = sharing_backend()
    results = run(backend, shared_cells())
    assert [r.verdict.outcome for r in results] == ["pass"] * 3
    assert backend.log == ["open", *["begin", "end"] * 3, "close"]


def test_without_parts_each_of_them_has_a_lab_of_its_own_kind():
    backend = FakeBackend()
    results = run(backend, shared_cells())
    assert [r.verdict.outcome for r in results] == ["pass"] * 3
    assert backend.log.count("open") == 2


def test_a_lab_is_discarded_after_a_non_pass_in_a_part_of_it():
    def fault(job: Job) -> None:
        if job.name == "p2p.ring" and job.roster.nclients == 2:
            job.wraps[0]["status"] = 1

    backend = sharing_backend(tweak=fault)
    results = run(backend, shared_cells())
    assert [r.verdict.outcome for r in results] == ["pass", "fail", "pass"]
    labs = [r.attempts[0].lab for r in results]
    assert labs[0] == labs[1] != labs[2]
    assert backend.open_labs == 0


@pytest.mark.parametrize("how", ["isolated", "kept"])
def test_no_part_is_used_if_the_user_may_get_the_lab(how):
    backend = sharing_backend()
    care = (
        Care(isolated=True)
        if how == "isolated"
        else Care(keep=lambda _cell, _verdict, _lab: False)
    )
    given: list[str] = []
    opened = backend.open

    def open_noted(vendors, topology, **more):
        given.append("+".join(vendors))
        return opened(vendors, topology, **more)

    backend.open = open_noted  # type: ignore[method-assign]
    run(backend, shared_cells(), care=care)
    assert set(given) == {"pure+mpich+openmpi", "pure+mpich"}


def test_hangs_of_a_pair_do_not_give_up_another_pair_of_the_lab():
    def hang(job: Job) -> None:
        if job.roster.nclients == 2:
            job.hangs |= {"client 0", "client 1"}

    backend = sharing_backend(tweak=hang)
    vendors, topology = TRIO
    what = [
        *cells(*["p2p.ring"] * 4, vendors=vendors[:2]),
        *cells("p2p.ring", vendors=vendors, topology=topology),
    ]
    results = run(backend, what)
    outcomes = [r.verdict.outcome for r in results]
    assert outcomes == ["timeout"] * 3 + ["skipped", "pass"]


def test_a_lab_that_does_not_open_is_an_error():
    backend = FakeBackend()
    backend.broken_open = "no subnet is free"
    results = run(backend, cells("p2p.ring", "p2p.any"))
    assert [
        (r.verdict.outcome, r.verdict.phase, r.verdict.reason) for r in results
    ] == [("error", "up", "no subnet is free")] * 2


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_cell_runs_once(jobs):
    what = [
        c
        for v in ("pure", "mpich", "openmpi")
        for c in cells("p2p.ring", "p2p.any", vendors=(v, v))
    ]
    backend = FakeBackend()
    results = run(backend, what, jobs=jobs)
    assert Counter(r.cell.id for r in results) == Counter(c.id for c in what)
    assert backend.open_labs == 0


@pytest.mark.parametrize(("how_many", "labs"), [(15, 1), (17, 2), (60, 3)])
def test_a_long_group_gets_more_labs_once_workers_have_nothing_else(
    tmp_path, how_many, labs
):
    together, calls = threading.Barrier(labs), count()

    def meet(job: Job) -> None:
        if next(calls) < labs:
            together.wait(20)  # each in a lab of its own

    backend = FakeBackend(tweak=meet)
    # As a run of impilab has them
    care = Care(invitations=Invitations(tmp_path, print))
    results = run(backend, cells(*["p2p.ring"] * how_many), jobs=3, care=care)
    assert [r.verdict.outcome for r in results] == ["pass"] * how_many
    opened = len({r.attempts[0].lab for r in results})
    # A worker that takes another half keeps its lab
    assert opened == labs == backend.log.count("open")
    assert backend.open_labs == 0


def test_a_lab_that_is_there_is_the_only_one_of_its_kind():
    backend = FakeBackend()
    standing = backend.open(
        ("mpich", "openmpi"), parse_topology("1x2+1x2"), run="before"
    )
    results = run(
        backend,
        cells(*["p2p.ring"] * 60),
        jobs=3,
        care=Care(open=lambda cell: standing),
    )
    assert {r.attempts[0].lab for r in results} == {standing.access.lab}
    assert backend.log.count("open") == 1


def test_the_slots_bound_what_runs_at_once():
    backend = FakeBackend()
    what = [
        c
        for v in ("pure", "mpich", "openmpi")
        for c in cells("p2p.ring", "p2p.any", vendors=(v, v))
    ]
    run(backend, what, jobs=4, slots=4)
    # Each cell has 4 procs: none begins before the one before it is over.
    assert [word for word in backend.log if word in ("begin", "end")] == [
        "begin",
        "end",
    ] * len(what)


def test_the_next_lab_is_opened_while_the_cells_of_others_run():
    third_is_open, at_once, most = threading.Event(), [], []

    class Backend(FakeBackend):
        def open(self, *args, **named):
            lab = super().open(*args, **named)
            if self.log.count("open") == 3:
                third_is_open.set()
            return lab

    def first_cells_wait(job: Job) -> None:
        at_once.append(job)
        most.append(len(at_once))
        assert third_is_open.wait(30)
        at_once.pop()

    what = [
        c
        for v in ("pure", "mpich", "openmpi")
        for c in cells("p2p.ring", vendors=(v, v))
    ]
    results = run(Backend(tweak=first_cells_wait), what, jobs=2)
    assert [r.verdict.outcome for r in results] == ["pass"] * 3
    assert max(most) <= 2


def test_a_lab_that_cannot_be_closed_ends_no_other_cell():
    class Backend(FakeBackend):
        def open(self, *args, **named):
            lab = super().open(*args, **named)
            close, first = lab.close, self.log.count("open") == 1

            def stuck():
                close()
                if first:
                    raise LabError("its network has active endpoints")

            lab.close = stuck  # type: ignore[method-assign]
            return lab

    what = [
        c
        for v in ("pure", "mpich", "openmpi")
        for c in cells("p2p.ring", vendors=(v, v))
    ]
    results: list[Done] = []
    scheduler = Scheduler(Backend(), "r", limits=LIMITS)
    with pytest.raises(LabError, match="active endpoints"):
        scheduler.run(what, lambda cell: None, results.append)
    assert [r.verdict.outcome for r in results] == ["pass"] * 3


def test_one_job_has_one_lab_at_a_time():
    backend = FakeBackend()
    what = [
        c
        for v in ("pure", "mpich", "openmpi")
        for c in cells("p2p.ring", vendors=(v, v))
    ]
    run(backend, what, jobs=1)
    assert backend.log == ["open", "begin", "end", "close"] * 3


def test_stop_ends_the_run_and_closes_the_labs():
    backend = FakeBackend()
    results: list[Done] = []
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
    results: list[Done] = []
    scheduler.run(cells("p2p.ring"), lambda cell: None, results.append)
    timer.join()
    assert results == []
    assert backend.open_labs == 0


def test_an_error_in_a_callback_comes_out():
    backend = FakeBackend()

    def broken(_result) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Scheduler(backend, "r", limits=LIMITS).run(
            cells("p2p.ring"), lambda cell: None, broken
        )
    assert backend.open_labs == 0


def test_the_start_does_not_count_against_the_cell():
    backend = FakeBackend(tweak=lambda job: setattr(job, "slow_start", 100))
    results: list[Done] = []
    limits = Limits(server=5, start=600, cell=0.3, grace=0.1)
    Scheduler(backend, "r", limits=limits).run(
        cells("p2p.ring"), lambda cell: None, results.append
    )
    (result,) = results
    assert result.verdict.outcome == "pass"
    assert result.seconds > limits.cell


def test_a_start_that_takes_too_long_is_a_timeout():
    (result,) = run(
        FakeBackend(tweak=lambda job: setattr(job, "slow_start", 1 << 30)),
        cells("p2p.ring"),
    )
    assert result.verdict.outcome == "timeout"
    assert result.verdict.reason.startswith("not over after 0.3 s")
