"""The process sets of a job (MPI 4.1, 11.3.2): those that MPI demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.api import runtime

NAMES: Final = ("mpi://WORLD", "mpi://SELF")


def process_set(name: str) -> Sequence[int]:
    """Return the world ranks of a process set, empty if it is unknown; case does not matter."""
    engine = runtime.engine()
    known = dict(zip(map(str.lower, NAMES), (range(engine.home), (engine.rank,)), strict=True))
    return known.get(name.lower(), ())
