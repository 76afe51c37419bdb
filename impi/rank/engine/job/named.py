"""The way of a proc to published names: a connection to a rendezvous server for each question."""

from __future__ import annotations

import socket
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.startup.names import LONGEST, Answer, Asker
from impi.protocol.wire import CommandReader, OwnCommand
from impi.rank.doors.introduce import again, new_nonce
from impi.rank.vendors.dial import dial

_TIME_S: Final = 20.0
_CHUNK: Final = 1 << 13


def ask(where: str, key: bytes, act: str, name: str, port: str) -> Answer:
    """Return the answer of the server at ``where``.

    Args:
        where: ``host:port``.
        key: of its names.
        act: ``publish``, ``lookup`` or ``unpublish``.
        name: of the service.
        port: name of its port; empty for ``lookup``.

    Raises:
        PeerError: no server of names is there, or it knows another secret.
    """

    def attempt() -> Answer:
        with dial(where, _TIME_S) as sock:
            sock.settimeout(_TIME_S)
            return _talk(sock, Asker(key, new_nonce()), act, name, port)

    try:
        return again(attempt)
    except PeerError as error:
        raise PeerError(f"what listens at {where} {error.message}") from None
    except (OSError, ValueError) as error:
        raise PeerError(f"no server of names answers at {where}: {error}") from None


def _talk(sock: socket.socket, asker: Asker, act: str, name: str, port: str) -> Answer:
    reader = CommandReader(LONGEST)
    sock.sendall(asker.opening)
    sock.sendall(asker.asks(_next(sock, reader, "keeps no names"), act, name, port))

    return asker.reads(
        _next(
            sock, reader, "has another secret: give both jobs the same IMPI_AUTH_SECRET"
        )
    )


def _next(sock: socket.socket, reader: CommandReader, otherwise: str) -> bytes:
    """Return the payload of the server's next command; PeerError: it has closed the connection."""
    while (command := reader.next_command()) is None:
        octets = sock.recv(_CHUNK)
        if not octets:
            raise PeerError(otherwise)

        reader.receive_data(octets)

    if command[0] != OwnCommand.NAME:
        raise PeerError("keeps no names")

    return command[1]
