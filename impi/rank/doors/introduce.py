"""The connecting end of an introduction, whose accepting end is
:mod:`impi.rank.doors.reception`."""

from __future__ import annotations

import os
import socket
from typing import Final

from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, Knock

MARK: Final = b"IMPI"
"""What each nonce begins with, so that a decoder of packets knows one from a packet's type."""


def new_nonce() -> bytes:
    """Return a nonce that nobody can guess."""
    return MARK + os.urandom(NONCE_SIZE - len(MARK))


def introduce(sock: socket.socket, head: bytes, secret: bytes, about: bytes) -> bool:
    """Say by ``head`` what this end is, and let both ends prove that they know ``secret``.

    Args:
        sock: connected; with a time limit, or it waits for ever.
        head: octets that the accepting end reads first.
        secret: what both know; empty: no proof is due.
        about: what both must agree on.

    Returns:
        Whether the other end has proved it.

    Raises:
        OSError: the connection ended, or the time is over.
    """
    if not secret:
        sock.sendall(head)
        return True
    knock = Knock(secret, about, new_nonce())
    sock.sendall(head + knock.nonce)
    closing = knock.closing(receive_exactly(sock, ANSWER_SIZE))
    if closing is None:
        return False
    sock.sendall(closing)
    return True


def receive_exactly(sock: socket.socket, nbytes: int) -> bytes:
    """Return so many octets.

    Raises:
        OSError: the connection ended before, or the time is over.
    """
    data = bytearray()
    while len(data) < nbytes:
        piece = sock.recv(nbytes - len(data))
        if not piece:
            raise ConnectionError("it closed the connection")
        data += piece
    return bytes(data)
