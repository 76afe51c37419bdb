"""The programs that the lab runs on its nodes.

``rankwrap`` starts a rank and records how it ended; ``witness`` looks at a node's ranks from outside; ``report`` is
what a rank itself has to say; the others are the cases, plain mpi4py programs. All are copied to the nodes and run
there as scripts: nothing here imports impi.
"""

from __future__ import annotations

__all__: list[str] = []
