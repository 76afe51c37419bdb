"""``impi tune``: measure the network between hosts, predict each algorithm's cost, and decide.

``measure`` is the program of every proc; ``plogp`` holds its results; ``models`` has the closed
formulas; ``choice`` makes a table by them; ``jobs`` starts the measuring job; ``table`` shows
predictions beside measurements.
"""
