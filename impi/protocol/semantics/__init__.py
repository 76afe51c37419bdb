"""MPI's meaning without communication: groups, context ids, datatypes, reductions, matching.

Pure computation on values and memory, without job, socket or vendor, so all clients share it.
"""
