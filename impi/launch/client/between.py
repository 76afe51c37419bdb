"""What stands here for a starter that runs already, on another node: a process between two ends.

The owner of a starter has pipes to and from a process of its own. Where an outer process manager
has started the starter (:mod:`impi.launch.client.outer`), that process copies between both.
"""

from __future__ import annotations

import os
import selectors
import socket
from contextlib import suppress
from typing import Final

from impi.base.remote import processes

_CHUNK: Final = 1 << 16
_TASK: Final = 3  # the descriptor of the connection in the process between


def start(task: socket.socket, stdin: int, stdout: int) -> int:
    """Start the process, and close ``task`` here; return its process id."""
    pid = processes.fork((stdin, stdout, 2, task.fileno()), _copy, b"impi-between")
    task.close()
    return pid


def _copy() -> None:
    with socket.socket(fileno=_TASK) as task, selectors.DefaultSelector() as selector, suppress(OSError):
        selector.register(0, selectors.EVENT_READ)
        selector.register(task, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                if key.fd == 0 and not data:
                    # The starter ends its processes at the end of its input.
                    selector.unregister(0)
                    task.shutdown(socket.SHUT_WR)
                elif key.fd == 0:
                    task.sendall(data)
                elif not data:
                    return
                else:
                    processes.write(1, data)
