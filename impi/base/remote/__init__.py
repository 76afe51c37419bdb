"""Processes on nodes: started, watched and ended, such that none survives its owner.

On the node, ``starter`` starts processes and reports on them, ``processes`` finds and ends them,
and ``forkserver`` runs many commands, each under a starter of its own. On our side, ``commands``
sends these programs to the node and talks to them over a pipe or over ``ssh``, and ``supervised``
is one command. The lab uses all of it; impirun uses the starter, with a loop of its own
(:mod:`impi.launch.client.children`).

The starter runs on every node, so this package must stay cheap to import and import nothing by
itself. Only the modules on our side import from impi, namely the errors.
"""
