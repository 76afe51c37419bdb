"""The corners of point-to-point communication in a mixed job, asserted on the spot.

Arguments: the job's maxdatalen and its tag_ub (0: whatever the libraries have). Rank 0 prints "all
right".
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
datalen, tag_ub = int(sys.argv[1]), int(sys.argv[2])
clients = comm.allgather(comm.Get_attr(MPI.IMPI_CLIENT_COLOR))
SIZES = sorted({0, 1, datalen - 1, datalen, datalen + 1, 2 * datalen, 3 * datalen + 7})
LONG = 3 * datalen + 7
PURE = "impi pure" in MPI.Get_library_version()
# Multiples of 7, modulo 251, of which each pattern is a part: to compute them anew takes longest.
CYCLE = (np.arange(LONG + 500) * 7 % 251).astype(np.uint8)


def remote(other: int) -> bool:
    return clients[other] != clients[rank]


def pattern(nbytes: int, source: int, salt: int = 0) -> "np.ndarray":
    """Octet i is 7 i + 13 source + salt, modulo 251; 36 is the inverse of 7."""
    start = (13 * source + salt) * 36 % 251
    return CYCLE[start : start + nbytes].copy()


def raises(error_class: int, call: object, *arguments: object) -> str:
    try:
        call(*arguments)
    except MPI.Exception as error:
        assert error.Get_error_class() == error_class, error
        return str(error)
    raise AssertionError(f"{call} went through")


def facts() -> None:
    if tag_ub:
        assert comm.Get_attr(MPI.TAG_UB) == tag_ub
        raises(MPI.ERR_TAG, comm.send, None, right, tag_ub + 1)
    highest = comm.Get_attr(MPI.TAG_UB)
    assert comm.sendrecv(rank, right, highest, None, left, highest) == left


def lengths_in_all_modes() -> None:
    for nbytes in SIZES:
        for mode in (comm.Isend, comm.Issend, comm.Irsend):
            got = np.full(nbytes + 1, 255, np.uint8)
            receiving = comm.Irecv(got, left, 1)
            comm.Barrier()  # a ready send needs its receive posted
            sending = mode(pattern(nbytes, rank), right, 1)
            status = MPI.Status()
            receiving.Wait(status)
            sending.Wait()
            assert status.Get_count(MPI.BYTE) == nbytes and not status.Is_cancelled()
            assert (got[:nbytes] == pattern(nbytes, left)).all() and got[nbytes] == 255
    receiving = comm.Irecv(np.empty(3, "i"), left, 2)
    comm.Barrier()
    comm.Rsend(np.arange(3, dtype="i"), right, 2)
    receiving.Wait()


def comes_back(other: int, nbytes: int, mode: object) -> bool:
    """Whether an unmatched send to ``other``, or from it, can be taken back.

    MPICH and Open MPI take no message back that they have, and `pure` has short ones at once.
    """
    return remote(other) or (PURE and (mode == comm.Issend or nbytes > 65536))


def cancelled_before_it_is_matched() -> None:
    """A message that is taken back never was."""
    for nbytes, mode in (
        (0, comm.Issend),
        (5, comm.Issend),
        (LONG, comm.Isend),
        (LONG, comm.Issend),
    ):
        lost = mode(pattern(nbytes, rank), right, 3)
        lost.Cancel()
        status = MPI.Status()
        if comes_back(right, nbytes, mode):
            lost.Wait(status)
            assert status.Is_cancelled(), (nbytes, mode)
        comm.Barrier()
        if comes_back(left, nbytes, mode):
            assert not comm.Iprobe(left, 3)
        else:
            got = np.empty(nbytes, np.uint8)
            comm.Recv(got, left, 3)
            assert (got == pattern(nbytes, left)).all()
        if not comes_back(right, nbytes, mode):
            lost.Wait(status)
            assert not status.Is_cancelled()
        comm.Barrier()
        assert comm.sendrecv("next", right, 3, None, left, 3) == "next"


def cancelled_after_it_is_matched() -> None:
    for nbytes in (0, 5, LONG):
        got = np.empty(nbytes, np.uint8)
        receiving = comm.Irecv(got, left, 4)
        sending = comm.Issend(pattern(nbytes, rank), right, 4)
        status = MPI.Status()
        receiving.Wait(status)
        assert not status.Is_cancelled() and (got == pattern(nbytes, left)).all()
        comm.Barrier()
        sending.Cancel()
        sending.Wait(status)
        assert not status.Is_cancelled()


def cancelled_while_it_is_matched() -> None:
    """Either it never was, or it arrives; both sides agree. Which of them is a matter of time."""
    for i in range(30):
        nbytes = (0, 5, LONG)[i % 3]
        got = np.empty(nbytes, np.uint8)
        receiving = comm.Irecv(got, left, 4)
        sending = comm.Issend(pattern(nbytes, rank, i), right, 4)
        if i % 2:
            receiving.Test()
        sending.Cancel()
        status = MPI.Status()
        sending.Wait(status)
        if comm.sendrecv(status.Is_cancelled(), right, 104, None, left, 104):
            receiving.Cancel()
            receiving.Wait(status)
            assert status.Is_cancelled()
        else:
            receiving.Wait(status)
            assert not status.Is_cancelled() and (got == pattern(nbytes, left, i)).all()
        comm.Barrier()


def cancelled_one_of_many() -> None:
    """The others arrive whole and in order, whichever is taken back."""
    sends = [
        comm.Issend(pattern(nbytes, rank, i), right, 5)
        for i, nbytes in enumerate([3, LONG, 5, LONG, 7])
    ]
    statuses = [MPI.Status() for _ in sends]
    for i in (1, 2):
        sends[i].Cancel()
        if comes_back(right, 3, comm.Issend):
            sends[i].Wait(statuses[i])
            assert statuses[i].Is_cancelled()
    comm.Barrier()
    kept = [
        i for i in range(5) if i not in (1, 2) or not comes_back(left, 3, comm.Issend)
    ]
    for i in kept:
        nbytes = (3, LONG, 5, LONG, 7)[i]
        got = np.empty(nbytes, np.uint8)
        status = MPI.Status()
        comm.Probe(left, 5, status)
        assert status.Get_count(MPI.BYTE) == nbytes
        comm.Recv(got, left, 5)
        assert (got == pattern(nbytes, left, i)).all()
    for i in (0, 3, 4) if comes_back(right, 3, comm.Issend) else range(5):
        sends[i].Wait(statuses[i])
        assert not statuses[i].Is_cancelled()


def cancelled_receive() -> None:
    never = comm.Irecv(np.empty(1, "i"), left, 6)
    never.Cancel()
    status = MPI.Status()
    never.Wait(status)
    assert status.Is_cancelled()
    comm.Barrier()
    assert comm.sendrecv("mine", right, 6, None, left, 6) == "mine"


def probes() -> None:
    sends = []
    for nbytes in SIZES:
        sends += [
            comm.Isend(pattern(nbytes, rank, salt), right, 7) for salt in range(4)
        ]
    for nbytes in SIZES:
        status = MPI.Status()
        comm.Probe(left, MPI.ANY_TAG, status)
        assert (status.source, status.tag, status.Get_count(MPI.BYTE)) == (
            left,
            7,
            nbytes,
        )
        got = np.empty(nbytes, np.uint8)
        comm.Recv(got, left, 7)
        assert (got == pattern(nbytes, left, 0)).all()
        while not comm.Iprobe(MPI.ANY_SOURCE, 7, status):
            pass
        assert (status.source, status.Get_elements(MPI.BYTE)) == (left, nbytes)
        message = comm.Mprobe(left, 7, status)
        assert status.Get_count(MPI.BYTE) == nbytes
        while (later := comm.Improbe(left, 7, status)) is None:
            pass
        assert status.Get_count(MPI.BYTE) == nbytes
        request = later.Irecv(got)  # the later of two, first
        request.Wait(status)
        assert (
            status.Get_count(MPI.BYTE) == nbytes
            and (got == pattern(nbytes, left, 2)).all()
        )
        message.Recv(got, status)
        assert (
            status.Get_count(MPI.BYTE) == nbytes
            and (got == pattern(nbytes, left, 1)).all()
        )
        comm.Recv(got, left, 7)
        assert (got == pattern(nbytes, left, 3)).all()
    MPI.Request.Waitall(sends)
    assert not comm.Iprobe()
    comm.Barrier()
    doubles = np.arange(datalen // 4 + 1, dtype="d")
    sending = comm.Isend(doubles, right, 7)
    comm.Probe(left, 7, status)
    assert status.Get_count(MPI.DOUBLE) == len(doubles)
    got = np.empty_like(doubles)
    comm.Recv(got, left, 7)
    sending.Wait()
    assert (got == doubles).all()


def many_long_ones_both_ways() -> None:
    """All to all, the receives posted in another order than the messages come in."""
    others = [r for r in range(size) if r != rank]
    count = 5
    data = {
        (r, i): pattern(LONG + i, rank, 10 * r + i)
        for r in others
        for i in range(count)
    }
    half = [(r, i) for r in others for i in range(count) if i % 2]
    rest = [key for key in data if key not in half]
    got = {(r, i): np.empty(LONG + i, np.uint8) for r, i in data}
    receives = [comm.Irecv(got[r, i], r, 100 + i) for r, i in reversed(half)]
    sends = [comm.Isend(octets, r, 100 + i) for (r, i), octets in data.items()]
    receives += [comm.Irecv(got[r, i], r, 100 + i) for r, i in reversed(rest)]
    MPI.Request.Waitall(receives)
    MPI.Request.Waitall(sends)
    for (r, i), octets in got.items():
        assert (octets == pattern(LONG + i, r, 10 * rank + i)).all(), (r, i)


def persistent_requests() -> None:
    MPI.Attach_buffer(bytearray(2 * LONG + 4 * MPI.BSEND_OVERHEAD))
    out = [np.empty(n, np.uint8) for n in (0, 3, datalen, LONG)]
    got = [np.empty_like(o) for o in out]
    for init in (comm.Send_init, comm.Ssend_init, comm.Bsend_init, comm.Rsend_init):
        receives = [comm.Recv_init(buf, left, 20 + i) for i, buf in enumerate(got)]
        sends = [init(buf, right, 20 + i) for i, buf in enumerate(out)]
        assert MPI.Request.Testall([*sends, *receives])  # inactive ones are complete
        status = MPI.Status()
        sends[0].Wait(status)
        assert (status.source, status.tag, status.count) == (
            MPI.ANY_SOURCE,
            MPI.ANY_TAG,
            0,
        )
        for turn in range(3):
            MPI.Prequest.Startall(receives)
            raises(MPI.ERR_REQUEST, receives[0].Start)
            comm.Barrier()  # a ready send needs its receive posted
            for buf in out:
                buf[:] = pattern(len(buf), rank, turn)
            MPI.Prequest.Startall(sends)
            statuses: list[MPI.Status] = [MPI.Status() for _ in receives]
            MPI.Request.Waitall(receives, statuses)
            MPI.Request.Waitall(sends)
            assert [s.count for s in statuses] == [len(buf) for buf in got]
            for buf in got:
                assert (buf == pattern(len(buf), left, turn)).all()
        for request in (*sends, *receives):
            request.Free()
            assert request == MPI.REQUEST_NULL
            raises(MPI.ERR_REQUEST, request.Start)
        comm.Barrier()
    MPI.Detach_buffer()


def buffered_sends() -> None:
    data = pattern(LONG, rank)
    assert "0 of the 0 bytes" in raises(MPI.ERR_BUFFER, comm.Bsend, data, right, 30)
    exact = LONG + MPI.BSEND_OVERHEAD
    MPI.Attach_buffer(bytearray(exact - 1))
    raises(MPI.ERR_BUFFER, comm.Bsend, data, right, 30)
    MPI.Detach_buffer()
    MPI.Attach_buffer(bytearray(exact))
    raises(MPI.ERR_BUFFER, MPI.Attach_buffer, bytearray(1))
    comm.Bsend(data, right, 30)
    data[:] = 0  # it was copied
    if remote(right):
        # Nobody has matched the first one, so it still fills the buffer.
        raises(MPI.ERR_BUFFER, comm.Bsend, np.empty(1, np.uint8), right, 30)
    comm.Barrier()
    got = np.empty(LONG, np.uint8)
    comm.Recv(got, left, 30)
    assert (got == pattern(LONG, left)).all()
    MPI.Detach_buffer()  # waits until it is sent
    comm.Barrier()
    assert not comm.Iprobe()


CHECKS = (
    facts,
    lengths_in_all_modes,
    cancelled_before_it_is_matched,
    cancelled_after_it_is_matched,
    cancelled_while_it_is_matched,
    cancelled_one_of_many,
    cancelled_receive,
    probes,
    many_long_ones_both_ways,
    persistent_requests,
    buffered_sends,
)
for check in CHECKS:
    check()
    comm.Barrier()
if rank == 0:
    print("all right")
MPI.Finalize()
