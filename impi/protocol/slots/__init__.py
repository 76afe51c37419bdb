"""Generalized communicators (Foster, Kesselman, Snir 1996): LCOs, their slots and names, sans I/O.

A local communicator object (LCO) belongs to one proc. Its receive slots take messages; its send
slots each refer to a receive slot of some LCO anywhere in the job. :mod:`.names` has names of
LCOs and of slots, :mod:`.packets` the messages of procs about them, :mod:`.machine` one proc's
part.
"""
