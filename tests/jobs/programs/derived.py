"""Derived datatypes between two clients, by every call that moves one message.

What arrives is held against what numpy says of the same places. Rank 0 prints "all right".
"""

from typing import Any

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
me, other = comm.rank, 1 - comm.rank
ROWS, COLUMNS = 48, 5000


def matrix(of: int, seed: int = 0) -> np.ndarray:
    return (
        np.arange(ROWS * COLUMNS, dtype="i4").reshape(ROWS, COLUMNS) * 3
        + 1000 * of
        + seed
    )


part = MPI.INT.Create_subarray([ROWS, COLUMNS], [40, 3000], [5, 1000]).Commit()
INSIDE = np.s_[5:45, 1000:4000]
octets = MPI.BYTE.Create_vector(ROWS, 4 * 4000, 4 * COLUMNS).Commit()


def expect(got: np.ndarray, of: int, seed: int, where: Any = INSIDE) -> None:
    twin = np.zeros_like(got)
    twin[where] = matrix(of, seed)[where]
    assert (got == twin).all()


def blocking() -> None:
    status = MPI.Status()
    for seed, send in enumerate((comm.Send, comm.Ssend, comm.Bsend)):
        got = np.zeros((ROWS, COLUMNS), "i4")
        mine = matrix(me, seed)
        if me == 0:
            send([mine, 1, part], other, 1)
            mine[:] = -1  # ours again
            comm.Recv([got, 1, part], other, 1, status)
        else:
            comm.Recv([got, 1, part], other, 1, status)
            send([mine, 1, part], other, 1)
            mine[:] = -1
        expect(got, other, seed)
        assert status.Get_count(part) == 1 and status.Get_elements(part) == 40 * 3000
    got = np.zeros((ROWS, COLUMNS), "i4")
    comm.Sendrecv([matrix(me), 1, octets], other, 2, [got, 1, octets], other, 2)
    expect(got, other, 0, np.s_[:, :4000])
    both = matrix(me)
    comm.Sendrecv_replace([both, 1, part], other, 3, other, 3)
    twin = matrix(me)
    twin[INSIDE] = matrix(other)[INSIDE]
    assert (both == twin).all()


def nonblocking() -> None:
    got = [np.zeros((ROWS, COLUMNS), "i4") for _ in range(4)]
    mine = [matrix(me, i) for i in range(4)]
    comm.Barrier()
    sends = [comm.Isend([m, 1, part], other, i) for i, m in enumerate(mine)]
    receives = [
        comm.Irecv([g, 1, part], MPI.ANY_SOURCE, i)
        for i, g in reversed(list(enumerate(got)))
    ]
    MPI.Request.Waitall(sends + receives)
    for i, g in enumerate(got):
        expect(g, other, i)
    sends = [comm.Isend([m, 1, part], other, 9) for m in mine]
    for i in range(4):
        message = comm.Mprobe(other, 9)
        got[i][:] = 0
        message.Recv([got[i], 1, part])
        expect(got[i], other, i)
    MPI.Request.Waitall(sends)


def persistent() -> None:
    mine, got = matrix(me), np.zeros((ROWS, COLUMNS), "i4")
    requests = [
        comm.Recv_init([got, 1, part], other, 4),
        comm.Ssend_init([mine, 1, part], other, 4),
    ]
    for seed in range(3):
        mine[:] = matrix(me, seed)
        got[:] = 0
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        expect(got, other, seed)
    for request in requests:
        request.Free()


def several_and_fewer() -> None:
    """More room than there is, of another type of the same signature."""
    block = MPI.INT.Create_vector(2, 2500, 4000).Create_resized(0, 4 * 9000).Commit()
    plain, got = np.arange(3 * 5000, dtype="i4"), np.zeros(5 * 9000, "i4")
    status = MPI.Status()
    comm.Sendrecv(
        [plain + me, 15000, MPI.INT],
        other,
        5,
        [got[:44500], 4, block],
        other,
        5,
        status,
    )
    assert status.Get_count(block) == 3
    twin = np.zeros(5 * 9000, "i4")
    for i in range(3):
        for j in range(2):
            begin = 9000 * i + 4000 * j
            twin[begin : begin + 2500] = plain[5000 * i + 2500 * j :][:2500] + other
    assert (got == twin).all()


def too_long() -> None:
    got = np.zeros((ROWS, COLUMNS), "i4")
    small = MPI.INT.Create_vector(2, 3000, 5000).Commit()
    sending = comm.Isend([matrix(me), 1, part], other, 6)
    try:
        comm.Recv([got, 1, small], other, 6)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TRUNCATE
    else:
        raise AssertionError("nothing was raised")
    sending.Wait()
    comm.Sendrecv([matrix(me), 1, part], other, 6, [got, 1, part], other, 6)
    expect(got, other, 0)


def taken_back() -> None:
    sending = comm.Issend([matrix(me), 1, part], other, 7)
    sending.Cancel()
    status = MPI.Status()
    sending.Wait(status)
    assert status.Is_cancelled()
    got = np.zeros((ROWS, COLUMNS), "i4")
    comm.Sendrecv([matrix(me, 5), 1, part], other, 7, [got, 1, part], other, 7)
    expect(got, other, 5)


MPI.Attach_buffer(bytearray((1 << 20) + MPI.BSEND_OVERHEAD))
blocking()
MPI.Detach_buffer()
nonblocking()
persistent()
several_and_fewer()
too_long()
taken_back()
comm.Barrier()
if me == 0:
    print("all right")
