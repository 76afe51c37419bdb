"""A rank leaves with status 3, and others go on sending to it: no broken pipe ends them first."""

import os
import signal
import socket
from pathlib import Path

from begun import comm, rank, report, size  # type: ignore[import-not-found]

_CLOSE_WAIT = 8


def is_broken() -> bool:
    """Whether the other end of a connection of this process has closed it."""
    for link in Path("/proc/self/fd").iterdir():
        try:
            with socket.socket(fileno=os.dup(int(link.name))) as mine:
                if mine.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO) == _CLOSE_WAIT:
                    return True
        except OSError:
            continue  # a file, or closed by now

    return False


report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
# No rank has left when the last report is written.
comm.Barrier()
if rank == size - 1:
    os._exit(3)

# Whoever is told to end must have time to send.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while rank not in report.clients[-1] and not is_broken():
    pass

while rank not in report.clients[-1]:
    comm.Send(b"x", size - 1, 70)

comm.Recv(bytearray(8), 0, 70)  # a message that never comes
