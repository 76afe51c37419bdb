"""Writes one file by parallel HDF5, each rank its rows, and reads it back, by Debian's h5py."""

import sys

import h5py._debian_h5py_mpi as h5py
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ROWS = 100

assert h5py.get_config().mpi
with h5py.File(sys.argv[1], "w", driver="mpio", comm=world) as file:
    table = file.create_dataset("table", (world.size * ROWS, 7), dtype="f8")
    file["table"].attrs["procs"] = world.size
    table[world.rank * ROWS : (world.rank + 1) * ROWS] = world.rank + np.arange(7) / 8
    spread = file.create_dataset("spread", (ROWS, world.size), dtype="i4")
    with spread.collective:
        spread[:, world.rank] = np.arange(ROWS) * world.rank

with h5py.File(sys.argv[1], "r", driver="mpio", comm=world) as file:
    ranks = np.repeat(np.arange(world.size), ROWS)[:, None]
    right = np.array_equal(file["table"][:], ranks + np.arange(7) / 8)
    right = right and np.array_equal(
        file["spread"][:], np.outer(np.arange(ROWS), np.arange(world.size))
    )
    right = right and file["table"].attrs["procs"] == world.size

implementation = MPI.Get_library_version().split()[0]
print(
    f"rank {world.rank} of {world.size}: {world.size} {implementation} {'right' if right else 'wrong'}",
    flush=True,
)
