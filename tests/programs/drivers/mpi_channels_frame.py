"""mpi-channels: a frame buffer, which needs a window."""

import numpy as np
from mpi4py import MPI
from mpi_channels import FrameBuffer

buffer = FrameBuffer(n_buf=8, n_mes=2, dtype=np.float64, host=0)
buffer.put(np.full(2, float(MPI.COMM_WORLD.rank)))
buffer.fence()
print(MPI.COMM_WORLD.rank)
