"""Ranks 0 and 5 talk; the rest sends nothing. Rank 0 prints who has more connections than before.

``channels_in_use.py N FOLDER``: N or more exist right after the start; each has at most
three that are not channels. FOLDER tells the others who has counted.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from mpi4py import MPI


def channels() -> int:
    """Return the number of this process's established connections."""
    pairs = set()
    own = {
        str(path.readlink())
        for path in Path("/proc/self/fd").iterdir()
        if path.is_symlink()
    }
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "01" and f"socket:[{fields[9]}]" in own:
                pairs.add((fields[1], fields[2]))
    return len(pairs)


def meet(name: str) -> None:
    """Wait for all procs, without a message: one would connect procs."""
    (Path(sys.argv[2]) / f"{name}.{world.rank}").touch()
    while not all((Path(sys.argv[2]) / f"{name}.{rank}").exists() for rank in range(6)):
        time.sleep(0.01)


world = MPI.COMM_WORLD
before = channels()
meet("counted")  # else the first message could connect rank 5 before it has counted
if world.rank == 0:
    world.send("first", 5)
    assert world.recv(source=5) == "answer"
elif world.rank == 5:
    assert world.recv(source=0) == "first"
    world.send("answer", 0)
more = channels() - before
meet("talked")  # what follows connects others
assert 0 <= before - int(sys.argv[1]) <= 3, f"{before} right after the start"
every = world.gather(more)
if every is not None:
    print(
        ", ".join(
            f"{n} procs have {count} more"
            for count, n in sorted(Counter(every).items())
        )
    )
