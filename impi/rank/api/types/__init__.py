"""Which octets of memory does a call mean, and as which datatype?

Datatypes and operations, buffer specifications, memory of other packages, pickles, and the wire
form of octets.

May import ``handles``; must not import ``p2p``, ``collective``, ``comms`` or ``windows``.
"""
