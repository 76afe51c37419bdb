"""A client is lost: the others learn of it, revoke, agree and shrink, go on and end with 0."""

import os
import signal
from array import array

from begun import rank, report, size  # type: ignore[import-not-found]
from look_for_impirun import impirun  # type: ignore[import-not-found]
from mpi4py import MPI

comm = MPI.COMM_WORLD.Dup()
victims = report.clients[-1]
left = [r for r in range(size) if r not in victims]


def ring(members: MPI.Comm, tag: int) -> None:
    """Send to the right, and check the message from the left."""

    here, there = (members.rank + 1) % members.size, (members.rank - 1) % members.size
    into = bytearray(64)
    members.Sendrecv(
        report.octets(f"survive/{tag}/{members.rank}", 64), here, tag, into, there, tag
    )
    report.check(
        f"ring {tag}", bytes(into), report.octets(f"survive/{tag}/{there}", 64)
    )


def failure_of_recv(source: int) -> int:
    """Return the class of the error that ends a receive from a lost rank."""
    try:
        comm.Recv(bytearray(8), source, 70)
    except MPI.Exception as failure:
        return int(failure.Get_error_class())

    return MPI.SUCCESS


def agreed(flag: int) -> int:
    """Agree with the ranks that are left, once all of them know of the loss."""
    while True:
        comm.Ack_failed()
        try:
            return comm.Agree(flag)
        except MPI.Exception as failure:
            # The news of Revoke may overtake that of the loss, which is then not acknowledged.
            if failure.Get_error_class() != MPI.ERR_PROC_FAILED:
                raise


ring(comm, 7)
try:
    comm.Barrier()
except MPI.Exception as failure:
    # The victims leave the barrier first where this machine is busy. They may be lost, and rank 0
    # may have revoked, before this rank has looked at their last message.
    kind = failure.Get_error_class()
    if rank in victims or kind not in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
        raise

if rank in victims:
    report.leave()
    for other in victims[1:]:  # all have reported
        if rank == other:
            comm.Send(b"", victims[0], 71)
        elif rank == victims[0]:
            comm.Recv(bytearray(), other, 71)
    if rank == victims[0]:  # on the node of impirun
        os.kill(impirun(report.client), signal.SIGKILL)
    failure_of_recv((rank + 1) % size)

# A rank that needs the lost client gets an error, and ends the wait of all others.
if rank == 0:
    report.check("class of the error", failure_of_recv(size - 1), MPI.ERR_PROC_FAILED)
    comm.Revoke()
else:
    report.check("class of the error", failure_of_recv(0), MPI.ERR_REVOKED)

report.check("what all have agreed on", agreed(5 if rank == 0 else 7), 5)
report.check(
    "lost",
    MPI.Group.Translate_ranks(comm.Get_failed(), None, comm.Get_group()),
    victims,
)

smaller = comm.Shrink()
report.check(
    "members",
    MPI.Group.Translate_ranks(smaller.Get_group(), None, comm.Get_group()),
    left,
)
ring(smaller, 8)
total = array("i", [0])
smaller.Allreduce(array("i", [rank + 1]), total, MPI.SUM)
report.check("sum", total[0], sum(r + 1 for r in left))
report.leave()
