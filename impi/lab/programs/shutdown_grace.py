"""At SIGTERM ranks save their state for longer than impirun waits unasked (IMPI 2.3.7)."""

import os
import signal
import threading
import time

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from leaving import leave_together  # type: ignore[import-not-found]
from look_for_impirun import impirun  # type: ignore[import-not-found]

told = threading.Event()
signal.signal(signal.SIGTERM, lambda _number, _frame: told.set())
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
comm.Barrier()
if rank == report.clients[-1][0]:  # on the node of impirun
    os.kill(impirun(report.client), signal.SIGTERM)
told.wait()
if rank in report.clients[-1]:
    time.sleep(report.plan["params"]["work"])
report.leave()
leave_together(report.clients[report.client], 0)
