"""A sum of squares that survives the loss of processes: start all clients with --resilient.

Each step adds a thousand squares, shared among all processes. If a process is lost, the others
repeat that step, so the answer stays the same. Try it by `survive.py RANK STEP`: that rank kills
itself before that step.
"""

import os
import signal
import sys

from mpi4py import MPI

STEPS = 10
MANY = 1000


def agreed(comm: MPI.Comm, fine: bool) -> bool:
    """Return whether the step succeeded at all processes; a loss makes it fail."""
    try:
        return bool(comm.Agree(int(fine)))
    except MPI.Exception as failure:
        if failure.Get_error_class() != MPI.ERR_PROC_FAILED:
            raise
        return False


def main() -> None:
    victim, fatal = (
        (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (-1, -1)
    )
    me = MPI.COMM_WORLD.rank
    comm: MPI.Comm = MPI.COMM_WORLD.Dup()
    step = total = part = 0
    while step < STEPS:
        if (me, step) == (victim, fatal):
            os.kill(os.getpid(), signal.SIGKILL)
        fine = True
        try:
            numbers = range(step * MANY + comm.rank, (step + 1) * MANY, comm.size)
            part = comm.allreduce(sum(number * number for number in numbers))
        except MPI.Exception as failure:
            if failure.Get_error_class() not in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
                raise
            fine = False
            comm.Revoke()  # wakes others that still wait for this process in the step
        if agreed(comm, fine):
            step += 1
            total += part
        else:
            smaller = comm.Shrink()
            comm.Free()
            comm = smaller
    if comm.rank == 0:
        print(f"the squares of {STEPS * MANY} numbers add up to {total}", flush=True)


main()
