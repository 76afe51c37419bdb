"""Ask for MPI_THREAD_MULTIPLE: the level is the one that holds, also once there are endpoints."""

from __future__ import annotations

import sys
import threading
from typing import Any

import mpi4py

mpi4py.rc.initialize = False

from mpi4py import MPI  # noqa: E402  (the choice comes first)

levels = [MPI.Init_thread(MPI.THREAD_MULTIPLE), MPI.Query_thread()]
world: Any = MPI.COMM_WORLD
if sys.argv[1:] != ["alone"]:
    eps = world.Create_endpoints(2)
    levels.append(MPI.Query_thread())
    sums: list[int] = []
    threads = [
        threading.Thread(target=lambda ep=ep: sums.append(ep.allreduce(ep.rank)))
        for ep in eps
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [eps[0].size * (eps[0].size - 1) // 2] * 2
assert MPI.Is_thread_main()
world.Barrier()
names = {MPI.THREAD_SERIALIZED: "serialized", MPI.THREAD_MULTIPLE: "multiple"}
(level,) = set(levels)
sys.stdout.write(f"level {names.get(level, level)}\n")
MPI.Finalize()
