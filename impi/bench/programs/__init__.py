"""What is timed: plain mpi4py programs, the same over IMPI and under a vendor's own mpiexec; also runnable by hand."""

__all__ = ["MARK"]

MARK = "IMPI-BENCH "
"""What the line of JSON begins with that a program prints: a vendor may print lines of its own."""
