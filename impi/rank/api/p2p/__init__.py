"""How does a proc send to another, and how does the program learn of completion?

Point-to-point calls of every mode, requests of every kind, statuses, messages matched by a probe.

May import ``types`` and ``handles``; must not import ``collective``, ``comms`` or ``windows``.
"""
