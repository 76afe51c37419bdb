"""Processes on nodes, started, watched and ended so that nothing of them survives.

On the node: ``starter`` starts processes and tells how they fare, ``processes`` finds and ends
them, ``forkserver`` has a starter for each of many commands and does errands. On our side:
``commands`` sends these programs there, and asks over a pipe or over ``ssh``; ``supervised`` is one
command. The lab uses all of it, impirun the starter with its own loop
(:mod:`impi.launch.client.children`).

This package must stay cheap to import and import nothing by itself: the starter runs on every node.
Only our side imports anything of impi, the errors.
"""
