"""More ranks than cores: all calls make progress, and long waits leave the cores alone."""

import sys
import threading
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
mine, theirs = bytearray(8), bytearray(8)
for number in range(200):
    mine[0] = (rank + number) & 255
    world.Sendrecv(
        [mine, MPI.BYTE], (rank + 1) % size, 1, [theirs, MPI.BYTE], (rank - 1) % size, 1
    )
    assert theirs[0] == ((rank - 1) % size + number) & 255
    if number % 10 == 0:
        assert world.allreduce(rank) == size * (size - 1) // 2
for _ in range(20):
    if rank == 0:
        status = MPI.Status()
        for _ in range(size - 1):
            world.Recv([theirs, MPI.BYTE], MPI.ANY_SOURCE, 2, status)
            assert theirs[0] == status.source
    else:
        mine[0] = rank
        world.Ssend([mine, MPI.BYTE], 0, 2)
world.Barrier()
if rank == 0:
    threading.Event().wait(float(sys.argv[1]))
    for other in range(1, size):
        world.Send([mine, MPI.BYTE], other, 3)
    share = 0.0
else:
    source = MPI.ANY_SOURCE if rank % 2 else 0
    cpu, wall = time.process_time(), time.perf_counter()
    world.Recv([theirs, MPI.BYTE], source, 3)
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
shares = world.gather(share)
if shares is not None:
    print(max(shares), flush=True)
