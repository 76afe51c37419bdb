"""Which algorithm runs for a collective call, and on which octets?

The collective methods of communicators, on buffers and on pickled objects, and the choice of their
algorithms.

May import ``p2p``, ``types`` and ``handles``; must not import ``comms`` or ``windows``: a mixin
declares the attributes of the communicator that it needs.
"""
