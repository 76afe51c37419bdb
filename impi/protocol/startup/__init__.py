"""Start-up (chapter 2) as state machines without sockets or clocks: many clients become one job.

``server`` and ``client`` are the machines of the two ends. ``auth`` chooses the authentication
method; ``challenge`` carries commands, sealed and encrypted where it is chosen; ``collect`` gathers
labels and broadcasts them; ``client_labels``, ``facts`` and ``agree`` turn contributions into a
:class:`~impi.protocol.job.Job`; ``dance`` orders the connections between hosts. Import from these
modules: a proc needs ``dance`` alone, and imports are most of its start.
"""
