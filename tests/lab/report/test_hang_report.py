"""The report of a cell that did not end."""

from __future__ import annotations

from told_cells import CELL, hangs, ran

from impi.lab.judge.waits import Waits
from impi.lab.report.hang_report import hang_lines, state


def test_the_report_of_a_hang() -> None:
    seen, _ = ran(hangs)
    text = "\n".join(hang_lines(seen.facts(CELL), CELL.id))
    for words in (
        "p2p.ring/mpich+openmpi/1x2+1x2: looked at because of the time limit",
        "they wait for each other",
        "client 0 (mpich) rank 1 on c0n0, pid 101: case, in Recv(from rank 2, tag 99) for",
        "process  S (sleeping)",
        "waits    for DATA from rank 2",
        "no rank reports that it received it",
        "this lab is made up",
    ):
        assert words in text


def test_a_cell_that_was_not_looked_at_has_no_report() -> None:
    seen, _ = ran()
    facts = seen.facts(CELL)
    assert hang_lines(facts, CELL.id) == []
    assert {state(facts, Waits(facts), rank) for rank in range(4)} == {"ended with 0"}
