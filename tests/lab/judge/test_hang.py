"""Blame for a job that hangs, from made-up calls and packets; see test_hangs_real.py."""

from __future__ import annotations

from hanging import Hang

from impi.lab.dissect import Credit
from impi.lab.evidence.call_logs import ANY
from impi.lab.evidence.gathered import Owed
from impi.lab.judge.hang import explain


def test_nobody_waits():
    hang = Hang()
    hang.finalizing.clear()
    for rank in range(4):
        hang.stands(rank, 'File "/x/programs/p2p.py", line 3 in <module>')
    assert explain(hang.facts()) is None


def test_the_issue_s_own_example():
    hang = Hang("1x4+1x4")
    hang.is_in(5, "Recv", source=0, tag=9)
    for _ in range(11):
        hang.crossed(1, 4)
    hang.did(4, "Recv", source=0, tag=3)
    hang.is_in(0, "Ssend", dest=4, sendtag=3)
    hang.is_in(4, "Recv", source=5, tag=1)
    hang.crossed(0, 4, tag=3, sync=True)
    assert hang.blames() == (
        (4,),
        "client 1 rank 5 waits in Recv(from rank 0, tag 9) for DATA from client 0 rank 0, which waits in"
        " Ssend(to rank 4, tag 3) for the SYNCACK of message 12 from client 1 rank 4, which has received it and does"
        " not answer",
    )


def test_a_syncack_that_is_not_yet_due_is_no_fault():
    """The receiver waits for something else instead: that wait is followed."""
    hang = Hang()
    hang.is_in(0, "Ssend", dest=2, sendtag=3)
    hang.crossed(0, 2, tag=3, sync=True)
    hang.is_in(2, "Recv", source=1, tag=8)
    hang.stands(1, 'File "/x/programs/p2p.py", line 3 in <module>')
    ranks, sentence = hang.blames()
    assert ranks == (1,)
    assert sentence.endswith(
        'which is in no MPI call: it stands in File "/x/programs/p2p.py", line 3 in <module>'
    )


def test_a_posted_receive_makes_it_due():
    hang = Hang()
    hang.is_in(0, "Ssend", dest=2, sendtag=3)
    hang.crossed(0, 2, tag=3, sync=True)
    hang.did(2, "Irecv", source=ANY, tag=ANY)
    hang.is_in(2, "Recv", source=1, tag=8)
    hang.is_in(1, "Recv", source=0, tag=8)
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert sentence.endswith(
        "client 1 rank 2, which has a receive for it and does not answer"
    )


def test_a_receiver_that_sends_no_syncack_by_its_own_call():
    hang = Hang()
    hang.is_in(0, "Send", dest=2, sendtag=3)
    hang.crossed(0, 2, tag=3, nbytes=1 << 20, got=1 << 18, sync=True)
    hang.is_in(2, "Recv", source=0, tag=3)
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert "SYNCACK" in sentence


def test_the_rest_of_a_long_message():
    hang = Hang()
    hang.is_in(0, "Send", dest=2, sendtag=3)
    hang.crossed(0, 2, tag=3, nbytes=1 << 20, got=1 << 18, sync=True, acknowledged=True)
    hang.is_in(2, "Recv", source=0, tag=3)
    ranks, sentence = hang.blames()
    assert ranks == (0,)
    assert (
        "has the SYNCACK of message 1 and sent 262144 of 1048576 octets" in sentence
        or ("the rest of message 1 (262144 of 1048576 octets)" in sentence)
    )


def test_no_protoack():
    hang = Hang()
    for _ in range(32):
        hang.did(0, "Send", dest=3, sendtag=9)
        hang.did(3, "Recv", source=0, tag=9)
        hang.crossed(0, 3, tag=9)
    hang.credits.append(Credit(src=0, dest=3, outstanding=32, hiwater=32))
    hang.is_in(0, "Send", dest=3, sendtag=9)
    hang.is_in(3, "Recv", source=0, tag=9)
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert (
        "a PROTOACK (32 packets out, hiwater 32) from client 1 rank 3, which does not acknowledge"
        in sentence
    )


def test_a_sender_that_is_out_of_credit_because_its_receiver_is_outside_of_mpi():
    hang = Hang()
    hang.credits.append(Credit(src=0, dest=3, outstanding=32, hiwater=32))
    for _ in range(32):
        hang.did(0, "Send", dest=3, sendtag=9)
        hang.crossed(0, 3, tag=9)
    hang.is_in(0, "Send", dest=3, sendtag=9)
    hang.stands(3, 'File "/x/programs/p2p.py", line 3 in busy')
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert "which is in no MPI call: it stands in" in sentence


def test_used_up_credit_alone_keeps_nobody():
    hang = Hang()
    for _ in range(32):
        hang.did(0, "Send", dest=3, sendtag=9)
        hang.crossed(0, 3, tag=9)
    hang.credits.append(Credit(src=0, dest=3, outstanding=32, hiwater=32))
    hang.is_in(0, "Recv", source=2, tag=1)
    hang.ended[2] = 0
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert "ended with 0" in sentence


