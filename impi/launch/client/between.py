"""The link between impirun and a starter that runs already, elsewhere: a process at each end.

The owner of a starter has pipes to and from a process of its own. Where an outer process manager
has started the starter (:mod:`impi.launch.client.outer`), that process copies between these and a
connection with TLS, since a starter is told the token of impirun. At its other end another process
copies to and from the pipes of the starter.
"""

from __future__ import annotations

import os
import selectors
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from impi.base.remote import processes
from impi.launch.start.program import TaskLink

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

_CHUNK: Final = 1 << 16
_CONNECTION: Final = 3  # the descriptor of the connection in the process between


def start(task: TaskLink, stdin: int, stdout: int) -> int:
    """Start the process, and close ``task`` here; return its process id."""

    work = partial(_copy, task.stream)
    pid = processes.fork((stdin, stdout, 2, task.sock.fileno()), work, b"impi-between")
    # The fork has the connection. A copy in this process would keep it open after the fork's end.
    task.close()

    return pid


def begin(sock: socket.socket, token: bytes) -> TaskLink:
    """Begin the TLS session of a task, which both ends prove by the token.

    Raises:
        OSError: the connection has ended, or the time is over.
        PeerError: the other end holds another session: somebody is between.
    """

    from impi.rank.vendors.secure_socket import open_stream  # loads ssl

    return TaskLink(sock, open_stream(sock, token))


def keep(link: TaskLink, stdin: int, stdout: int) -> None:
    """Copy to ``stdin`` of a starter, and from its ``stdout``, until that ends."""
    with link.sock, suppress(OSError):
        _pass_on(link, stdout, stdin, lasts=True)


def _copy(stream: Stream) -> None:
    with socket.socket(fileno=_CONNECTION) as sock, suppress(OSError):
        _pass_on(TaskLink(sock, stream), 0, 1, lasts=False)


def _pass_on(link: TaskLink, source: int, target: int, *, lasts: bool) -> None:
    """Copy both ways until the connection ends; if it ``lasts``, until the source has, too."""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)

        selector.register(link.sock, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, _CHUNK)
                if key.fd == source and not data:
                    # The starter ends its processes at the end of its input.
                    selector.unregister(source)

                    link.sock.shutdown(socket.SHUT_WR)
                    if lasts:
                        return
                elif key.fd == source:
                    link.sock.sendall(link.stream.send(data))
                elif data:
                    heard, answer = link.stream.receive(data)
                    if answer:
                        link.sock.sendall(answer)

                    processes.write(target, heard)
                elif lasts:
                    selector.unregister(link.sock)
                    os.close(target)
                else:
                    return
