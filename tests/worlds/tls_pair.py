"""Two ends of one TLS session."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from impi.rank.vendors.secure_socket import encrypt

KEY = b"a key of two ends and one job..."


def both(one: socket.socket, other: socket.socket, key: bytes = KEY) -> tuple[Any, Any]:
    """Return what encrypt returns, or raises, at both ends."""
    found: list[Any] = [None, None]

    def run(index: int, sock: socket.socket, own: bytes) -> None:
        try:
            found[index] = encrypt(
                sock, own, accepts=bool(index), deadline=time.monotonic() + 20
            )
        except Exception as error:
            found[index] = error

    thread = threading.Thread(target=run, args=(1, other, key))
    thread.start()
    run(0, one, KEY)
    thread.join()
    return found[0], found[1]
