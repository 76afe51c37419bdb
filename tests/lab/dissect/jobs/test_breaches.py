"""Breaches of a whole job, each with who committed it; recorded jobs of others have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversations import CASES, Talk, header, layout, streams
from pcapmaker import ACK, FIN

from impi.lab.dissect import (
    Breach,
    Dissection,
    breaches,
    decode_channel,
    observe_streams,
    read_pcap,
    reassemble,
)
from impi.lab.dissect.jobs.breaches import EARLY_CLOSE, OWED_PROTOACK
from impi.lab.dissect.streams.pcap import Segment


def seen(case: str) -> Dissection:
    job = observe_streams(streams(case))
    return Dissection(job.conversations, job.channels, job.layout)


def told(talk: Talk, **limits: int) -> list[Breach]:
    segments = (s for s in read_pcap(talk.maker.bytes()) if isinstance(s, Segment))
    (connection,) = reassemble(segments)
    values: Any = {"ackmark": 2, "hiwater": 4} | limits
    known = layout(**values)
    return breaches(Dissection(channels=[decode_channel(connection, 0)], layout=known))


def conversation(*said: tuple[bool, bytes], fini: bool = True) -> Talk:
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    for forth, data in said:
        talk.say(forth, data)
    for forth in (True, False) if fini else ():
        talk.say(forth, header("FINI"))
    talk.close()
    return talk


BACK: Any = {
    "src": (bytes(12) + bytes([10, 0, 0, 1]), 1000),
    "dest": (bytes(12) + bytes([10, 0, 0, 2]), 1001),
}
DATA = (True, header("DATA"))
PROTOACK = (False, header("PROTOACK", **BACK))


@pytest.mark.parametrize("case", CASES)
def test_recorded_jobs_of_another_implementation_have_none(case):
    assert breaches(seen(case)) == []


def test_what_is_acknowledged_is_owed_by_nobody():
    assert told(conversation(DATA, DATA, PROTOACK, DATA)) == []


def test_the_receiver_owes_protoacks():
    (found,) = told(conversation(DATA, DATA, DATA))
    assert (found.clause, found.rule, found.client, found.rank) == (
        "3.6",
        OWED_PROTOACK,
        0,
        0,
    )
    assert (
        str(found) == "rank 0 never sent 1 PROTOACKs for packets of rank 1 (IMPI 3.6)"
    )


def test_of_a_lost_channel_nobody_owes_anything():
    assert told(conversation(DATA, DATA, fini=False)) == []


@pytest.mark.parametrize(
    ("said", "clause", "rank"),
    [
        ([DATA] * 5 + [PROTOACK] * 2, "3.6", 1),
        ([(False, header("SYNCACK", srqid=9, **BACK))], "3.7.1", 0),
        ([(True, header("SYNCACK", srqid=9))], "3.7.1", 1),
        ([(True, header("DATA", tag=-1))], "2.3.5", 1),
        ([(True, header("FINI")), DATA], "3.8", 1),
    ],
)
def test_the_sender_of_the_wrong_packet_is_named(said, clause, rank):
    found = told(conversation(*said))[0]
    assert (found.clause, found.client, found.rank) == (clause, rank, rank)


def test_octets_that_are_no_packet_are_their_senders():
    (found,) = told(conversation((False, b"\0\0\0\x63" + bytes(124)), fini=False))
    assert (found.clause, found.rank) == ("3.5", 0)
    assert "packet type 99" in found.text


def test_half_a_packet_at_the_end_is_no_breach():
    assert told(conversation((True, header("DATA", 10)[:90]), fini=False)) == []
    assert told(conversation((True, header("DATA", 10)), fini=False)) == []


def test_a_whole_header_is_judged_though_its_octets_are_cut():
    little = header("DATA", 1 << 16, msglen=1 << 48)
    (found,) = told(conversation((True, little + bytes(8)), fini=False))
    assert (found.clause, found.rank) == ("3.7.2", 1)


def closing(*order: str) -> Talk:
    """``>FINI`` is the opener's, ``<close`` the accepter's end."""
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    for word in order:
        side = 0 if word[0] == ">" else 1
        if word[1:] == "FINI":
            talk.say(side == 0, header("FINI"))
        else:
            talk.maker.tcp(
                talk.ends[side],
                talk.ends[1 - side],
                talk.sent[side],
                talk.sent[1 - side],
                FIN | ACK,
            )
            talk.sent[side] += 1
    return talk


def test_who_closes_before_the_fini_of_the_other():
    assert told(closing(">FINI", "<FINI", ">close", "<close")) == []
    (found,) = told(closing(">FINI", ">close", "<FINI", "<close"))
    assert (found.clause, found.rule, found.rank) == ("3.8", EARLY_CLOSE, 1)
    assert told(closing(">FINI", ">close", "<close")) == []
    assert told(closing(">close", "<FINI", "<close")) == []


def test_holes_accuse_nobody():
    job = seen("many")
    assert job.layout is not None
    job.layout = replace(job.layout, values={**job.layout.values, "H_HIWATER": (1,)})
    assert breaches(job)
    job.channels[0].connection.forth.problems.append("a hole")
    assert breaches(job) == []
