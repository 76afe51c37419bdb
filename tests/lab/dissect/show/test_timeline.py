"""Events in order of time, with ranks and messages, and never the key."""

from __future__ import annotations

import re

from conversations import job_pcap

from impi.lab.dissect import Dissection, dissect
from impi.lab.dissect.show.timeline import events, timeline


def job(case: str) -> Dissection:
    return dissect([job_pcap(case)], 50000)


def test_a_key_is_never_shown():
    result = job("auth_key")
    text = "\n".join(timeline(events(result))) + repr(
        [c.notes for c in result.conversations]
    )
    assert "key=(redacted)" in text
    assert "5678" not in text
    assert "162e" not in text


def test_the_timeline_names_ranks():
    lines = timeline(events(job("short")))
    assert any(
        re.search(r"host 0 -> host 1: message \d+: DATA rank 0 -> rank 2", line)
        for line in lines
    )
    assert any("client 1 -> server: COLL len=8 H_PORT" in line for line in lines)
    assert any("host 1 connects to host 0" in line for line in lines)
    assert lines == sorted(lines, key=lambda x: float(x.split()[0]))


def test_events_tell_who_and_of_which_message():
    found = events(job("long"))
    assert [event.time for event in found] == sorted(event.time for event in found)
    # Three connections
    assert [event.kind for event in found if event.text.endswith("closes")] == [
        "TCP"
    ] * 6
    data = [event for event in found if event.kind == "DATASYNC"]
    assert data
    for event in data:
        assert (
            f"message {event.message}: DATASYNC rank {event.src_rank} -> rank {event.dest_rank}"
            in event.text
        )
    fini = next(
        event for event in found if event.kind == "FINI" and event.source == "host 1"
    )
    assert (fini.src_rank, fini.dest_rank) == (2, 0), "the lowest of each host"


def test_a_timeline_of_nothing():
    assert timeline([]) == []
