"""The outcome of Compute_dims for numbers of nodes and given dimensions: ``call: outcome``.

Runs under mpi4py and under impi with any number of procs; rank 0 prints.
"""

from typing import Any

from mpi4py import MPI

MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
ERRORS = {getattr(MPI, name): name for name in dir(MPI) if name.startswith("ERR_")}
TIED = (5040, 6240, 8208, 10800, 19152, 34776, 55440, 68904, 71400, 100320)
"""Several grids of these have the least difference."""
LARGE = (2**30, 46337 * 46337, 1396755360, 2129006880, 3**19, 2 * 1073741789)


def outcome(nnodes, dims):
    """Return the dimensions, or the class of the exception."""
    try:
        return MPI.Compute_dims(nnodes, dims)
    except MPI.Exception as failure:
        return ERRORS[failure.Get_error_class()]


calls: list[tuple[int, Any]] = [
    (nnodes, ndims)
    for nnodes in (*range(1, 700), *TIED, *LARGE)
    for ndims in range(1, 6)
]
calls += [
    (nnodes, [given, 0, 0]) for nnodes in range(1, 61) for given in (-1, 1, 2, 4, 6)
]
calls += [
    (nnodes, [0, given, 0, 3]) for nnodes in range(12, 61, 12) for given in (0, 1, 2, 4)
]
calls += [(nnodes, [2, 3]) for nnodes in range(1, 8)]
if MPI.COMM_WORLD.rank == 0:
    print(
        "\n".join(
            f"Compute_dims({nnodes}; {dims}): {outcome(nnodes, dims)}"
            for nnodes, dims in calls
        )
    )
