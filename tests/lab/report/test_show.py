"""A red cell on the terminal: the message that failed, and the first words of who failed first."""

from __future__ import annotations

import threading
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from forge import FakeBackend, Job
from rich.console import Console
from told_cells import CELL, ran

from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.report.show import Screen, failure_lines
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import Attempt, Done, judge_cell


def lines_of(tweak) -> list[str]:
    backend = FakeBackend(tweak=tweak)
    cell = Cell(CASES["p2p.ring"], ("mpich", "openmpi"), parse_topology("1x2+1x2"))
    lab = backend.open(cell.vendors, cell.topology, run="r")
    limits = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
    seen = run_cell(prepare(lab, "r"), cell, limits, threading.Event())
    verdict = judge_cell(cell, seen)
    done = Done(
        cell=cell,
        verdict=verdict,
        attempts=(Attempt(verdict=verdict, seconds=1.0, seen=seen),),
    )
    return failure_lines(done, Path("runs/r"))


def test_the_wire_is_that_of_the_message_that_failed():
    def wrong(job: Job) -> None:
        job.messages = [
            replace(m, payload=bytes(256)) if m.tag == 7 and m.src == 1 else m
            for m in job.messages
        ]

    (shown,) = [line for line in lines_of(wrong) if line.startswith("     wire")]
    assert "DATA rank 1 -> rank 2" in shown
    assert "tag=7" in shown


def test_the_cause_is_the_first_line_of_who_ended_first():
    def dies(job: Job) -> None:
        said = (
            b"impirun: vendor openmpi needs Open MPI\n"
            + b"more\n" * 50
            + b"impirun: ended\n"
        )
        job.clients[1] = replace(job.clients[1], code=1, stderr=said)

    found = [line for line in lines_of(dies) if "client 1: " in line]
    assert any("vendor openmpi needs Open MPI" in line for line in found)
    assert any("impirun: ended" in line for line in found)


def test_each_cell_says_how_to_repeat_it() -> None:
    fault = parse_cell(
        "faults.phases/pure+mpich/1x2+1x2/auth=challenge,fault=kill-rank@recv"
    )
    own = replace(fault, case=replace(fault.case, name="program.mine"), variant="")
    verdict = Verdict(outcome="error", reason="no lab")
    said = [
        "\n".join(failure_lines(Done(cell=cell, verdict=verdict), Path("runs/r")))
        for cell in (fault, own)
    ]
    assert f"impilab repro {fault.id} --run runs/r" in said[0]
    assert f"impilab repro {own.id} --run runs/r" in said[1]


def test_a_pass_that_nobody_captured_is_counted_as_one() -> None:
    _, verdict = ran()
    own = Done(cell=CELL, verdict=replace(verdict, self_reported=True))
    screen = Screen(Console(file=StringIO()), 3, Path("runs/r"))
    for result in (own, own, Done(cell=CELL, verdict=verdict)):
        screen.done(result)
    assert screen._status().plain.startswith("[3/3] ~2  ✓1  ")


def test_forced_colours_make_no_terminal_of_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = StringIO()
    _, verdict = ran()
    with Screen(Console(file=file), 1, Path("runs/r")) as screen:
        screen.done(Done(cell=CELL, verdict=verdict))
    assert "\x1b[32m" in file.getvalue()
    assert "\x1b[?25l" not in file.getvalue()  # no cursor is hidden
    assert "[1/1]" in file.getvalue()


def test_no_colours_where_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = StringIO()
    _, verdict = ran()
    Screen(Console(file=file, force_terminal=True), 1, Path("runs/r")).done(
        Done(cell=CELL, verdict=verdict)
    )
    assert "\x1b[3" not in file.getvalue()
