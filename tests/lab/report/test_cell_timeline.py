"""One timeline of packets, calls, stations and logs, as text and as a page."""

from __future__ import annotations

import re
from dataclasses import replace

from told_cells import CELL, hangs, ran

from impi.base.remote.supervised import Line
from impi.lab.report.cell_timeline import as_lines, merge


def test_every_packet_is_told_once():
    seen, _ = ran()
    assert seen.evidence.wire is not None
    data = [e for e in merge(seen, CELL.roster) if e.kind in ("DATA", "DATASYNC")]
    # Both nodes of a channel captured it.
    assert len(data) == seen.evidence.wire.messages > 0
    assert len({e.text.partition(": ")[2] for e in data}) == len(data)
    assert {re.findall(r"message (\d+):", e.text)[0] for e in data} == {
        str(i + 1) for i in range(len(data))
    }


def test_lanes_are_those_of_the_job():
    seen, _ = ran()
    entries = merge(seen, CELL.roster)
    lanes = {
        "server",
        "client 0",
        "client 1",
        "rank 0",
        "rank 1",
        "rank 2",
        "rank 3",
        "lab",
    }
    assert {entry.lane for entry in entries} == lanes
    assert {entry.to for entry in entries} <= {"", *lanes}
    # FINI names no ranks, but its hosts have some.
    assert {
        (e.lane, e.to) for e in entries if e.kind == "FINI" and e.to != "server"
    } >= {("rank 0", "rank 2")}


def test_calls_stations_and_logs_are_in_order_of_time():
    seen, verdict = ran(hangs)
    seen = replace(
        seen,
        said={
            "server": (
                Line(at=1100.25, stream="stderr", text="impirun: client 0 has joined"),
            )
        },
    )
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


def test_nothing_was_seen():
    assert as_lines([]) == []
