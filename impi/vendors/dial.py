"""Connecting to impirun and to servers: what all procs and clients do at their start, so that it must be quick."""

from __future__ import annotations

import socket

__all__ = ["connect", "dial"]


def dial(endpoint: str, timeout_s: float) -> socket.socket:
    """Connect to ``host:port``, an IPv6 address in brackets; it raises OSError, and ValueError where it is none."""
    host, _, port = endpoint.rpartition(":")
    return connect(host.strip("[]"), int(port), timeout_s)


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """As :func:`socket.create_connection`."""
    # Of names as text the socket module asks its table of international ones first, and that takes 2 ms to load.
    name = host.encode("ascii") if host.isascii() else host
    return socket.create_connection((name, port), timeout_s)  # type: ignore[arg-type]  # it takes octets, too
