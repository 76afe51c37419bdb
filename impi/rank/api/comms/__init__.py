"""Which procs communicate with each other?

Communicators of every kind, their creation, groups, attributes and sessions, COMM_WORLD and
COMM_SELF, and the verification of collective calls.

May import ``collective``, ``p2p``, ``types`` and ``handles``; must not import ``windows``.
"""
