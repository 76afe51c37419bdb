"""The timed programs: plain MPI, for IMPI and for a vendor's own mpiexec; usable by hand."""

__all__ = ["MARK", "ROOT_VARIABLE"]

MARK = "IMPI-BENCH "
"""The prefix of a program's line of JSON, since an MPI library may print lines of its own."""
ROOT_VARIABLE = "IMPI_BENCH_ROOT"
"""Variable with the id of the process whose descendants are the processes of the job."""
