"""Socket helpers for server and clients."""

from __future__ import annotations

import errno
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from impi.base.errors import UsageError
from impi.base.units import parse_port
from impi.rank.vendors.dial import without_delay

_LOOKUP_S: Final = 0.5
_KEEPALIVE: Final = (60, 10, 6)  # seconds of idleness, seconds between probes, and their number
_KEEPALIVE_PARTS: Final = (3, 5)  # of a limit: the parts that are idleness, and the time between two probes


def parse_endpoint(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[IPV6]:PORT``.

    Raises:
        UsageError: malformed.
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    number = parse_port(port)
    if not colon or not host or not number:
        raise UsageError(f"{text!r} is not HOST:PORT; give the line that impirun -server prints", clause="2.2.2")
    return host, number


def peer_name(address: str) -> str:
    """Return the host name of a numeric address, or the address after half a second."""
    found: list[str] = []

    def look_up() -> None:
        with suppress(OSError):
            found.append(socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0])

    # In a thread: a resolver may take long.
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_LOOKUP_S)
    return found[0] if found else address


class Names:
    """Looks up names of addresses beside the caller's loop."""

    def __init__(self) -> None:
        self._lookups: list[threading.Thread] = []

    def find(self, address: str, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with what :func:`peer_name` returns, from another thread."""
        thread = threading.Thread(target=lambda: tell(peer_name(address)), daemon=True)
        self._lookups.append(thread)
        thread.start()

    def wait(self) -> None:
        for thread in self._lookups:
            thread.join()


def set_options(sock: socket.socket, silence_s: float = 0.0) -> None:
    """Set options for start-up connections: no delay, and keepalive for vanished machines.

    Args:
        sock: of TCP.
        silence_s: seconds after which a peer that acknowledges nothing is lost; 0: two minutes.
    """
    idle, interval, count = _KEEPALIVE
    if silence_s:
        idle, interval = (max(1, int(silence_s / parts)) for parts in _KEEPALIVE_PARTS)
        # Octets under way hold keepalive off, so they need a limit of their own.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * silence_s))
    without_delay(sock, (idle, interval, count))


def send_whole(sock: socket.socket, data: bytes, timeout_s: float) -> None:
    """Write all of ``data`` to a socket that does not block, in at most so many seconds.

    Raises:
        OSError: the connection broke, or the time is over.
    """
    view, until = memoryview(data), time.monotonic() + timeout_s
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            if not select.select([], [sock], [], max(0.0, until - time.monotonic()))[1]:
                raise TimeoutError(errno.ETIMEDOUT, "its peer reads nothing") from None
