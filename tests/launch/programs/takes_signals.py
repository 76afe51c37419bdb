"""Count signals until SIGTERM or SIGUSR2; then work on for a while, and tell how many came."""

import os
import signal
import sys
import time
from pathlib import Path

from mpi4py import MPI

came: list[int] = []
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTERM):
    signal.signal(number, lambda number, _: came.append(number))
comm = MPI.COMM_WORLD
comm.Barrier()
os.write(1, f"ready {os.getpid()}\n".encode())
while not {signal.SIGUSR2, signal.SIGTERM} & {*came}:
    time.sleep(0.01)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.01)
Path(sys.argv[2], str(comm.rank)).write_text(
    " ".join(signal.Signals(number).name for number in came)
)
if signal.SIGTERM in came:
    os._exit(7)
