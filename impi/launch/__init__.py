"""Programs of a job: the server, and the client that starts and watches its procs.

This package must stay cheap to import and import nothing by itself: :mod:`impi.launch.node` runs on every node.
"""
