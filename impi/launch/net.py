"""Socket helpers for server and clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Final

from impi.errors import UsageError

_LOOKUP_S: Final = 0.5
_KEEPALIVE_IDLE_S: Final = 60
_KEEPALIVE_INTERVAL_S: Final = 10
_KEEPALIVE_COUNT: Final = 6


def show_endpoint(address: str, port: int) -> str:
    """Return ``address:port`` as users type it; IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


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
    if not colon or not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise UsageError(f"{text!r} is not HOST:PORT; give the line that impirun -server prints", clause="2.2.2")
    return host, int(port)


def peer_name(address: str) -> str:
    """Return the host name of a numeric address, or the address after half a second."""
    found: list[str] = []

    def look_up() -> None:
        try:
            found.append(socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0])
        except OSError:
            pass

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
        """Wait until all have been told."""
        for thread in self._lookups:
            thread.join()


def set_options(sock: socket.socket) -> None:
    """Set options for start-up connections: no delay, and keepalive for vanished machines."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT)
