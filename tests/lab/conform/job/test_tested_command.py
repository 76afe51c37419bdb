"""The command of the implementation under test: its words, its end, and nothing left of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.job import tested_command
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.job.tested_command import TestedProcess

SETUP = Configuration(clients=("2", "IUT"), procs=2, xsize=9)


def wait(ready: Callable[[], bool], timeout_s: float) -> bool:
    end = time.monotonic() + 100 * timeout_s
    while not ready() and time.monotonic() < end:
        time.sleep(0.01)
    return ready()


def test_words_in_braces_are_replaced() -> None:
    command = "mpirun -np {np} -x {xsize}/{maxlinear} --client {client} {server} {interpreter}"
    found = tested_command.Tested(command=command, interpreter="/a b/i").argv(
        SETUP, "h:1"
    )
    assert found == [
        "mpirun",
        "-np",
        "2",
        "-x",
        "9/-1",
        "--client",
        "1",
        "h:1",
        "/a b/i",
        "1",
    ]


@pytest.mark.parametrize(
    ("command", "port", "told"),
    [
        ("run {server}", 0, "no {client}"),
        ("run {client}", 0, "no {server}"),
        ("run {client} {servr}", 7, "there is no word {servr}"),
    ],
)
def test_a_command_that_cannot_be_started_for_each_job(
    command: str, port: int, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        tested_command.Tested(command=command, port=port).argv(SETUP, "h:1")


def process(script: str) -> TestedProcess:
    found = TestedProcess(
        tested_command.Tested(
            command=f"{sys.executable} -c '{script}' {{client}} {{server}}"
        ),
        None,
        wait,
    )
    found.start(SETUP, "h:1", {"IMPI_AUTH_NONE": "1"})
    return found


def test_how_it_ended_and_what_it_said() -> None:
    it = process(
        'import os, sys; print(os.environ["IMPI_AUTH_NONE"], *sys.argv[1:]); sys.exit(3)'
    )
    outcome = it.await_end(1.0)
    assert outcome is not None
    assert outcome.code == 3
    assert it.end() == "the implementation has ended with 3; it said: 1 1 h:1"
    assert it.close() == ()


def test_what_goes_on_is_ended() -> None:
    it = process("import time; time.sleep(1000)")
    assert (it.ended(), it.end()) == (None, "")
    assert it.close() == ()
    assert it.ended() is None
    assert it.close() == (), "nothing is left to end"


def test_what_is_started_by_hand_is_announced() -> None:
    said: list[str] = []
    it = TestedProcess(
        tested_command.Tested(interpreter="i.py", announce=said.append), None, wait
    )
    it.start(SETUP, "h:1", {"IMPI_AUTH_KEY": "7"})
    assert said == [
        "start client 1 at h:1 with IMPI_AUTH_KEY=7 in its environment, 2 procs of: i.py 1"
    ]
    assert (it.await_end(0.1), it.said(), it.close()) == (None, "", ())
