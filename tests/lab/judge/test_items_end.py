"""Items of the case and of the end: checks, traffic, statuses, FINI, what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cell_faults import FAULTS, WRONG_KEY, bad_status, log, silent_server
from forge import Job
from judged import PAIR, failed, run

from impi.base.remote.supervised import Completed
from impi.lab.judge import items_end
from impi.lab.judge.items import ITEMS
from impi.lab.judge.verdict import PHASES

OF_THE_END = [
    fault
    for fault in FAULTS
    if fault[2].split(".")[0] in ("end", "traffic") or fault[2] == "identity.counter"
]


@pytest.mark.parametrize(
    ("fault", "phase", "item", "blame"),
    OF_THE_END,
    ids=[f[0].__name__ for f in OF_THE_END],
)
def test_a_fault_is_caught_by_its_item(fault, phase, item, blame):
    verdict = run(fault)
    assert verdict.outcome == "fail"
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == (item, phase)
    assert blame in verdict.blame
    assert item in verdict.reason
    assert phase in PHASES


UNTRUSTED = {
    "dropped": lambda job: job.dropped.update(c1n0=1),
    "canary": lambda job: job.no_canary.add("server"),
    "hole": lambda job: [job.lost_frames.update({n: 4}) for n in ("c0n0", "server")],
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_a_capture_with_holes_proves_nothing(name):
    verdict = run(UNTRUSTED[name])
    assert verdict.outcome == "error"
    assert verdict.blame == "lab"
    assert "traffic.capture" in verdict.reason


def test_a_hole_does_not_excuse_what_was_seen_otherwise():
    def both(job: Job) -> None:
        job.dropped["c1n0"] = 1
        bad_status(job)

    assert run(both).outcome == "fail"


def test_what_must_fail_must_fail():
    exit_code = ("shutdown.exit-code", *PAIR[1:])
    assert run(cell=exit_code).outcome == "pass"

    def always_0(job: Job) -> None:
        job.clients[1] = replace(job.clients[1], code=0)

    def silent_server(job: Job) -> None:
        assert job.server is not None
        job.server = replace(job.server, stderr=b"Error: somebody was lost\n")

    def taken_down(job: Job) -> None:
        job.wraps[0]["status"], job.wraps[1]["status"] = None, -15
        job.clients[0] = replace(job.clients[0], code=1)
        job.startup_said[0] = ["DONE"]

    assert run(taken_down, cell=exit_code).outcome == "pass"

    def said_fini(job: Job) -> None:
        job.startup_said[1] = ["DONE", "FINI"]

    for fault, item in (
        (always_0, "end.status"),
        (silent_server, "end.status"),
        (said_fini, "end.fini"),
    ):
        verdict = run(fault, cell=exit_code)
        assert (verdict.outcome, verdict.culprit.name) == ("fail", item)


def accepted(job: Job) -> None:
    job.startup_said = {0: ["DONE"], 1: ["DONE"]}


def refused_without_a_word(job: Job) -> None:
    job.clients[1] = Completed(argv=(), code=1, stdout=b"", stderr=b"")


def refused_with_0(job: Job) -> None:
    job.clients[1] = replace(job.clients[1], code=0)


def others_do_not_wait(job: Job) -> None:
    job.hangs = set()


@pytest.mark.parametrize(
    ("tweak", "blame"),
    [
        (accepted, "server"),
        (silent_server, "server"),
        (refused_without_a_word, "client 1 (openmpi)"),
        (refused_with_0, "client 1 (openmpi)"),
        (others_do_not_wait, "client 0 (mpich)"),
    ],
)
def test_a_client_that_must_be_refused(tweak, blame):
    verdict = run(tweak, cell=WRONG_KEY, variant="auth=wrong")
    assert (verdict.outcome, verdict.phase, verdict.blame) == ("fail", "auth", blame)
    assert failed(verdict) == {"start.refused"}


KILLED = ("failure.kill-rank", ("mpich", "openmpi"), "1x2+1x2")


def a_survivor_ends_well(job: Job) -> None:
    job.clients[0] = replace(job.clients[0], code=0)


def another_code(job: Job) -> None:
    job.clients[1] = replace(job.clients[1], code=1)


def the_wrong_one_is_named(job: Job) -> None:
    job.server = Completed(
        argv=(), code=1, stdout=b"", stderr=b"Error: client 0 was lost\n"
    )


def fini_after_all(job: Job) -> None:
    job.startup_said[0] = ["DONE", "FINI"]


@pytest.mark.parametrize(
    ("tweak", "item", "blame"),
    [
        (a_survivor_ends_well, "end.status", "client 0 (mpich)"),
        (the_wrong_one_is_named, "end.status", "server"),
        (fini_after_all, "end.fini", "client 0 (mpich)"),
    ],
)
def test_a_job_that_is_cut_off(tweak, item, blame):
    verdict = run(tweak, cell=KILLED)
    assert (verdict.outcome, verdict.blame) == ("fail", blame)
    assert verdict.culprit is not None
    assert verdict.culprit.name == item


def test_the_code_of_an_abort():
    verdict = run(another_code, cell=("shutdown.abort", *PAIR[1:]))
    assert (verdict.outcome, verdict.phase, verdict.blame) == (
        "fail",
        "fini",
        "client 1 (openmpi)",
    )


@pytest.mark.parametrize(
    ("case", "left", "outcome"),
    [
        ("shutdown.abort", "c1n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "pass"),
        ("shutdown.abort", "c0n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "fail"),
        ("shutdown.abort", "c1n0: file /tmp/another", "fail"),
        ("p2p.ring", "c1n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "fail"),
    ],
)
def test_what_a_vendors_mpiexec_leaves_after_a_signal_is_nobodys_fault(
    case, left, outcome
):
    verdict = run(
        lambda job: job.leftovers.append(left),
        cell=(case, ("pure", "mpich"), "1x2+1x2"),
    )
    assert (
        verdict.outcome,
        "end.leftovers" in [item.name for item in verdict.items if not item.ok],
    ) == (
        outcome,
        outcome == "fail",
    )


def test_a_failing_client_that_says_fini_misleads_the_server():
    def fini(job: Job) -> None:
        assert job.server is not None
        job.startup_said[1] = ["DONE", "FINI"]
        job.server = replace(job.server, code=0, stderr=b"")

    verdict = run(fini, cell=("shutdown.exit-code", *PAIR[1:]))
    assert (verdict.outcome, verdict.phase, verdict.blame) == (
        "fail",
        "fini",
        "client 1 (openmpi)",
    )


def test_who_ends_well_and_closes_before_the_fini_of_the_other():
    def mute(job: Job) -> None:
        job.no_fini |= {(0, 2), (0, 3)}  # the higher host is the first to close

    verdict = run(mute)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == ("end.silence", "finalize")
    assert verdict.blame == "client 1 (openmpi)"


@pytest.mark.parametrize(("began", "outcome"), [(10.0, "pass"), (5000.0, "fail")])
def test_a_syncack_before_any_receive(began, outcome):
    """Captures are of the second 1000."""

    def answers(job: Job) -> None:
        job.calls[2] = log(1, "Recv", began, began + 1, source=0, tag=50)

    verdict = run(answers, cell=("p2p.ssend", *PAIR[1:]))
    assert verdict.outcome == outcome
    if outcome == "fail":
        assert verdict.culprit is not None
        assert (verdict.culprit.name, verdict.blame) == (
            "traffic.protocol",
            "client 1 (openmpi) rank 2 on c1n0",
        )


@pytest.mark.parametrize(("ended", "outcome"), [(8.0, "pass"), (6.0, "fail")])
def test_a_barrier_that_is_left_before_all_are_in(ended, outcome):
    def leaves(job: Job) -> None:
        for rank in range(4):
            job.calls[rank] = log(1, "Barrier", 4.0 + rank, 8.0, nth=1)
        job.calls[1] = log(1, "Barrier", 5.0, ended, nth=1)

    verdict = run(leaves)
    assert verdict.outcome == outcome
    if outcome == "fail":
        assert verdict.culprit is not None
        assert (verdict.culprit.name, verdict.blame) == (
            "end.checks",
            "client 0 (mpich) rank 1 on c0n0",
        )


@pytest.mark.parametrize(
    ("clocks", "outcome"),
    [((0.0, 0.0), "fail"), ((-1.5, 0.0), "fail"), ((-1.5, 1.0), "pass")],
)
def test_logs_of_hosts_whose_clocks_differ_accuse_nobody(clocks, outcome):
    """Rank 1 has left the barrier 2 s before rank 3 entered, by the clocks of their hosts."""

    def leaves(job: Job) -> None:
        for rank in range(4):
            job.calls[rank] = log(1, "Barrier", 5.0 + rank, 9.0, nth=1)
        job.calls[1] = log(1, "Barrier", 5.0, 6.0, nth=1)

    assert run(leaves, clocks=clocks).outcome == outcome


def test_a_message_too_many_after_all_checks_is_of_finalize():
    def twice(job: Job) -> None:
        job.messages.append(job.messages[-1])
        for done in job.done.values():
            done["at"] = 999.0

    verdict = run(twice)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == ("traffic.extra", "finalize")


def test_what_catches_them_is_of_one_module():
    assert {ITEMS[item].__module__ for _, _, item, _ in OF_THE_END} == {
        items_end.__name__
    }
