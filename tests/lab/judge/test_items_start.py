"""Items of start-up: who runs where with what, who is refused, and who proved who it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cell_faults import FAULTS
from forge import Job
from judged import PAIR, run

from impi.lab.judge import items_start
from impi.lab.judge.items import ITEMS
from impi.lab.judge.verdict import PHASES

OF_START = [
    fault
    for fault in FAULTS
    if not fault[2].startswith(("end.", "traffic.", "identity.counter"))
]


@pytest.mark.parametrize(
    ("fault", "phase", "item", "blame"), OF_START, ids=[f[0].__name__ for f in OF_START]
)
def test_a_fault_is_caught_by_its_item(fault, phase, item, blame):
    verdict = run(fault)
    assert verdict.outcome == "fail"
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == (item, phase)
    assert blame in verdict.blame
    assert item in verdict.reason
    assert phase in PHASES


def test_a_key_must_be_used_where_it_was_asked_for():
    key = ("startup.key", *PAIR[1:])
    assert run(cell=key, variant="auth=key").outcome == "pass"
    verdict = run(lambda job: job.methods.update({1: 0}), cell=key, variant="auth=key")
    assert (verdict.outcome, verdict.culprit.name, verdict.phase) == (
        "fail",
        "start.auth",
        "auth",
    )


def prints_the_wildcard(job: Job) -> None:
    assert job.server is not None
    job.server = replace(job.server, stdout=b"0.0.0.0:4000\n")


def test_the_wildcard_is_no_address_of_a_server():
    verdict = run(prints_the_wildcard)
    assert (verdict.outcome, verdict.phase, verdict.blame) == (
        "fail",
        "server",
        "server",
    )


def test_what_catches_them_is_of_one_module():
    assert {ITEMS[item].__module__ for _, _, item, _ in OF_START} == {
        items_start.__name__
    }
