"""Rank 0 prints where the ranks of the job listen, beside loopback: nowhere is [].

Sockets that a rank has before MPI_Init are its launcher's: Hydra's own listener is inherited.
"""

from __future__ import annotations

from pathlib import Path


def listening() -> set[str]:
    """Ends at which this process listens, as /proc/net/tcp has them."""
    own = set()
    for path in Path("/proc/self/fd").iterdir():
        if path.is_symlink():  # the descriptor of the listing itself is gone
            own.add(str(path.readlink()))
    lines = (
        line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    )
    return {
        words[1]
        for words in lines
        if words[3] == "0A" and f"socket:[{words[9]}]" in own
    }


before = listening()

from mpi4py import MPI  # noqa: E402

found = [end for end in listening() - before if not end.startswith("0100007F")]
every = MPI.COMM_WORLD.gather(found)
if every is not None:
    print([end for ends in every for end in ends])
