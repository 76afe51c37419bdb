"""Connecting to impirun and to servers: what all procs and clients do at their start, so that it must be quick."""

from __future__ import annotations

import socket
from functools import reduce
from operator import or_, xor

__all__ = ["connect", "dial", "equal", "plain"]


def dial(endpoint: str, timeout_s: float) -> socket.socket:
    """Connect to ``host:port``, an IPv6 address in brackets; it raises OSError, and ValueError where it is none."""
    host, _, port = endpoint.rpartition(":")
    return connect(host.strip("[]"), int(port), timeout_s)


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """As :func:`socket.create_connection`."""
    return socket.create_connection((plain(host), port), timeout_s)  # type: ignore[arg-type]  # it takes octets, too


def plain(host: str) -> bytes:
    """A name as it is asked for. Given text, the socket module loads a table of international names in any case, which
    takes some ms.

    Raises:
        OSError: it can be nobody's name.
    """
    try:
        return host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None


def equal(one: bytes, other: bytes) -> bool:
    """Whether they are, in a time that does not tell where they differ: as hmac's, whose OpenSSL takes as long to load
    as all else that impirun does while the procs start.
    """
    return len(one) == len(other) and reduce(or_, map(xor, one, other), 0) == 0
