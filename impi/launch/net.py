"""Sockets of server and clients: endpoints as text, names of addresses, options, whole writes."""

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
# Seconds of idleness, seconds between probes, number of probes
_KEEPALIVE: Final = (60, 10, 6)
# A limit of silence divided by these: idleness, and time between probes
_KEEPALIVE_PARTS: Final = (3, 5)


def parse_endpoint(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[IPV6]:PORT``.

    Raises:
        UsageError: malformed.
    """

    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    # An IPv6 address without brackets, whose last group would be taken for the port.
    elif ":" in host:
        host = ""

    number = parse_port(port)
    if not colon or not host or not number:
        raise UsageError(
            f"{text!r} is not HOST:PORT; give the line that impirun -server prints",
            clause="2.2.2",
        )

    return host, number


def peer_name(address: str) -> str:
    """Return the host name of a numeric address; the address if that takes over half a second."""

    found: list[str] = []

    def look_up() -> None:
        with suppress(OSError):
            found.append(socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0])

    # In a thread, since a resolver without a server waits for many seconds and has no limit.
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_LOOKUP_S)

    return found[0] if found else address


class Names:
    """Looks up names of addresses in threads, while the caller's loop goes on."""

    def __init__(self) -> None:
        self._lookups: list[threading.Thread] = []

    def find(self, address: str, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with the result of :func:`peer_name`, in another thread."""
        thread = threading.Thread(target=lambda: tell(peer_name(address)), daemon=True)
        self._lookups.append(thread)
        thread.start()

    def wait(self) -> None:
        for thread in self._lookups:
            thread.join()


def set_options(sock: socket.socket, silence_s: float = 0.0) -> None:
    """Set options of a start-up connection: no delay, and keepalive against vanished machines.

    Args:
        sock: a TCP socket.
        silence_s: seconds after which a peer that acknowledges nothing is lost; 0: two minutes.
    """
    idle, interval, count = _KEEPALIVE
    if silence_s:
        idle, interval = (max(1, int(silence_s / parts)) for parts in _KEEPALIVE_PARTS)
        # Keepalive sends no probes while octets are unacknowledged, so these need a limit.
        sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * silence_s)
        )

    without_delay(sock, (idle, interval, count))


def send_whole(sock: socket.socket, data: bytes, timeout_s: float) -> None:
    """Write all of ``data`` to a non-blocking socket within ``timeout_s`` seconds.

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
