"""Chapter 2 as state machines: how independent clients become one job, without sockets or clocks.

``server`` and ``client`` hold the machines of the two ends. ``auth`` decides who may join; ``collect`` gathers and
sends back labels; ``facts`` and ``agree`` turn what clients contribute into a :class:`~impi.job.Job`; ``dance`` says
who connects to whom. Import from these modules: a proc needs the dance alone, and imports are most of its start.
"""
