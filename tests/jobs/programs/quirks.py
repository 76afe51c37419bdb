"""Two clients, of which "none", "one" or "both" (the argument) have --peer-quirks.

What rank 1 makes of the ints of rank 0 shows in which form they came.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
who = sys.argv[1]
VALUE = 0x01020304
GOT = VALUE if who != "one" else 0x04030201


def received() -> int:
    status = MPI.Status()
    got = np.zeros(1, "i")
    comm.Recv(got, other, 1, status)
    assert status.Get_count(MPI.INT) == 1
    return int(got[0])


def exchanged() -> None:
    mine = np.array([VALUE], "i")
    comm.Send(mine, other, 1)
    assert received() == GOT
    MPI.Attach_buffer(bytearray(1000 + MPI.BSEND_OVERHEAD))
    comm.Bsend(mine, other, 1)
    assert received() == GOT
    MPI.Detach_buffer()
    comm.Sendrecv_replace(mine, other, 1, other, 1)
    assert mine[0] == GOT
    comm.Bcast(mine := np.array([VALUE], "i"), 0)
    assert mine[0] == (VALUE if comm.rank == 0 else GOT)
    both = np.zeros(2, "i")
    comm.Alltoall(np.array([VALUE, VALUE], "i"), both)
    assert both[other] == GOT and both[comm.rank] == VALUE


def a_long_of_eight_octets() -> None:
    """In a 0.0 job MPI_LONG has 4 octets as external32, and its own 8 in native form."""
    big = np.array([2**40 + 1], "l")
    got = np.zeros(1, "l")
    status = MPI.Status()
    if who == "both":
        comm.Sendrecv([big, MPI.LONG], other, 2, [got, MPI.LONG], other, 2, status)
        assert got[0] == big[0] and status.Get_count(MPI.LONG) == 1


def tag_190() -> None:
    try:
        comm.Send(np.zeros(1, "i"), other, 190)
    except MPI.Exception as error:
        assert who == "both" and error.Get_error_class() == MPI.ERR_TAG
        assert "--peer-quirks" in str(error)
    else:
        assert who == "none"
        comm.Recv(np.zeros(1, "i"), other, 190)


exchanged()
a_long_of_eight_octets()
if who != "one":
    tag_190()
    assert comm.allreduce(comm.rank) == 1
    total = np.zeros(1, "i")
    comm.Allreduce(np.array([comm.rank], "i"), total)
    assert total[0] == 1
if comm.rank == 0:
    print("all right")
