"""Runs a program whose C code prints: MPICH makes that unbuffered, and ranks mix their words."""

import ctypes
import runpy
import sys
from pathlib import Path

from mpi4py import MPI

_IOFBF = 0
libc = ctypes.CDLL(None)
# A buffer that outlives Python: without one, none is made
libc.malloc.restype = ctypes.c_void_p
kept = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(1 << 16)))
libc.setvbuf(
    ctypes.c_void_p.in_dll(libc, "stdout"), kept, _IOFBF, ctypes.c_size_t(1 << 16)
)
MPI.COMM_WORLD.Barrier()
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
