"""Which memory may a proc access without a message?

Windows of one process (IMPI 0.0 has no one-sided communication), their epochs and accesses.

May import every other folder of ``impi.api``; no folder imports this one.
"""
