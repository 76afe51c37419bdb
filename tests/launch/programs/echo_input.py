"""Every rank reads its standard input to the end; rank 0 prints how many octets each had."""

import hashlib
import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
first = sys.stdin.readline()
text = first + sys.stdin.read()
digest = hashlib.sha256(text.encode()).hexdigest()[:8] if text else "-"
found = (
    world.gather((len(text), digest, "IMPI_INPUT" in os.environ, sys.stdin.name)) or []
)
if world.rank == 0:
    print(*found, sep="\n")
