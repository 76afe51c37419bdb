"""Lines to interpreters and reports of them, long ones too."""

from __future__ import annotations

import pytest
from tester_world import TesterWorld

from impi.lab.conform.job.simulated_procs import REPORT_TAG, SCRIPT_TAG
from impi.lab.conform.outcomes import Broken


def test_a_long_line_waits_for_its_answer() -> None:
    world = TesterWorld(datalen=8)
    world.job.interpreters.tell(0, "bcast count=12")
    (first,) = world.sent()
    assert (first.kind, first.payload, first.msglen, first.tag) == (
        "DATASYNC",
        b"bcast co",
        14,
        SCRIPT_TAG,
    )
    world.says("SYNCACK", 0, 3, srqid=first.srqid, drqid=5)
    world.procs.until(lambda: False)
    (rest,) = world.sent()
    assert (rest.kind, rest.payload, rest.drqid) == ("DATA", b"unt=12", 5)


def test_reports_come_in_order_and_can_be_put_back() -> None:
    world = TesterWorld(datalen=99)
    for text in ("ok a=1", "ok a=2"):
        world.reports(0, text)
    first, second = world.job.interpreters.report(0), world.job.interpreters.report(0)
    assert (first, second) == ("ok a=1", "ok a=2")
    world.job.interpreters.put_back(0, [first, second])
    assert world.job.interpreters.report(0) == "ok a=1"


def test_a_long_report_is_put_together() -> None:
    world = TesterWorld(datalen=4)
    world.says("DATASYNC", 0, 3, b"ok d", msglen=7, tag=REPORT_TAG, srqid=3)
    world.says("DATA", 0, 3, b"=ab", msglen=7, tag=REPORT_TAG, srqid=3)
    assert world.job.interpreters.report(0) == "ok d=ab"
    assert [p.srqid for p in world.sent() if p.kind == "SYNCACK"] == [3]


def test_a_report_that_does_not_come() -> None:
    with pytest.raises(Broken, match="rank 1 does not complete its call") as raised:
        TesterWorld().job.interpreters.report(1)
    assert raised.value.actual == "nothing"


def test_other_messages_to_the_control_rank_are_left_to_tests() -> None:
    world = TesterWorld()
    world.says("DATA", 0, 3, b"x", tag=5)
    world.procs.until(lambda: bool(world.path(3, 0).inbox))
    assert [found.tag for _, found in world.procs.unclaimed()] == [5]
