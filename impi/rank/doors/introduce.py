"""The connecting end of an introduction, whose accepting ends are the doors of this package.

A door that is crowded closes connections without a word, so who connects tries :func:`again`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Final, TypeVar

from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, Knock

T = TypeVar("T")

AGAIN_S: Final = 10.0
"""Time for which one that was closed without a word tries again: the door may be crowded."""
PAUSE_S: Final = 0.2
MARK: Final = b"IMPI"
"""The first octets of each nonce, by which a decoder of packets tells it from a packet's type."""


def new_nonce() -> bytes:
    """Return an unpredictable nonce."""
    return MARK + os.urandom(NONCE_SIZE - len(MARK))


def introduce(sock: socket.socket, head: bytes, secret: bytes, about: bytes) -> bool:
    """Introduce this end by ``head``, and let both ends prove that they know ``secret``.

    Args:
        sock: connected; with a time limit, or it waits for ever.
        head: octets that the accepting end reads first.
        secret: known to both ends; empty: no proof is due.
        about: octets that both ends must agree on.

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
    """Return exactly ``nbytes`` octets.

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


def again(attempt: Callable[[], T], limit_s: float = AGAIN_S) -> T:
    """Return what an attempt to come in gives; repeat it where the other end closes the connection.

    A refused connection is an answer, and so is silence.

    Args:
        attempt: connects, and says what it is.
        limit_s: no attempt begins later than that.

    Raises:
        OSError: of the last attempt.
    """
    until = time.monotonic() + min(limit_s, AGAIN_S)
    while True:
        try:
            return attempt()
        except ConnectionRefusedError:
            raise
        except ConnectionError:
            if time.monotonic() + PAUSE_S >= until:
                raise

        time.sleep(PAUSE_S)
