"""Which octets of a file does a proc access?

Files of all clients (MPI 4.1, chapter 14) by POSIX calls of each proc; messages only agree.

May import every other folder of ``impi.rank.api`` but ``windows``; no folder imports this one.
"""
