"""Which octets of the program's memory does a call mean, and as what?

Datatypes and operations, buffer specifications, memory of other packages, pickles, and the form
that octets have on the wire.

May import ``handles``; must not import ``p2p``, ``collective``, ``comms`` or ``windows``.
"""
