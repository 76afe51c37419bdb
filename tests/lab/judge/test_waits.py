"""The waits of a rank: for which act, of whom, and who owes it in any case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hanging import Hang

from impi.lab.evidence.call_logs import ANY
from impi.lab.evidence.gathered import Checks, Look
from impi.lab.judge.hang import explain
from impi.lab.judge.waits import Moment, Waits, phase


def test_who_has_not_started():
    hang = Hang()
    hang.is_in(0, "Recv", source=3, tag=7)
    hang.unborn.add(3)
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert sentence.endswith("client 1 rank 3, which has not initialised MPI")


def test_requests_are_waited_for():
    hang = Hang()
    hang.did(0, "Irecv", source=3, tag=7)
    hang.did(0, "Irecv", source=2, tag=7)
    hang.did(0, "Isend", dest=2, sendtag=7)
    hang.crossed(2, 0, tag=7)
    hang.crossed(0, 2, tag=7)
    hang.did(0, "Wait", comm="", parts=(2,))
    hang.is_in(0, "Waitall", comm="", parts=(1, 2, 3))
    hang.ended[3] = 7
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert sentence == (
        "client 0 rank 0 waits in Irecv(from rank 3, tag 7) for DATA from client 1 rank 3, which ended with 7"
    )


def test_a_receive_from_anybody_waits_for_who_can_still_send():
    hang = Hang()
    hang.is_in(0, "Recv", source=ANY, tag=7)
    hang.ended[1] = hang.ended[2] = 0
    hang.stands(3, 'File "/x/programs/p2p.py", line 3 in <module>')
    assert hang.blames()[0] == (3,)


def test_inside_a_client_nothing_is_seen_but_what_both_say():
    hang = Hang()
    hang.is_in(1, "Recv", source=0, tag=7)
    hang.did(0, "Send", dest=1, sendtag=7)
    hang.is_in(0, "Recv", source=1, tag=8)
    ranks, sentence = hang.blames()
    assert ranks == (0,)
    assert sentence.endswith(
        "which has sent it (Send(to rank 1, tag 7)), inside client 0 (pure)"
    )


def test_a_half_that_has_what_it_needs_is_not_what_a_call_waits_for():
    hang = Hang()
    hang.did(2, "Sendrecv", dest=3, sendtag=7, source=1, tag=7)
    hang.is_in(3, "Sendrecv", dest=0, sendtag=7, source=2, tag=7)
    hang.is_in(0, "Sendrecv", dest=1, sendtag=7, source=3, tag=7)
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert "nothing" in sentence
    assert "inside" not in sentence


def test_what_counts_is_the_moment_of_the_look():
    """Ranks that do not hang go on while others are looked at."""
    hang = Hang()
    hang.is_in(0, "Recv", source=2, tag=7)
    hang.did(2, "Send", dest=0, sendtag=7)  # at 1.0, until 2.0
    hang.did(2, "Barrier", nth=1)
    hang.finalizing.add(2)  # at 3.0
    hang.look = Look(at=1.5, why="the time limit")
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    # The send is what it is in, not what it was once in.
    assert (
        "(it is in Send(to rank 0, tag 7))" in sentence
        or "says that it sent it" in sentence
    )
    hang.look = Look(at=0.5, why="the time limit")
    assert explain(hang.facts()) is None  # nobody had called anything


@pytest.mark.parametrize("rank", range(4))
def test_nobody_who_only_waits_is_blamed(rank):
    hang = Hang()
    for other in range(4):
        if other != rank:
            hang.is_in(other, "Barrier", nth=1)
    hang.ended[rank] = 0
    assert hang.blames()[0] == (rank,)


def test_an_edge_of_each_kind():
    hang = Hang()
    hang.is_in(0, "Recv", source=2, tag=7)
    hang.is_in(2, "Ssend", dest=0, sendtag=8)
    sent = hang.crossed(2, 0, tag=8, sync=True)
    hang.is_in(1, "Barrier", nth=1)
    waits = Waits(hang.facts())
    (data,) = waits.waits_of(0)
    assert (data.on, data.thing, data.claim, data.due) == (2, "DATA", "", False)
    (answer,) = waits.waits_of(2)
    assert (answer.on, answer.thing, answer.due) == (
        0,
        f"the SYNCACK of message {sent.number}",
        False,
    )
    assert {(wait.on, wait.claim) for wait in waits.waits_of(1)} == {
        (rank, "has not entered it") for rank in (0, 2, 3)
    }


def test_a_receive_that_was_begun_makes_the_answer_due():
    hang = Hang()
    hang.is_in(2, "Ssend", dest=0, sendtag=8)
    hang.crossed(2, 0, tag=8, sync=True)
    hang.did(0, "Irecv", source=2, tag=8)
    hang.is_in(0, "Recv", source=3, tag=9)
    (answer,) = Waits(hang.facts()).waits_of(2)
    assert (answer.on, answer.due) == (0, True)


def test_a_message_is_unmatched_until_its_receiver_says_so():
    hang = Hang()
    sent = hang.crossed(0, 2, tag=3)
    assert Moment(hang.facts()).unmatched() == [sent]
    hang.did(2, "Recv", source=0, tag=3)
    assert Moment(hang.facts()).unmatched() == []


def test_the_progress_of_a_rank():
    hang = Hang()
    hang.unborn.add(1)
    hang.is_in(2, "Recv", source=0, tag=3)
    hang.ended[3] = 0
    facts = hang.facts()
    assert [phase(facts.rank(rank)) for rank in range(4)] == [
        "finalize",
        "start",
        "case",
        "ended",
    ]
    assert phase(None) == "start"
    finalizing = facts.rank(0)
    assert finalizing is not None
    assert (
        phase(replace(finalizing, done=None, checks=Checks(performed=4))) == "finalize"
    )
