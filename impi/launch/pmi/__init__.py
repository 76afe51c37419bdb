"""The process management interface of MPICH (PMI): its wire, a manager of procs, and a client.

An MPI library asks its process manager for ranks, for the size of the job, and for what the other
procs have put (*Process Management in MPICH*, draft 2.1). Nothing here has a socket: docs page
docs/how-it-works/process-management.md says who reads and writes.
"""
