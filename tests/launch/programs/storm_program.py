"""Ranks that go on step by step, as files appear: before MPI_Init, and before an accept."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

FOLDER, CLIENT = Path(sys.argv[1]), sys.argv[2]
LIMIT_S = 120.0


def await_file(name: str) -> None:
    until = time.monotonic() + LIMIT_S
    while not (FOLDER / name).exists():
        if time.monotonic() > until:
            sys.exit(f"nobody has made {name}")
        time.sleep(0.01)


await_file(f"begin {CLIENT}")

from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
total = sum(comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size) for _ in range(200))
meets = sys.argv[3] == "1"
if comm.rank == 0 and meets:
    port = MPI.Open_port()
    MPI.Publish_name("storm", port)
comm.barrier()
await_file("meet")
if comm.rank == 0 and meets:
    met = MPI.COMM_SELF.Accept(port)
elif comm.rank == comm.size - 1 and meets:
    met = MPI.COMM_SELF.Connect(MPI.Lookup_name("storm"))
if comm.rank in (0, comm.size - 1) and meets:
    total += met.sendrecv(1000 * comm.rank, 0)
    met.Disconnect()
comm.barrier()
size_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sys.stdout.write(f"rank {comm.rank} has {total} size {size_kb}\n")
sys.stdout.flush()
