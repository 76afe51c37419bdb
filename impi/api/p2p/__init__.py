"""How does one proc send to another, and how does the program learn that a message is through?

Point-to-point calls of every mode, requests of every kind, statuses, messages matched by a probe.

May import ``types`` and ``handles``; must not import ``collective``, ``comms`` or ``windows``.
"""
