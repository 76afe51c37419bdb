"""Open items on the wire at some moment: messages, credit, FINIs."""

from __future__ import annotations

from typing import Any

from conversations import OURS, PEER, Talk, header, job_pcap, layout

from impi.lab.dissect import Dissection, decode_channel, dissect, read_pcap, reassemble
from impi.lab.dissect.jobs.pending import Standing, numbers, standing
from impi.lab.dissect.streams.pcap import Segment

BACK: Any = {"src": (OURS, 1000), "dest": (PEER, 1001)}


def seen(*said: tuple[bool, bytes]) -> Dissection:
    """The octets of host 1 (true) and of host 0: two procs, with credit of four packets."""
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    for forth, data in said:
        talk.say(forth, data)
    (connection,) = reassemble(
        s for s in read_pcap(talk.maker.bytes()) if isinstance(s, Segment)
    )
    return Dissection(
        channels=[decode_channel(connection, 0)], layout=layout(ackmark=2, hiwater=4)
    )


def test_a_message_is_open_until_all_its_octets_have_crossed_and_it_is_answered():
    half = (True, header("DATASYNC", 4, msglen=9, srqid=3, tag=6) + b"abcd")
    (sent,) = standing(seen(half)).messages
    assert (sent.src, sent.dest, sent.tag, sent.nbytes, sent.got) == (1, 0, 6, 9, 4)
    assert (sent.sync, sent.acknowledged, sent.complete) == (True, False, False)
    answer = (False, header("SYNCACK", srqid=3, drqid=8, **BACK))
    rest = (True, header("DATA", 5, msglen=9, srqid=3, drqid=8, tag=6) + b"efghi")
    (sent,) = standing(seen(half, answer, rest)).messages
    assert (sent.acknowledged, sent.complete) == (True, True)


def test_credit_counts_what_no_protoack_has_answered():
    data, protoack = (True, header("DATA")), (False, header("PROTOACK", **BACK))
    (credit,) = standing(seen(*[data] * 4)).credits
    assert (credit.src, credit.dest, credit.outstanding, credit.exhausted) == (
        1,
        0,
        4,
        True,
    )
    (credit,) = standing(seen(*[data] * 3, protoack)).credits
    assert (credit.outstanding, credit.exhausted) == (1, False)
    assert standing(seen(data, data, protoack)).credits == ()


def test_who_has_sent_no_fini():
    assert standing(seen()).no_fini == ((0, 1), (1, 0))
    found = standing(seen((True, header("FINI"))))
    assert (found.no_fini, found.finis) == (((0, 1),), 1)


def test_only_what_had_crossed_by_then_counts():
    whole = dissect([job_pcap("long")], 50000)
    after = standing(whole)
    assert after.no_fini == ()
    assert all(message.complete for message in after.messages)
    middle = standing(whole, after.messages[-1].time)
    assert len(middle.no_fini) == 2
    assert len(middle.messages) <= len(after.messages)
    assert standing(whole, 0.0).messages == ()


def test_without_labels_nothing_is_told():
    assert standing(Dissection()) == Standing()


def test_packets_have_the_numbers_of_their_messages():
    whole = dissect([job_pcap("long")], 50000)
    known = numbers(whole.messages())
    assert set(known.values()) == set(range(1, len(whole.messages()) + 1))
    first = whole.messages()[0].packets[0]
    assert known[first.from_host, first.to_host, first.offset] == 1
