"""``impi tune``: measure the network between hosts, predict what each algorithm costs, and decide.

``measure`` is the program that every proc runs; ``plogp`` holds what it finds, ``models`` are the closed formulas,
``choice`` makes a table of them, ``jobs`` starts the measuring job, ``table`` shows predicted against measured.
"""
