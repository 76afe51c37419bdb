"""Handwritten start-ups: several clients and hosts, IPv6, unknown labels and commands."""

from __future__ import annotations

import pytest
from conversations import BY_HAND

from impi.lab.dissect.jobs.job_finder import ObservedJob
from impi.lab.dissect.jobs.raw import StreamName, observe_streams
from impi.lab.dissect.show.record_list import records, wrong

NAMES = sorted(f.stem for f in BY_HAND.glob("*.txt") if "[to all]" in f.read_text())


def streams(name: str) -> dict[StreamName, bytes]:
    text = (BY_HAND / f"{name}.txt").read_text()
    clients = sorted(
        {int(line[8:-1]) for line in text.splitlines() if line.startswith("[client ")}
    )
    found = {
        StreamName("startup", c, 0, forth): b""
        for c in clients
        for forth in (True, False)
    }
    open_: list[StreamName] = []
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            who, whom = line.strip("[]").split()
            numbers = clients if whom == "all" else [int(whom)]
            open_ = [StreamName("startup", n, 0, who == "client") for n in numbers]
        elif line:
            for key in open_:
                found[key] += bytes.fromhex(line.replace(" ", ""))
    return found


def job(name: str) -> ObservedJob:
    return observe_streams(streams(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_octet_belongs_to_one_record(name):
    """Some of them break off, which must be all that is wrong."""
    every = records([job(name)])
    assert sum(r.size for r in every) == sum(map(len, streams(name).values()))
    texts = [str(r.fields["text"]) for r in every if wrong(r)]
    assert [
        t
        for t in texts
        if "ended without" not in t and "DONE before the labels" not in t
    ] == []


def test_three_clients_with_several_hosts():
    layout = job("three_clients").layout
    assert layout is not None
    assert layout.nclients == 3
    assert len(layout.hosts) > 3
    assert [p.rank for p in layout.procs] == list(
        range(sum(h.nprocs for h in layout.hosts))
    )


def test_what_nobody_knows_is_shown_by_number():
    every = records([job("newer_client")])
    labels = {str(r.fields["label"]) for r in every if r.kind == "COLL"}
    assert any(label.startswith("0x") for label in labels)
    assert any(r.kind.startswith("0x") for r in every)


def test_all_words_of_a_mask():
    (auth,) = (r for r in records([job("wide_auth_mask")]) if r.kind == "AUTH")
    assert auth.fields["auth_mask"] == [2, 2]