def test_one_that_says_it_sends_and_nothing_crosses():
    hang = Hang()
    hang.is_in(0, "Recv", source=3, tag=7)
    hang.did(3, "Send", dest=0, sendtag=7)
    hang.is_in(3, "Recv", source=0, tag=8)
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert sentence.endswith(
        "which says that it sent it (Send(to rank 0, tag 7)), and nothing has crossed"
    )


def test_one_that_has_credit_and_sends_nothing():
    hang = Hang()
    hang.is_in(3, "Ssend", dest=0, sendtag=7)
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert (
        sentence
        == "client 1 rank 3 has credit and sends nothing (it is in Ssend(to rank 0, tag 7))"
    )


def test_one_that_does_not_take_what_has_come():
    hang = Hang()
    hang.did(0, "Send", dest=2, sendtag=7)
    hang.crossed(0, 2, tag=7)
    hang.is_in(2, "Recv", source=0, tag=7)
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert sentence.startswith(
        "client 1 rank 2 does not take message 1, which has come"
    )


def test_another_tag_is_not_the_message():
    hang = Hang()
    hang.did(0, "Send", dest=2, sendtag=6)
    hang.crossed(0, 2, tag=6)
    hang.is_in(2, "Recv", source=0, tag=7)
    hang.ended[0] = 0
    ranks, sentence = hang.blames()
    assert ranks == (0,)
    assert "for DATA from client 0 rank 0, which ended with 0" in sentence


def test_two_receives_wait_for_each_other():
    hang = Hang()
    hang.is_in(1, "Recv", source=2, tag=5)
    hang.is_in(2, "Recv", source=1, tag=6)
    assert hang.blames() == (
        (1, 2),
        "client 0 rank 1 waits in Recv(from rank 2, tag 5) for DATA from client 1 rank 2, which waits in"
        " Recv(from rank 1, tag 6) for DATA from client 0 rank 1: they wait for each other",
    )


def test_a_circle_that_others_wait_for():
    hang = Hang()
    hang.is_in(1, "Recv", source=2, tag=5)
    hang.is_in(2, "Recv", source=1, tag=6)
    hang.is_in(0, "Recv", source=1, tag=6)
    assert hang.blames()[0] == (1, 2)


def test_a_collective_that_one_rank_never_enters():
    hang = Hang()
    for rank in range(3):
        hang.did(rank, "Barrier", nth=1)
        hang.is_in(rank, "Allreduce", nth=2)
    hang.did(3, "Barrier", nth=1)
    hang.stands(3, 'File "/x/programs/coll.py", line 30 in work')
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert sentence == (
        "client 0 rank 0 waits in Allreduce (collective 2 of MPI_COMM_WORLD) for client 1 rank 3,"
        ' which is in no MPI call: it stands in File "/x/programs/coll.py", line 30 in work'
    )


def test_a_collective_that_one_rank_cannot_enter():
    hang = Hang()
    for rank in (0, 1, 3):
        hang.is_in(rank, "Barrier", nth=1)
    hang.is_in(2, "Recv", source=1, tag=4)
    ranks, sentence = hang.blames()
    # Rank 1 waits for rank 2 in the barrier, rank 2 for a message of rank 1.
    assert ranks == (1, 2)
    assert "they wait for each other" in sentence


def test_two_different_collectives():
    hang = Hang()
    for rank in (0, 1, 3):
        hang.is_in(rank, "Barrier", nth=1)
    hang.is_in(2, "Bcast", nth=1, root=0)
    ranks, sentence = hang.blames()
    assert ranks in {(2,), (0,)}
    assert (
        "which is in Bcast there" in sentence or "which is in Barrier there" in sentence
    )


def test_another_communicator_s_collective_is_another_one():
    hang = Hang()
    hang.is_in(0, "Barrier", nth=1, comm="Split(MPI_COMM_WORLD)#1", of=(0, 2))
    hang.is_in(2, "Barrier", nth=2)
    for rank in (1, 3):
        hang.is_in(rank, "Barrier", nth=2)
    ranks, _ = hang.blames()
    assert ranks == (0, 2)


def test_a_client_that_sends_nothing_in_a_barrier():
    hang = Hang()
    for rank in range(4):
        hang.is_in(rank, "Barrier", nth=1)
    for src, dest in ((2, 0), (0, 2)):
        hang.owed.append(Owed(src=src, dest=dest, cid=1, tag=110, wanted=2, seen=0))
    ranks, sentence = hang.blames()
    assert 2 in ranks
    assert "for DATA (tag 110) from client 1 rank 2" in sentence


