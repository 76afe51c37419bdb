"""Faults are shown in place; the rest is decoded; no octet is lost and no key is shown."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

import pytest
from conversations import OURS, PEER, Talk, add_job, header, job_pcap, octets, streams
from pcapmaker import PcapMaker

from impi.lab.dissect.jobs.job_finder import ObservedJob, observe
from impi.lab.dissect.jobs.raw import StreamName, observe_streams
from impi.lab.dissect.show.record_list import FIELDS, Record, records, wrong
from impi.lab.dissect.show.text import as_line, as_object
from impi.lab.dissect.streams.pcap import Segment, read_pcap
from impi.lab.dissect.streams.tcp import reassemble

CLIENT, SERVER = StreamName("startup", 0, 0, True), StreamName("startup", 0, 0, False)


def jobs(capture: bytes) -> list[ObservedJob]:
    return observe(
        reassemble(s for s in read_pcap(capture) if isinstance(s, Segment))
    ).jobs


def told(capture: bytes) -> list[Record]:
    return records(jobs(capture))


def lines(every: list[Record]) -> list[str]:
    return [
        as_line(r, start=0.0, clocked=True, several=False, whole=True) for r in every
    ]


def shown(every: list[Record]) -> str:
    """All that a user can be shown."""
    return "\n".join(
        [
            *lines(every),
            *(json.dumps(as_object(r, whole=True)) for r in every),
            repr(every),
        ]
    )


@pytest.mark.parametrize("mss", [1448, 100])
def test_every_octet_of_a_capture_belongs_to_one_record(mss):
    capture = job_pcap("long", mss)
    every = told(capture)
    (job,) = jobs(capture)
    connections = [c.connection for c in job.conversations] + [
        c.connection for c in job.channels
    ]
    size = sum(len(c.forth.data + c.back.data) for c in connections)
    assert sum(r.size for r in every) == size == sum(map(len, streams("long").values()))
    assert [r.time for r in every] == sorted(r.time for r in every)


@pytest.mark.parametrize(
    "name",
    ["client0_to_server", "server_to_client0", "host0_to_host1", "host1_to_host0"],
)
@pytest.mark.parametrize(
    "cut", [*range(40), 100, 127, 128, 129, 131, 132, 133, 200, 255, 300]
)
def test_a_stream_that_ends_anywhere(name, cut):
    """Every octet is in a record; a cut is an error in place; other streams are decoded."""
    given = streams("short")
    victim = next(n for n, data in given.items() if data == octets("short", name))
    whole = records([observe_streams(given)])
    given[victim] = given[victim][:cut]
    every = records([observe_streams(given)])
    assert sum(r.size for r in every) == sum(map(len, given.values()))
    if cut < len(octets("short", name)):
        assert any(wrong(r) for r in every)
    ends = {
        r.connection
        for r in whole
        if r.source + r.dest in ("client 0server", "host 1host 0")
    }
    others = [
        r for r in whole if r.connection not in ends and r.source.startswith("client")
    ]
    assert [r.fields for r in others] == [
        r.fields
        for r in every
        if (r.source, r.kind) in {(o.source, o.kind) for o in others}
    ]


def channel(*said: tuple[bool, bytes], close: bool = True) -> list[Record]:
    talk = Talk()
    for forth, data in said:
        talk.say(forth, data)
    if close:
        talk.close()
    return told(talk.maker.bytes())


BACK: dict[str, Any] = {"src": (OURS, 1000), "dest": (PEER, 1001)}
START = (True, b"\0\0\0\1" + header(length=2) + b"hi")
END = [(False, header("FINI")), (True, header("FINI"))]


def test_a_channel_without_start_up_is_decoded():
    every = channel(START, *END)
    assert [r.kind for r in every] == [
        "OPEN",
        "HOSTRANK",
        "DATA",
        "FINI",
        "FINI",
        "CLOSE",
        "CLOSE",
    ]
    (data,) = (r for r in every if r.kind == "DATA")
    assert (data.source, data.dest, data.data) == ("host 1", "host ?", b"hi")
    assert (
        "host 1 proc 10.0.0.2/1001 -> host ? proc 10.0.0.1/1000: DATA tag=0 cid=0 len=2"
        in lines([data])[0]
    )


@pytest.mark.parametrize(
    ("said", "clause", "offset", "size", "says"),
    [
        (
            [(False, struct.pack(">II", 8, 0) + bytes(130))],
            "3.5",
            0,
            138,
            "packet type 8 at octet 0 does not exist",
        ),
        (
            [(False, header() + b"\0\0")],
            "3.5",
            128,
            2,
            "2 octets at the end are not a whole header",
        ),
        (
            [(False, header(length=2**31, **BACK) + b"abc")],
            "3.5",
            0,
            131,
            "ends after 3 of 2147483648 octets",
        ),
        (
            [(False, header(length=2**32 - 1, **BACK))],
            "3.5",
            0,
            128,
            "ends after 0 of 4294967295 octets",
        ),
        (
            [(False, header("SYNCACK", srqid=9, **BACK)), END[0]],
            "3.7.1",
            0,
            0,
            "no send with srqid=9",
        ),
        ([END[0], END[0]], "3.8", 128, 0, "FINI after the FINI"),
        ([END[0], (False, header(**BACK))], "3.8", 128, 0, "DATA after the FINI"),
        (
            [(False, header(length=1, msglen=9, **BACK) + b"x"), END[0]],
            "3.7.2",
            0,
            0,
            "which waits for 0",
        ),
        ([(False, header(**BACK))], "3.8", 128, 0, "ended the channel without FINI"),
    ],
)
def test_errors_stand_where_they_belong(said, clause, offset, size, says):
    every = channel(START, *said, END[1])
    (error,) = (r for r in every if wrong(r))
    assert (error.kind, error.fields["clause"], error.offset, error.size) == (
        "ERROR",
        clause,
        offset,
        size,
    )
    assert (error.source, error.dest) == ("host ?", "host 1")
    assert says in str(error.fields["text"])
    data = b"".join(d for _, d in said)
    assert error.fields.get("octets", "") == data[offset : offset + 32].hex()
    assert sum(r.size for r in every) == len(START[1]) + len(data) + 128
    # The other direction goes on
    assert sum(r.kind == "FINI" and r.source == "host 1" for r in every) == 1
    assert f"ERROR at octet {offset}: " in lines([error])[0]
    assert lines([error])[0].partition(" [octets")[0].endswith(f"(IMPI {clause})")


def test_a_channel_that_is_still_open_lacks_nothing():
    assert [r for r in channel(START, close=False) if wrong(r)] == []


def test_an_answer_before_the_last_octet_of_its_packet_is_right():
    """A message is matched by its header, so the SYNCACK may cross the octets that follow."""
    long = header("DATASYNC", length=500, srqid=9) + bytes(500)
    said = [
        (True, b"\0\0\0\1"),
        (True, long[:200]),
        (False, header("SYNCACK", srqid=9, **BACK)),
        (True, long[200:]),
    ]
    every = channel(*said, *END)
    assert [r for r in every if wrong(r)] == []
    assert [r.kind for r in every][1:4] == ["HOSTRANK", "DATASYNC", "SYNCACK"]
    every = channel(*said[:1], (True, long[:127]), said[2], (True, long[127:]), *END)
    assert [r.fields["clause"] for r in every if wrong(r)] == ["3.7.1"]


def test_a_channel_that_is_reset():
    talk = Talk()
    talk.say(True, START[1])
    talk.maker.tcp(*talk.ends, talk.sent[0], talk.sent[1], 4)
    every = told(talk.maker.bytes())
    assert [r.kind for r in every] == ["OPEN", "HOSTRANK", "DATA", "RESET", "ERROR"]
    assert lines(every)[-2].endswith("host 1 -> host ?: resets the connection")
    assert every[-1].fields["text"] == "host 1 ended the channel without FINI"


def test_the_error_follows_its_packet_at_once():
    every = channel(START, (False, header("SYNCACK", srqid=9, **BACK)), *END)
    kinds = [r.kind for r in every]
    assert kinds[kinds.index("SYNCACK") + 1] == "ERROR"


def test_a_hole_in_the_capture_is_a_gap_and_accuses_nobody():
    maker = PcapMaker()
    add_job(maker, "long", mss=1000)
    hole = next(
        i
        for i, (_, frame, _) in enumerate(maker.frames)
        if i > 150 and len(frame) > 900
    )
    del maker.frames[hole]
    every = told(maker.bytes())
    assert {r.kind for r in every if wrong(r)} == {"GAP"}
    assert any(
        "are not in the capture" in str(r.fields["text"]) for r in every if wrong(r)
    )
    assert any(r.kind == "FINI" and r.source == "client 1" for r in every)


KEY = bytes.fromhex("fedcba9876543210")
SMALL = (5678).to_bytes(8, "big")
AUTH, IMPI = b"AUTH\0\0\0\4\0\0\0\3", b"IMPI\0\0\0\4\0\0\0\0"


def method(number: int) -> bytes:
    return struct.pack(">ii", number, 0)


@pytest.mark.parametrize("key", [KEY, SMALL, b"IMPI" + KEY[:4], b"COLL\0\0\0\0"])
@pytest.mark.parametrize(
    "server", [b"", method(0), method(1), method(7), method(1)[:5], KEY]
)
@pytest.mark.parametrize(
    "client",
    ["{a}{k}{i}", "{a}{k}", "{a}{k7}", "{a}{k}{k}{i}", "{long}{k}{i}", "{a}{k}{i}{i}"],
)
def test_a_key_is_never_told(key, server, client):
    """Whatever the server chose, and wherever the client's stream ends or goes wrong."""
    parts = {
        "{a}": AUTH,
        "{k}": key,
        "{k7}": key[:7],
        "{i}": IMPI,
        "{long}": b"AUTH\0\0\1\0\0\0\0\3",
    }
    tokens = [t + "}" for t in client.split("}") if t]
    forth = b"".join(parts[t] for t in tokens)
    given = {CLIENT: forth} if not server else {CLIENT: forth, SERVER: server}
    every = records([observe_streams(given)])
    text = shown([r for r in every if r.source != "server"])
    for secret in {key.hex(), key[:4].hex(), key[-4:].hex(), repr(key)[2:-1]} - {
        "00000000",
        b"IMPI".hex(),
        b"COLL".hex(),
    }:
        assert secret not in text
    assert str(int.from_bytes(key, "big")) not in text
    assert "5678" not in text or key != SMALL
    assert sum(r.size for r in every) == len(forth) + len(server)


