"""MPICH's process management interface (PMI): its lines, a manager of procs, and a client.

An MPI library asks its process manager for ranks, for the size of the job, and for values that
other procs have put (*Process Management in MPICH*, draft 2.1). Only :mod:`.door` has sockets.
docs/how-it-works/process-management.md says who reads and writes.
"""
