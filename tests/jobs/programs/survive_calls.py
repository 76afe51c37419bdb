"""The highest rank dies before or in a call of argv[1]; others print the class of their error."""

import os
import signal
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
victim = comm.size - 1
LONG = 1 << 22
call = sys.argv[1]
short, long = bytearray(8), bytearray(LONG)


def ended(function: object) -> str:
    try:
        function()
    except MPI.Exception as failure:
        return MPI.Get_error_string(failure.Get_error_class()).split(":")[0]
    return "none"


def pending() -> list[str]:
    """A receive from any source is pending until the loss is acknowledged, and goes on then."""
    request = comm.Irecv(short, MPI.ANY_SOURCE, 3)
    found = [ended(request.Wait), ended(request.Wait)]
    found.append(f"acknowledged {comm.Ack_failed()}")
    comm.Send(b"8 octets", comm.rank, 3)
    request.Wait()
    return [*found, short.decode()]


def after() -> list[str]:
    """Messages from before the loss can be received, and no later ones."""
    found = [ended(lambda: comm.Barrier())]
    comm.Recv(short, victim, 5)
    return [*found, short.decode(), ended(lambda: comm.Recv(short, victim, 5))]


CALLS = {
    "recv": lambda: [ended(lambda: comm.Recv(short, victim))],
    "object": lambda: [ended(lambda: comm.recv(source=victim))],
    "any": lambda: [ended(lambda: comm.Recv(short, MPI.ANY_SOURCE))],
    "any_object": lambda: [
        ended(lambda: comm.recv(source=MPI.ANY_SOURCE)),
        f"acknowledged {comm.Ack_failed()}",
    ],
    "long_send": lambda: [ended(lambda: comm.Send(long, victim))],
    "ssend": lambda: [ended(lambda: comm.Ssend(short, victim))],
    "long_recv": lambda: [ended(lambda: comm.Recv(long, victim, 4))],
    "sendrecv": lambda: [
        ended(lambda: comm.Sendrecv(short, victim, 0, bytearray(8), victim))
    ],
    "waitany": lambda: [
        ended(
            lambda: MPI.Request.Waitany(
                [comm.Irecv(short, victim), comm.Irecv(long, victim)]
            )
        )
    ],
    "waitall": lambda: [
        ended(
            lambda: MPI.Request.Waitall(
                [comm.Irecv(short, victim), comm.Irecv(long, victim)]
            )
        )
    ],
    "probe": lambda: [ended(lambda: comm.Probe(victim))],
    "probe_any": lambda: [ended(lambda: comm.Probe())],
    "barrier": lambda: [ended(comm.Barrier)],
    "bcast": lambda: [ended(lambda: comm.Bcast(long, victim))],
    "ibarrier": lambda: [ended(lambda: comm.Ibarrier().Wait())],
    "dup": lambda: [ended(comm.Dup)],
    "split": lambda: [ended(lambda: comm.Split(0))],
    "persistent": lambda: [
        ended(lambda: comm.Recv_init(short, victim).Start() or comm.Barrier())
    ],
    "pending": pending,
    "after": after,
}
ended(comm.Barrier)  # who is last in it may find the victim dead already
if comm.rank == victim:
    if call == "after":
        for other in range(victim):
            comm.Send(b"octets 8", other, 5)
    if call == "long_recv":
        for other in range(victim):
            comm.Isend(long, other, 4)  # announced at most: none is sent whole
    os.kill(os.getpid(), signal.SIGKILL)
print(" ".join(["rank", str(comm.rank), *CALLS[call]()]) + "\n", end="", flush=True)
