"""``impi tune``: measure the network between hosts, predict each algorithm's cost, and decide.

``jobs`` starts the measuring job, and ``measure`` is the program of its procs. ``plogp`` has the
parameters that result. ``models`` has the closed formulas, and ``choice`` makes a table of
decisions from them. ``table`` shows predictions beside measurements.
"""
