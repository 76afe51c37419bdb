"""The sans-I/O core in virtual time: costs of start-up and collectives on any network, at any size.

Jobs run in one thread without sockets. The machines of chapter 2, the generators of chapter 4 and
(on request) the transfer machine of chapter 3 are the real ones; a model carries their octets
(:mod:`impi.tools.simulate.model.network`). Time is a whole number of picoseconds, so equal times
are exactly equal, and a run gives the same figures on every machine.
"""
