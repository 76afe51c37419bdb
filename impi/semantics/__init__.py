"""What MPI means, without any communication: groups, context ids, datatypes and external32, reductions, matching.

Pure computation on values and memory; it knows no job, socket or vendor, so every client has the same.
"""
