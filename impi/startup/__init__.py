"""Start-up (chapter 2) as state machines without sockets or clocks: many clients become one job.

``server`` and ``client`` are the machines of the two ends. ``auth`` chooses the authentication
method; ``collect`` gathers labels and broadcasts them; ``facts`` and ``agree`` turn contributions
into a :class:`~impi.job.Job`; ``dance`` orders the connections between hosts. Import from these
modules: a proc needs ``dance`` alone, and imports are most of its start.
"""
