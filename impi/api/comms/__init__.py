"""Which procs talk to each other?

Communicators of every kind, how new ones are agreed on, their groups, attributes and sessions,
COMM_WORLD and COMM_SELF, and the verification of collective calls.

May import ``collective``, ``p2p``, ``types`` and ``handles``; must not import ``windows``.
"""
