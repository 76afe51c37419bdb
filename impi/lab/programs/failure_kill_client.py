"""An impirun is killed in mid-job: its ranks and all other clients end soon, and leave nothing."""

import os
import signal
from array import array

from begun import comm, ends_the_others, rank, report, size  # type: ignore[import-not-found]
from look_for_impirun import impirun  # type: ignore[import-not-found]

if ends_the_others():
    comm.Send(b"", report.clients[-1][0], 72)
if rank == report.clients[-1][0]:  # on the node of impirun
    comm.Recv(bytearray(), size - 1, 72)
    os.kill(impirun(report.client), signal.SIGKILL)
comm.Recv(array("B", bytes(8)), (rank + 1) % size, 70)  # a message that never comes
