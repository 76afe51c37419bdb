"""Cases of start-up and shutdown: who must be refused, who must fail, and by which status."""

from __future__ import annotations

from typing import Any

import pytest
from judged import lacking, run

from impi.base.remote.supervised import Completed
from impi.lab.cases.ends.start_and_end import JOB_CASES
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in JOB_CASES}
FAILING = [case for case in JOB_CASES if not case.ends(ROSTER).well]


@pytest.mark.parametrize(
    "case",
    [c for c in JOB_CASES if list(c.crossings(ROSTER, "n"))],
    ids=lambda c: c.name,
)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_a_job_that_must_fail_and_ends_well_is_wrong(case):
    def well(job):
        job.clients = [
            Completed(argv=(), code=0, stdout=b"", stderr=b"") for _ in job.clients
        ]

    verdict = run(well, cell=(case.name, ("mpich", "openmpi"), "1x2+1x2"))
    assert verdict.outcome == "fail"
    assert "end.status" in {item.name for item in verdict.items if not item.ok}


def test_the_last_client_fails_with_the_status_of_its_rank():
    statuses = {case.name: dict(case.ends(ROSTER).statuses) for case in FAILING}
    assert statuses == {
        "shutdown.exit-code": {3: 3},
        "shutdown.left": {},
        "shutdown.broken": {},
        "shutdown.grace": {},
        "shutdown.exception": {3: 1},
        "shutdown.signal": {3: -10},
        "shutdown.abort": {},
        "failure.kill-rank": {3: -9},
        "failure.kill-client": {},
    }
    assert {case.ends(ROSTER).failing_client for case in FAILING} == {1}


def test_who_is_cut_off_finalizes_nothing():
    begun = [case for case in JOB_CASES if case.ends(ROSTER).refused is None]
    abrupt = {case.name for case in begun if case.ends(ROSTER).abrupt}
    assert abrupt == {
        "shutdown.abort",
        "shutdown.left",
        "shutdown.broken",
        "shutdown.grace",
        "failure.kill-rank",
        "failure.kill-client",
    }
    assert abrupt == {
        case.name for case in JOB_CASES if not case.ends(ROSTER).finalizes
    }
    assert BY_NAME["shutdown.abort"].ends(ROSTER).codes == (7,)


def test_who_must_be_refused_is_the_last_client_and_is_told_why():
    refused = {
        case.name: case.ends(ROSTER)
        for case in JOB_CASES
        if case.ends(ROSTER).refused is not None
    }
    assert {name: ends.refused for name, ends in refused.items()} == {
        "startup.wrong-key": 1,
        "startup.no-common-auth": 1,
        "startup.unloaded": 1,
    }
    assert all(ends.why for ends in refused.values())


def test_a_job_that_cannot_begin_ends_everywhere_and_says_why():
    cell = ("startup.unloaded", ("mpich", "openmpi"), "1x2+1x2")

    def ends_with(code, words):
        def change(job):
            said = f"impirun: client 1: {words}\n".encode()
            job.server = Completed(argv=(), code=code, stdout=b"", stderr=said)
            job.clients = [
                Completed(argv=(), code=code, stdout=b"", stderr=said) for _ in (0, 1)
            ]

        return change

    why = BY_NAME["startup.unloaded"].ends(ROSTER).why
    good = run(ends_with(127, f"x; {why} mpich)"), cell=cell)
    assert good.outcome == "pass"
    for code, words in ((127, "x"), (0, why), (1, why)):
        verdict = run(ends_with(code, words), cell=cell)
        assert (verdict.outcome, verdict.phase) == ("fail", "init")


def test_a_rank_that_crashes_in_a_job_that_is_cut_off_is_wrong():
    def ends_by(number):
        return lambda job: job.wraps[0].update({"status": -number})

    cell = ("shutdown.broken", ("mpich", "openmpi"), "1x2+1x2")
    statuses = [
        "end.status" in {i.name for i in run(ends_by(n), cell=cell).items if not i.ok}
        for n in (15, 13)
    ]
    assert statuses == [False, True]


def test_longs_have_four_octets_on_the_wire_and_eight_in_memory():
    for message in BY_NAME["startup.strict"].crossings(ROSTER, "n"):
        assert (len(message.payload), len(message.form)) == (24, 48)
