"""Memory that procs expose to each other: one-sided communication.

Windows of one process, in shared memory, and by messages; their epochs and accesses.

May import every other folder of ``impi.rank.api``; no folder imports this one.
"""
