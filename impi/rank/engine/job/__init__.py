"""The job of a proc: how it is joined, how procs of other jobs are met, how a lost one is survived.

Begin with :mod:`.bootstrap`, which the first use of MPI calls.
"""
