"""One timeline of packets, calls, stations and logs, as text and as a page."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from forge import FakeBackend, Job

from impi.testbed.judge.verdict import Verdict
from impi.testbed.lab.interface import Line
from impi.testbed.plan.cell import Cell, parse_cell
from impi.testbed.report.cell_timeline import Entry, as_lines, merge
from impi.testbed.report.evidence_files import CAPTURE_CHOICES, write_seen
from impi.testbed.report.timeline_html import Head, as_html
from impi.testbed.run.execute import Limits, Seen, run_cell
from impi.testbed.run.prepared_lab import prepare
from impi.testbed.run.schedule import judge_cell

CELL = parse_cell("p2p.ring/mpich+openmpi/1x2+1x2")
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
WORLD = {"comm": "MPI_COMM_WORLD"}


def hangs(job: Job) -> None:
    """Ranks 1 and 2 wait for each other; the made-up packets have times from 1000 s on."""
    job.hangs |= {"server", "client 0", "client 1"}
    job.done.clear()
    for rank in range(4):
        job.wraps[rank] = {**job.wraps[rank], "status": None, "ended": None, "began": 900.0 + rank}
        job.init[rank] = {**job.init[rank], "at": 950.0 + rank}
    for rank, source in ((1, 2), (2, 1)):
        job.calls[rank] = [
            {"t": 1100.0, "n": 1, "do": "Barrier", "nth": 1, **WORLD},
            {"t": 1100.5, "n": 1},
            {"t": 1101.0, "n": 2, "do": "Recv", "source": source, "tag": 99, **WORLD},
        ]


def ran(tweak=lambda job: None, cell: Cell = CELL) -> tuple[Seen, Verdict]:
    lab = FakeBackend(tweak=tweak).open(cell.vendors, cell.topology, run="r")
    seen = run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event())
    return seen, judge_cell(cell, seen)


def test_every_packet_is_told_once():
    seen, _ = ran()
    assert seen.evidence.wire is not None
    data = [e for e in merge(seen, CELL.roster) if e.kind in ("DATA", "DATASYNC")]
    # Both nodes of a channel captured it.
    assert len(data) == seen.evidence.wire.messages > 0
    assert len({e.text.partition(": ")[2] for e in data}) == len(data)
    assert {re.findall(r"message (\d+):", e.text)[0] for e in data} == {str(i + 1) for i in range(len(data))}


def test_lanes_are_those_of_the_job():
    seen, _ = ran()
    entries = merge(seen, CELL.roster)
    lanes = {"server", "client 0", "client 1", "rank 0", "rank 1", "rank 2", "rank 3", "lab"}
    assert {entry.lane for entry in entries} == lanes
    assert {entry.to for entry in entries} <= {"", *lanes}
    # FINI names no ranks, but its hosts have some.
    assert {(e.lane, e.to) for e in entries if e.kind == "FINI" and e.to != "server"} >= {("rank 0", "rank 2")}


def test_calls_stations_and_logs_are_in_order_of_time():
    seen, verdict = ran(hangs)
    seen = replace(seen, said={"server": (Line(at=1100.25, stream="stderr", text="impirun: client 0 has joined"),)})
    lines = as_lines(merge(seen, CELL.roster))
    text = "\n".join(lines)
    order = [
        "rank 1    starts",
        "rank 1    has initialised MPI: rank 1 of 4",
        "rank 1    -> Barrier(collective 1 of MPI_COMM_WORLD)",
        "server    says: impirun: client 0 has joined",
        "rank 1    <- Barrier, after 500.000 ms",
        "rank 1    -> Recv(from rank 2, tag 99)",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)
    assert times[0] == 0.0
    assert "the lab looks at all ranks: the time limit" in text
    assert "they wait for each other" in verdict.reason


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(seen: Seen, verdict: Verdict, tmp_path) -> str:
    write_seen(CELL, seen, verdict, tmp_path / "cell")
    return (tmp_path / "cell/timeline.html").read_text("utf-8")


def test_the_page_stands_alone(tmp_path):
    text = page(*ran(hangs), tmp_path)
    parsed = Page(text)
    assert parsed.open == []
    for tag, attributes in parsed.tags:
        assert not {"src", "href", "srcset", "data", "action"} & attributes.keys(), tag
        assert tag not in ("link", "iframe", "object", "img", "base")
    assert not re.findall(r"url\(|@import|https?://", text)


def test_the_page_shows_why_and_where(tmp_path):
    seen, verdict = ran(hangs)
    text = page(seen, verdict, tmp_path)
    for words in (CELL.id, verdict.reason, "Recv(from rank 2, tag 99)", "client 0 (mpich) rank 1 on c0n0"):
        assert words in text
    assert text.count('class="stuck"') > 2
    assert text.count('class="row ') == len(merge(seen, CELL.roster)) + 1


def test_a_page_of_a_pass_has_no_stuck_call(tmp_path):
    assert 'class="stuck"' not in page(*ran(), tmp_path)


def test_what_others_wrote_is_text(tmp_path):
    seen, verdict = ran()
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    seen = replace(seen, said={"server": (Line(at=1.0, stream="stderr", text=evil),)})
    text = page(seen, replace(verdict, outcome="fail", reason=evil), tmp_path)
    assert [tag for tag, _ in Page(text).tags].count("script") == 1
    assert "img" not in [tag for tag, _ in Page(text).tags]


def test_a_page_has_an_end():
    entries = [Entry(at=float(i), lane="rank 0", text="x", kind="DATA", to="rank 2") for i in range(9000)]
    text = as_html(Head(title="t", outcome="pass", sentence="", facts={}), entries, CELL.roster)
    assert text.count('<div class="row data"') == 4000
    assert "5000 entries are left out here; timeline.txt has them all" in text
    assert Page(text).open == []


def test_nothing_was_seen():
    assert as_lines([]) == []
    Page(as_html(Head(title="t", outcome="error", sentence="no lab", facts={}), [], CELL.roster))


# -- what is kept


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
    assert ("timeline.html" in names) == ("timeline.txt" in names) == (wanted or not passes)
    assert ("hang.txt" in names) == (not passes)


def test_the_report_of_a_hang(tmp_path):
    seen, verdict = ran(hangs)
    write_seen(CELL, seen, verdict, tmp_path / "cell")
    text = (tmp_path / "cell/hang.txt").read_text()
    for words in (
        "p2p.ring/mpich+openmpi/1x2+1x2: looked at because of the time limit",
        "they wait for each other",
        "client 0 (mpich) rank 1 on c0n0, pid 101: case, in Recv(from rank 2, tag 99) for",
        "process  S (sleeping)",
        "waits    for DATA from rank 2",
        "nobody says that he received it",
        "this lab is made up",
    ):
        assert words in text


def test_without_captures_there_is_a_timeline_too(tmp_path):
    lab = FakeBackend(captures=False, tweak=hangs).open(CELL.vendors, CELL.topology, run="r")
    seen = run_cell(prepare(lab, "r"), CELL, LIMITS, threading.Event())
    verdict = judge_cell(CELL, seen)
    text = page(seen, verdict, tmp_path)
    assert "no capture: what crossed is not known" in text
    assert "Recv(from rank 2, tag 99)" in text
    assert "no capture shows it" in (tmp_path / "cell/hang.txt").read_text()
