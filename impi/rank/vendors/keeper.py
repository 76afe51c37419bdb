"""Keeps the secrets of a client on a node where an mpiexec of the library starts its procs.

An mpiexec sends the environment of procs to other nodes on connections of its own, in clear. So
the invitation of a client on several nodes has the name of a keeper there, in place of secrets.
impirun starts a keeper on each node, as it starts agents: by ssh. It listens on a Unix socket with
an abstract name, and each proc asks it. Both ends ask the kernel for the other one's user. So no
other user learns a secret, or is taken for a keeper.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import time
from collections.abc import Mapping
from typing import Final

from impi.base.errors import JobError

VARIABLE: Final = "IMPI_KEEPS"
MARK: Final = "@"
"""Begins the name of a keeper where there would be a token."""
_SECRETS: Final = ("token", "names")
_CREDENTIALS: Final = struct.Struct("3i")
_LIMIT_S: Final = 60.0
"""How long a proc waits for its keeper: both are started at the same time."""
_PAUSE_S: Final = 0.02
_BACKLOG: Final = 1024


def veiled(invitation: Mapping[str, object], name: str) -> dict[str, object]:
    """Return an invitation without its secrets, which the keeper of that name has."""
    public = {key: value for key, value in invitation.items() if key not in _SECRETS}
    return {**public, "kept": name}


def kept(invitation: Mapping[str, object], name: str) -> str:
    """Return the value of :data:`VARIABLE` for the keepers of that name."""
    secrets = {key: invitation[key] for key in _SECRETS if key in invitation}
    return json.dumps({"name": name, "secrets": secrets})


def ask(name: str) -> dict[str, object]:
    """Return the secrets that the keeper of that name has on this node.

    Raises:
        JobError: there is none, or it is of another user.
    """
    until = time.monotonic() + _LIMIT_S
    while True:
        try:
            found: dict[str, object] = json.loads(_read_secrets(name, until))
        except (OSError, ValueError) as error:
            if isinstance(error, ConnectionError) and time.monotonic() < until:
                time.sleep(_PAUSE_S)
                continue

            raise JobError(
                f"this process cannot get the secrets of its job on {socket.gethostname()} ({error}): name every node "
                "with --nodes as the mpiexec does"
            ) from None

        return found


def token(text: str) -> str:
    """Return the token that a variable has; if that is a keeper's name, ask the keeper for it."""
    return str(ask(text[1:])["token"]) if text.startswith(MARK) else text


def _read_secrets(name: str, until: float) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(max(0.01, until - time.monotonic()))
        sock.connect(_socket_address(name))
        if not _is_mine(sock):
            raise PermissionError(
                "a process of another user has the name of this job's keeper"
            )

        with sock.makefile("rb") as octets:
            return octets.read()


def _socket_address(name: str) -> str:
    return f"\0impi-keeper-{name}"


def _is_mine(sock: socket.socket) -> bool:
    octets = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(octets)[1] == os.getuid())


def main() -> None:
    """Keep the secrets in :data:`VARIABLE` until a signal ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    told = json.loads(os.environ.pop(VARIABLE))
    octets = json.dumps(told["secrets"]).encode()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_socket_address(told["name"]))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise

            # The machine has two names among the nodes, and so another keeper, which has the same
            # secrets and lives as long.
            signal.pause()

        serve(listener, octets)


def serve(listener: socket.socket, octets: bytes) -> None:
    """Send the octets to each process of our user that connects."""
    listener.listen(_BACKLOG)
    while True:
        sock, _ = listener.accept()
        with sock:
            try:
                if _is_mine(sock):
                    sock.sendall(octets)
            except OSError:
                continue  # the process has not waited for the octets


if __name__ == "__main__":
    main()
