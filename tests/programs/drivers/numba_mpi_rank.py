"""numba-mpi: calls of MPI in compiled code, which need handles of C."""

import numba
import numba_mpi


@numba.njit
def rank():
    return numba_mpi.rank(), numba_mpi.size()


print(*rank())
