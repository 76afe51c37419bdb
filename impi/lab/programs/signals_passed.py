"""A signal of a user to an impirun reaches each of its ranks, and no other, and the job goes on."""

import os
import signal
import threading

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from look_for_impirun import impirun  # type: ignore[import-not-found]

mine = report.client == report.client_of(size - 1)
came = threading.Event()
signal.signal(signal.SIGUSR2, lambda _number, _frame: came.set())
comm.Barrier()
if rank == report.clients[-1][0]:  # on the node of impirun
    os.kill(impirun(report.client), signal.SIGUSR2)
# The last client's ranks wait for theirs, and all others for these.
report.check(
    "the signal", came.wait(report.plan["params"]["limit"] if mine else 0), mine
)
comm.Barrier()
report.check("the signal of others", came.is_set(), mine)
report.done()
