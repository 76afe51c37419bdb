"""The desk: one run at a time, in a thread, that can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from impi.base.errors import LaunchError, UsageError
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.report.desk import Desk
from impi.lab.conform.script.script_files import Test, all_tests

TESTS = all_tests()[:4]
NAMES = [test.name for test in TESTS]


def outcome(test: Test) -> Outcome:
    return Outcome(
        test=test.name,
        clause=test.clause,
        level=test.level,
        title=test.title,
        verdict=ClauseVerdict.HOLDS,
    )


class Gate:
    """An implementation whose tests end when they are told to."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.at = threading.Semaphore(0)

    def __call__(
        self,
        tests: Sequence[Test],
        procs: int,
        told: Callable[[Outcome], None],
        began: Callable[[str], None],
    ) -> None:
        for test in tests:
            began(test.name)
            self.at.release()
            self.go.acquire()
            told(outcome(test))


def test_news_come_as_tests_end() -> None:
    gate = Gate()
    desk = Desk(TESTS, gate)
    desk.start(NAMES[:2], 2)
    gate.at.acquire()
    first = desk.news(0, 0)
    assert (
        first["run"],
        first["running"],
        first["chosen"],
        first["ended"],
        first["now"],
    ) == (1, True, 2, 0, NAMES[0])
    gate.go.release()
    gate.at.acquire()
    assert desk.news(1, 0)["outcomes"] == [
        {"test": NAMES[0], "verdict": "holds", "why": ""}
    ]
    assert desk.news(1, 1)["outcomes"] == []
    assert desk.news(7, 1)["ended"] == 1  # a page of an earlier run
    assert desk.news(7, 1)["outcomes"] != []
    gate.go.release()
    desk.wait()
    last = desk.news(1, 1)
    assert (last["running"], last["ended"], last["now"], last["trouble"]) == (
        False,
        2,
        "",
        "",
    )
    assert [each.test for each in desk.outcomes()] == NAMES[:2]


def test_a_stop_ends_the_run_after_its_test() -> None:
    gate = Gate()
    desk = Desk(TESTS, gate)
    desk.start(NAMES, 2)
    gate.at.acquire()
    desk.stop()
    gate.go.release()
    desk.wait()
    assert desk.news(1, 0)["trouble"] == "stopped"
    assert len(desk.outcomes()) == 1
    desk.start(NAMES[:1], 2)  # and another one begins with nothing
    gate.go.release()
    desk.wait()
    assert desk.news(2, 0)["trouble"] == ""
    assert len(desk.outcomes()) == 1


def test_trouble_is_told() -> None:
    def perform(*_: object) -> None:
        raise LaunchError("cannot start it")

    desk = Desk(TESTS, perform)
    desk.start(NAMES, 2)
    desk.wait()
    assert desk.news(1, 0)["trouble"] == "cannot start it"


def test_what_is_to_be_started_by_hand_is_told() -> None:
    desk = Desk(TESTS, Gate())
    desk.announce("mpirun ...")
    assert desk.news(0, 0)["now"] == "mpirun ..."


def test_what_cannot_be_started() -> None:
    gate = Gate()
    desk = Desk(TESTS, gate)
    for names, procs, why in (
        (["9/none"], 2, "no test is named '9/none'"),
        ([], 2, "chosen"),
        (NAMES, 1, "2 to 64"),
    ):
        with pytest.raises(UsageError, match=why):
            desk.start(names, procs)
    desk.start(NAMES[:1], 2)
    with pytest.raises(UsageError, match="under way"):
        desk.start(NAMES[:1], 2)
    gate.go.release()
    desk.wait()