def test_a_key_of_the_record_is_never_told():
    text = shown(records([observe_streams(streams("auth_key"))]))
    assert "KEY (8 octets, not shown)" in text
    assert "5678" not in text
    assert "162e" not in text


@pytest.mark.parametrize(
    ("change", "clause", "says"),
    [
        (
            lambda s: s.replace(
                b"COLL\0\0\0\x08\0\0\x12\0", b"COLL\0\0\0\x08\0\0\x11\0"
            ),
            "2.3.5",
            "which is not lower",
        ),
        (lambda s: s[:-8], "2.3.7", "client 0 ended without FINI"),
        (lambda s: s[:-4] + b"\xff\xff\xff\xff", "2.3.2", "a message of -1 octets"),
        (lambda s: s + b"abc", "2.3.2", "3 octets that are not a message"),
        (lambda s: s[:12] + KEY + s[12:], "2.3.4", "8 octets (not shown)"),
    ],
)
def test_errors_of_a_client(change, clause, says):
    given = streams("auth_none")
    given[CLIENT] = change(given[CLIENT])
    every = records([observe_streams(given)])
    (error,) = (r for r in every if wrong(r))
    assert (error.source, error.fields["clause"]) == ("client 0", clause)
    assert says in str(error.fields["text"])
    assert sum(r.size for r in every) == sum(map(len, given.values()))


def test_a_server_that_is_done_too_early():
    given = streams("auth_none")
    end = given[SERVER].index(b"COLL\0\0\0\x10\0\0\x24\0")
    given[SERVER] = given[SERVER][:end] + b"DONE\0\0\0\0"
    every = records(
        [observe_streams({n: d for n, d in given.items() if n in (CLIENT, SERVER)})]
    )
    (error,) = (r for r in every if wrong(r))
    assert error.fields["text"] == "DONE before the labels H_HIWATER, P_IPV6, P_PID"


def test_every_name_can_be_selected():
    every = itertools.chain(
        told(job_pcap("long")), channel(START, (False, b"\0\0\0\x08"))
    )
    for record in every:
        assert set(as_object(record, whole=True)) <= set(FIELDS)
