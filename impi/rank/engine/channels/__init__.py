"""Octets of a proc: sockets of its channels, payloads, and who may touch them when.

:mod:`.mesh` and :mod:`.lazy_dance` make the connections, :mod:`.channels` reads and writes them.
:mod:`.threads` lets one thread at a time in, :mod:`.waiting` says how long a wait spins.
"""
