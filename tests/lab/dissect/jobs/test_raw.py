"""Saved streams have no clock; they are shown in an order in which they can be sent."""

from __future__ import annotations

import pytest
from conversations import CASES, by_hand, octets, streams

from impi.lab.dissect.decode.ledger import Ledger
from impi.lab.dissect.jobs.raw import StreamName, name_stream, observe_streams
from impi.lab.dissect.show.record_list import records, wrong


@pytest.mark.parametrize("case", CASES)
def test_every_octet_belongs_to_one_record(case):
    given = streams(case)
    every = records([observe_streams(given)])
    assert [r for r in every if wrong(r)] == []
    for name, data in given.items():
        ends = (
            ("server", f"client {name.first}")
            if name.kind == "startup"
            else ("host 0", "host 1")
        )
        source = ends[1] if name.forth else ends[0]
        dest = ends[0] if name.forth else ends[1]
        mine = [
            (r.offset, r.size)
            for r in every
            if (r.source, r.dest) == (source, dest) and r.size
        ]
        at = 0
        for offset, size in mine:  # in order, without holes and without overlaps
            assert offset == at
            at += size
        assert at == len(data)


@pytest.mark.parametrize("case", CASES)
def test_the_order_is_possible(case):
    job = observe_streams(streams(case))
    ledger = Ledger(job.layout)
    (channel,) = job.channels
    for packet in channel.packets:
        assert ledger.faults(packet) == []
        ledger.enter(packet)


def test_answers_follow_questions_and_all_clients():
    every = [
        r
        for r in records([observe_streams(streams("short"))])
        if "client" in r.source + r.dest
    ]
    told = [
        (r.kind, r.fields.get("label"), r.source == "server")
        for r in every
        if r.kind != "OPEN"
    ]
    for asked in {t for t in told if not t[2] and t[0] in ("IMPI", "COLL", "DONE")}:
        answer = (*asked[:2], True)
        assert told.count(asked) == told.count(answer) == 2
        assert max(i for i, t in enumerate(told) if t == asked) < told.index(answer)
    assert [t[0] for t in told[-2:]] == ["FINI", "FINI"]


def test_a_breach_does_not_stop_the_merge():
    """Both sides wait for each other: what comes next breaks the protocol whatever the order."""
    given = streams("exact")
    forth = StreamName("channel", 1, 0, True)
    # Without the two SYNCACKs
    given[forth] = given[forth][:4] + given[forth][4 + 2 * 128 :]
    every = records([observe_streams(given)])
    assert {r.fields["clause"] for r in every if r.kind == "ERROR"} == {"3.7.2"}
    assert sum(r.size for r in every) == sum(map(len, given.values()))


def test_names():
    assert name_stream("client12_to_server.bin", b"") == StreamName(
        "startup", 12, 0, True
    )
    assert name_stream("server_to_client3.bin", b"") == StreamName(
        "startup", 3, 0, False
    )
    assert name_stream("host0_to_host2.bin", b"") == StreamName("channel", 2, 0, False)
    assert name_stream("host2_to_host0.bin", b"") == StreamName("channel", 2, 0, True)


@pytest.mark.parametrize(
    "name",
    ["host1_to_host1.bin", "client1_to_host1.bin", "client0_to_server3.bin", "x.bin"],
)
def test_no_names(name):
    assert name_stream(name, b"what is this") is None


@pytest.mark.parametrize("case", CASES)
def test_streams_are_known_by_their_octets_too(case):
    kinds = [
        name_stream("-", octets(case, n))
        for n in ("client0_to_server", "server_to_client0")
    ]
    assert kinds == [
        StreamName("startup", -1, 0, True),
        StreamName("startup", -1, 0, False),
    ]
    assert name_stream("-", octets(case, "host1_to_host0")) == StreamName(
        "channel", 1, -1, True
    )
    assert name_stream("-", octets(case, "host0_to_host1")) == StreamName(
        "channel", -1, -1, False
    )


@pytest.mark.parametrize(
    "name",
    ["client0_to_server", "server_to_client0", "host1_to_host0", "host0_to_host1"],
)
@pytest.mark.parametrize("case", ["long", "auth_key", "many"])
def test_one_direction_alone_is_decoded_and_the_other_is_missed(case, name):
    data = octets(case, name)
    kind = name_stream("-", data)
    assert kind is not None
    every = records([observe_streams({kind: data})])
    assert sum(r.size for r in every) == len(data)
    assert [r.fields["text"] for r in every if wrong(r) and not r.size] == [
        "this direction was not given"
    ]
    assert [r.size for r in every if wrong(r) and r.size] == []


def test_the_widest_gap_between_hiwater_and_use():
    limits, said = by_hand("held_at_hiwater")
    assert limits["hiwater"] == 4
    given = {
        StreamName("channel", 1, 0, True): b"\0\0\0\1"
        + b"".join(o for peer, o in said if peer),
        StreamName("channel", 1, 0, False): b"".join(o for peer, o in said if not peer),
    }
    job = observe_streams(given)
    assert [p.kind for p in job.channels[0].packets].count("PROTOACK") == sum(
        o[3] == 2 for _, o in said
    )
