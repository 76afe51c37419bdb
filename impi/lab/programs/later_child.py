"""A process that ``later_spawn.py`` has started: it answers each of its parents."""

from __future__ import annotations

import sys

from mpi4py import MPI
from payload import octets  # type: ignore[import-not-found]

nonce = sys.argv[1]
parents = MPI.Comm.Get_parent()
rank = MPI.COMM_WORLD.rank
for parent in range(parents.Get_remote_size()):
    into = bytearray(64)
    parents.Recv(into, parent, 7)
    parents.Send(bytes(into) + octets(nonce, f"child/{rank}/{parent}", 64), parent, 8)
parents.allgather(MPI.Get_library_version())
parents.Disconnect()
