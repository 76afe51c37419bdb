"""The connection by which impirun sees a proc of an MPI library begin and end.

mpiexec tells of a lost proc with an exit code at best. So each proc keeps a connection to impirun
(:mod:`impi.launch.client.control`) from before MPI_Init to its end, and says a last word on it:
that it has finalised, or that it aborts. A proc without a last word was lost, and the first one is
the reason of all that follows.

In a resilient job procs without an MPI library have that connection, too, and impirun reports
losses to all procs on it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from impi.base.errors import JobError, LaunchError
from impi.rank.vendors.meeting import encrypted_control, open_control

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation
    from impi.rank.vendors.secure_socket import SecureSocket

FINALIZED: Final = b"finalized"
EXIT: Final = b"exit "
"""Begins the last word of a proc that ends by os._exit, before its exit code: of several procs an
mpiexec tells one code, and maybe not that of the one that has failed.
"""
_HIGH: Final = 1024
"""More descriptors than a process has as a rule."""

_open: list[socket.socket | SecureSocket] = []
"""The connection of this process, if it has one."""
_spoke: list[socket.socket | SecureSocket] = []
"""The same once its last word is said: there is one."""


def announce(join: Invitation) -> None:
    """Announce the start of the library, which may block: impirun names procs that never begin.

    Raises:
        LaunchError: impirun does not answer.
    """

    hello: dict[str, object] = {
        "role": "joining",
        "pid": os.getpid(),
        "node": socket.gethostname(),
    }
    if "library" not in join:
        hello = {"role": "present", "rank": join["rank"]}

    control, token = join["control"], join["token"]
    try:
        # The descriptor first: a TLS session keeps to the one that it has begun on.
        plain = _first_to_close(open_control(control, token))
        sock = _encrypted(plain, control, token) if join.get("tls") else plain
        sock.send(json.dumps(hello).encode() + b"\n")
    except (OSError, JobError) as error:
        raise LaunchError(f"impirun does not answer at {control}: {error}") from None

    if not _open:
        os.register_at_fork(after_in_child=_leave_to_parent)
        if "library" in join:
            os._exit = _telling(os._exit)  # type: ignore[assignment]

    _open.append(sock)


def _encrypted(sock: socket.socket, control: str, token: str) -> SecureSocket:
    from impi.rank.vendors.secure_socket import SecureSocket

    return SecureSocket(encrypted_control(sock, control, token))


def _first_to_close(sock: socket.socket) -> socket.socket:
    """Return the socket under a high descriptor.

    The kernel closes the descriptors of a killed process from the highest down. mpiexec ends the
    other procs as soon as it sees its own connection close, and impirun must have seen this one.
    """

    import fcntl
    import resource

    high = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _HIGH) - 1
    try:
        found = fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, high)
    except OSError:
        return sock  # it is taken, and so are all above

    sock.close()

    return socket.socket(fileno=found)


def connection() -> socket.socket | SecureSocket | None:
    """Return the connection of this process, if it has one."""
    return _open[0] if _open else None


def last_word(word: bytes) -> None:
    """Tell impirun how this proc ends: :data:`FINALIZED`, or what ends the job."""
    for sock in _open:
        if sock not in _spoke:
            _spoke.append(sock)
            with suppress(OSError):
                sock.send(word, socket.MSG_NOSIGNAL)


def _telling(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    def tell_and_leave(status: int) -> NoReturn:
        # The kernel keeps the low octet of an exit code only.
        last_word(EXIT + b"%d" % (int(status) & 0xFF))
        leave(status)

    return tell_and_leave


def _leave_to_parent() -> None:
    # A child has the descriptor, too. As long as it is open there, impirun would not see the end of
    # the proc.
    while _open:
        _open.pop().close()