def test_a_synchronous_message_of_a_collective():
    hang = Hang()
    for rank in range(4):
        hang.is_in(rank, "Bcast", nth=1, root=0)
    hang.crossed(0, 2, tag=120, cid=1, nbytes=1 << 20, got=1 << 18, sync=True)
    ranks, sentence = hang.blames()
    assert 2 in ranks
    assert "the SYNCACK of message 1 from client 1 rank 2" in sentence


def test_an_unanswered_message_says_more_than_who_has_left():
    hang = Hang()
    for rank in (0, 1, 2):
        hang.did(rank, "Bcast", nth=1)
        hang.is_in(rank, "Barrier", nth=2)
    hang.is_in(3, "Bcast", nth=1)
    hang.crossed(3, 0, tag=123, cid=1, sync=True)
    ranks, sentence = hang.blames()
    assert ranks == (0,)
    assert "for the SYNCACK of message 1 from client 0 rank 0" in sentence
    assert "does not answer" in sentence


def left_gather(seen: int) -> Hang:
    """Rank 3 has left Gather twice, and ``seen`` of its messages have crossed."""
    hang = Hang()
    for rank in range(4):
        hang.did(rank, "Gather", nth=1, root=0)
    hang.is_in(0, "Gather", nth=2, root=0)
    for rank in (1, 2, 3):
        hang.did(rank, "Gather", nth=2, root=0)
        hang.is_in(rank, "Scatter", nth=3, root=0)
    hang.owed.append(Owed(src=3, dest=0, cid=1, tag=130, wanted=3, seen=seen))
    return hang


def test_a_rank_that_has_left_gather_without_sending():
    ranks, sentence = left_gather(1).blames()
    assert ranks == (3,)
    assert (
        "for DATA (tag 130) from client 1 rank 3, which has left it and sent nothing of it"
        in sentence
    )


def test_a_rank_that_has_left_gather_and_owes_to_a_later_one():
    assert left_gather(2).blames()[0] != (3,)


def test_a_master_that_has_left():
    hang = Hang()
    for rank in (0, 1, 3):
        hang.is_in(rank, "Barrier", nth=1)
    hang.did(2, "Barrier", nth=1)
    hang.is_in(2, "Recv", source=3, tag=2)
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert "which has left it" in sentence


def test_finalize_without_everybody():
    hang = Hang()
    hang.stands(3, 'File "/x/programs/p2p.py", line 3 in <module>')
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert sentence.startswith(
        "client 0 rank 0 waits in MPI_Finalize for client 1 rank 3, which is in no MPI call"
    )


def test_no_fini():
    hang = Hang()
    hang.no_fini += [(3, 0), (3, 1)]
    hang.finis = 6
    ranks, sentence = hang.blames()
    assert ranks == (3,)
    assert "for FINI from client 1 rank 3, which has sent none" in sentence


def test_finalize_without_its_barrier():
    """A rank that is through with FINI has skipped an act that others still wait for."""
    hang = Hang()
    hang.no_fini += [(0, 2), (0, 3), (1, 2), (1, 3)]
    hang.finis = 4
    hang.owed.append(Owed(src=2, dest=0, cid=1, tag=110, wanted=2, seen=1))
    hang.owed.append(Owed(src=0, dest=2, cid=1, tag=110, wanted=2, seen=1))
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert sentence.endswith("which has sent FINI and nothing of the barrier")


def test_a_communicator_that_was_freed_without_its_barrier():
    hang = Hang()
    hang.no_fini += [(2, 0), (2, 1), (3, 0), (3, 1)]
    hang.finis = 4
    hang.crossed(2, 0, tag=230, cid=9)
    ranks, sentence = hang.blames()
    assert ranks == (0,)
    assert sentence.endswith(
        "which has sent FINI and nothing of the barrier of MPI_Comm_free"
    )


def test_of_many_requests_the_one_that_lacks_something_counts():
    hang = Hang()
    hang.crossed(2, 0, tag=20)
    for rank, other in ((0, 2), (2, 0)):
        hang.did(rank, "Irecv", source=other, tag=20)
        hang.did(rank, "Irecv", source=other, tag=21)
        hang.did(rank, "Isend", dest=other, sendtag=20)
        hang.did(rank, "Isend", dest=other, sendtag=21)
        hang.is_in(rank, "Waitall", comm="", parts=(1, 2, 3, 4))
    hang.crossed(0, 2, tag=20)
    hang.crossed(2, 0, tag=21, nbytes=900, got=900, sync=True, acknowledged=True)
    hang.crossed(0, 2, tag=21, nbytes=900, got=300, sync=True)
    ranks, sentence = hang.blames()
    assert ranks == (2,)
    assert "SYNCACK" in sentence


def test_without_captures_two_clients_wait_for_each_other():
    hang = Hang()
    hang.captured = False
    hang.is_in(0, "Send", dest=3, sendtag=9)
    hang.is_in(3, "Recv", source=0, tag=9)
    ranks, sentence = hang.blames()
    assert ranks == (0, 3)
    assert "they wait for each other" in sentence
