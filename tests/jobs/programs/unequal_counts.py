"""Ranks that give different counts to a reduction: each rank gets a failure that names the call.

Prints a JSON object: for each case what each rank got, by its words.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size
CALLS = (
    *("Allreduce", "Reduce", "Scan", "Reduce_scatter_block", "Reduce_scatter"),
    *("Iallreduce", "Ireduce"),
)
"""Exscan is none of them: its last rank's operand goes nowhere."""


def called(comm: MPI.Intracomm, name: str, count: int) -> None:
    """Call a reduction with ``count`` elements of each rank, or for each."""
    ones: Callable[[int], np.ndarray] = np.ones
    rooted = ones(count * size if "scatter" in name else count)
    more = ([count] * size,) if name == "Reduce_scatter" else ()
    request = getattr(comm, name)(rooted, ones(count), *more)
    if request is not None:
        request.Wait()


def outcome(name: str, count: int, longer: int) -> str:
    comm = world.Dup()
    try:
        called(comm, name, count + (me == longer))
    except MPI.Exception as failure:
        kind = "truncate" if failure.error_class == MPI.ERR_TRUNCATE else "other"
        return f"{kind}: {failure}"
    return "ok"


found = {
    f"{name} {count} {longer}": world.gather(outcome(name, count, longer))
    for name in CALLS
    for count in (4, 40_000)
    for longer in (0, size - 1)
}
if me == 0:
    print(json.dumps(found))
