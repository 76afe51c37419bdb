"""The timed programs: plain MPI, for IMPI and for a vendor's own mpiexec; usable by hand."""

__all__ = ["MARK", "ROOT_VARIABLE"]

MARK = "IMPI-BENCH "
"""The prefix of a program's line of JSON: a vendor may print lines of its own."""
ROOT_VARIABLE = "IMPI_BENCH_ROOT"
"""The process whose descendants are the processes of the job."""
