"""Thirty agreed steps of Allreduce; argv[1], RANK@STEP,..., says who kills itself before which.

The others revoke, shrink and go on. Prints rank, size of the last communicator, and its sum.
"""

import array
import os
import signal
import sys

from mpi4py import MPI

STEPS = 30


def agreed(comm: MPI.Comm, fine: bool) -> bool:
    flag = array.array("i", [int(fine)])
    try:
        comm.Iagree(flag).Wait()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_PROC_FAILED, failure
        comm.Ack_failed()
    return bool(flag[0])


def main() -> None:
    plan = dict(item.split("@") for item in sys.argv[1].split(",") if item)
    world = MPI.COMM_WORLD
    comm: MPI.Comm = world.Dup()
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    fatal = int(plan.get(str(world.rank), -1))
    done = 0
    total = 0
    while done < STEPS:
        if done == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        fine = True
        try:
            total = comm.allreduce(world.rank + 1)
        except MPI.Exception as failure:
            assert failure.Get_error_class() in (
                MPI.ERR_PROC_FAILED,
                MPI.ERR_REVOKED,
            ), failure
            fine = False
            comm.Revoke()
        if agreed(comm, fine):
            done += 1
            continue
        smaller = comm.Shrink()
        smaller.Set_errhandler(MPI.ERRORS_RETURN)
        comm.Free()
        comm = smaller
    print(f"left {world.rank} {comm.size} {total}\n", end="", flush=True)


main()
