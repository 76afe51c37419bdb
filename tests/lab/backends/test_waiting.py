"""Long waits say what they are for; short ones say nothing."""

from __future__ import annotations

import threading

import pytest

from impi.lab.backends.waiting import LongWait, say, waiting


def test_a_long_wait_says_where_it_stands() -> None:
    said: list[str] = []
    told = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    with waiting("building x", tell, first_s=0.001) as wait:
        wait.heard("Step 3/8 : RUN apt-get\n\n  Get:4 a\tpackage \x1b\n \n")
        assert told.wait(30)
        told.clear()
        assert told.wait(30)
    assert said[-1] == "building x, 0 s: step 3/8, Get:4 a package"


def test_a_short_wait_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("building x"):
        pass
    assert capsys.readouterr().err == ""


def test_it_ends_with_what_is_waited_for() -> None:
    before = threading.active_count()
    with pytest.raises(OSError), waiting("building x"):
        raise OSError
    assert threading.active_count() == before


def test_nothing_heard_changes_nothing() -> None:
    wait = LongWait("before")
    wait.heard(" \n")
    assert wait.now == "before"


def test_what_is_said_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    say("building x")
    assert capsys.readouterr() == ("", "impilab: building x\n")
