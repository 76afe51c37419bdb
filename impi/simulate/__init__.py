"""The sans-I/O core in virtual time: what start-up and collectives cost on networks and in sizes that are not at hand.

Jobs run in one thread without sockets: the machines of chapter 2, the generators of chapter 4 and (where asked for)
the transfer machine of chapter 3 are the real ones; what carries their octets is a model
(:mod:`impi.simulate.network`).
Time is a whole number of picoseconds, so that a run is the same on every machine and equal times are equal.
"""
