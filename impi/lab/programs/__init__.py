"""The programs that the lab runs on its nodes.

``rankwrap`` starts a rank and records its end; ``witness`` looks at a node's ranks from outside;
``report`` is a rank's own account; the others are the cases, plain mpi4py programs. All are copied
to the nodes and run there as scripts: nothing here imports impi.
"""

from __future__ import annotations

__all__: list[str] = []
