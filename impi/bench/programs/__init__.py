"""The timed programs: plain mpi4py, for IMPI and for a vendor's own mpiexec; usable by hand."""

__all__ = ["MARK"]

MARK = "IMPI-BENCH "
"""The prefix of a program's line of JSON: a vendor may print lines of its own."""
