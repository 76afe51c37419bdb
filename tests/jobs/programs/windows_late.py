"""A target writes its memory once its epoch is over: a Get of that epoch has the old values."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
LENGTH = 100_000
memory = np.ones(LENGTH, "i4")
window = MPI.Win.Create(memory, 4, comm=world)
peer = world.group.Incl([1 - world.rank])
for _ in range(20):
    found = np.zeros(LENGTH, "i4")
    if world.rank == 0:
        window.Start(peer)
        window.Get(found, 1)
        window.Complete()
        assert (found == 1).all(), f"{(found != 1).sum()} values are too late"
    else:
        window.Post(peer)
        window.Wait()
        memory[:] = 2
    world.Barrier()
    memory[:] = 1
    world.Barrier()
window.Free()
print(f"rank {world.rank}: right")
