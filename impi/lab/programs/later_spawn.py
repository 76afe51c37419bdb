"""Spawn: two processes of the root's library come later, and each talks to all parents."""

import sys
import time
from pathlib import Path

from begun import report  # type: ignore[import-not-found]
from mpi4py import MPI

world = MPI.COMM_WORLD
rank = report.rank
number = report.plan["params"]["children"]
nonce = report.plan["nonce"]
child = str(Path(__file__).with_name("later_child.py"))


def is_there() -> bool:
    """Whether a process of the spawned job still runs on this node."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().split(b"\0")
        except OSError:
            continue  # this process has ended

        if child.encode() in argv and nonce.encode() in argv:
            return True

    return False


children = world.Spawn(sys.executable, [child, nonce], maxprocs=number)
report.check("children", children.Get_remote_size(), number)
requests = [
    children.Isend(report.octets(f"parent/{rank}/{c}", 64), c, 7) for c in range(number)
]
for c in range(number):
    into = bytearray(128)
    children.Recv(into, c, 8)
    expected = report.octets(f"parent/{rank}/{c}", 64) + report.octets(
        f"child/{c}/{rank}", 64
    )
    report.check(f"child {c}", bytes(into), expected)
MPI.Request.Waitall(requests)
libraries = children.allgather(MPI.Get_library_version())
mine = world.bcast(MPI.Get_library_version(), root=0)
report.check("libraries of the children", libraries, [mine] * number)
children.Disconnect()

deadline = time.monotonic() + 5
while rank == 0 and is_there() and time.monotonic() < deadline:
    time.sleep(0.02)  # remains of the spawned job would count as the cell's
report.done()
