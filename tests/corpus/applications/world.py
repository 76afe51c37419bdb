"""Debian's mpi4py itself: handles of C, and calls that its version has."""

import mpi4py
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
right = MPI.__file__.startswith(mpi4py.__path__[0]) and MPI._addressof(world) > 0
right = right and world.allreduce(rank) == size * (size - 1) // 2
right = right and world.allgather({rank: "x" * rank}) == [
    {other: "x" * other} for other in range(size)
]
token = bytearray(8)
world.Sendrecv(
    bytes([rank]) * 8, (rank + 1) % size, recvbuf=token, source=(rank - 1) % size
)
right = right and token == bytes([(rank - 1) % size]) * 8
print(f"rank {rank} of {size}: {'right' if right else 'wrong'}", flush=True)
