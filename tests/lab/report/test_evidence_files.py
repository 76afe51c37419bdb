"""The files of one attempt at a cell."""

from __future__ import annotations

import threading

import pytest
from forge import FakeBackend
from told_cells import CELL, LIMITS, hangs, ran

from impi.lab.report.evidence_files import CAPTURE_CHOICES, write_seen
from impi.lab.run.execute import run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell


@pytest.mark.parametrize("capture", CAPTURE_CHOICES)
@pytest.mark.parametrize("passes", [True, False])
def test_what_is_kept(tmp_path, capture, passes):
    seen, verdict = ran(lambda job: None if passes else hangs(job))
    assert (verdict.outcome == "pass") == passes
    write_seen(CELL, seen, verdict, tmp_path / "cell", capture=capture)
    names = {path.name for path in (tmp_path / "cell").iterdir()}
    assert {"evidence.json", "commands.txt", "server.stderr"} <= names
    wanted = {"keep": True, "failures": not passes, "none": False}[capture]
    assert ({"server.pcap", "c0n0.pcap", "c1n0.pcap"} <= names) == wanted
    assert (
        ("timeline.html" in names)
        == ("timeline.txt" in names)
        == (wanted or not passes)
    )
    assert ("hang.txt" in names) == (not passes)


def test_without_captures_there_is_a_timeline_too(tmp_path):
    lab = FakeBackend(captures=False, tweak=hangs).open(
        CELL.vendors, CELL.topology, run="r"
    )
    seen = run_cell(prepare(lab, "r"), CELL, LIMITS, threading.Event())
    verdict = judge_cell(CELL, seen)
    write_seen(CELL, seen, verdict, tmp_path / "cell")
    text = (tmp_path / "cell/timeline.html").read_text("utf-8")
    assert "no capture: what crossed is not known" in text
    assert "Recv(from rank 2, tag 99)" in text
    assert "no capture shows it" in (tmp_path / "cell/hang.txt").read_text()
