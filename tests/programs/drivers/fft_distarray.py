"""mpi4py-fft: transforms of real and complex arrays, forward, back and redistributed."""

import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

world = MPI.COMM_WORLD
for dtype, axes in (("d", (0, 1, 2)), ("D", (2, 1, 0))):
    fft = PFFT(world, [16, 12, 14], axes=axes, dtype=dtype)
    u = newDistArray(fft, False)
    first = u.local_slice()
    whole = np.arange(16 * 12 * 14, dtype=float).reshape(16, 12, 14) % 17
    u[:] = whole[first]
    hat = fft.forward(u, newDistArray(fft, True))
    back = fft.backward(hat, newDistArray(fft, False))
    error = world.allreduce(float(np.abs(back - u).max()), MPI.MAX)
    energy = world.allreduce(float(np.sum(np.abs(hat) ** 2)))
    other = u.redistribute(axis=0)
    same = bool(np.array_equal(other, whole[other.local_slice()]))
    if world.rank == 0:
        print(dtype, error < 1e-12, round(energy, 6))
    print(dtype, world.rank, same, other.shape)
