"""Connections to impirun and to servers: part of every start-up, so with few imports."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impi.rank.vendors.secure_socket import SecureSocket


def dial(endpoint: str, timeout_s: float) -> socket.socket:
    """Connect to ``host:port``, IPv6 in brackets; raises OSError, or ValueError if malformed."""
    host, _, port = endpoint.rpartition(":")
    return connect(host.strip("[]"), int(port), timeout_s)


def show_endpoint(address: str, port: int) -> str:
    """Return ``address:port`` as :func:`dial` and users take it; IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect like :func:`socket.create_connection`, and :func:`without_delay`."""
    sock = socket.create_connection((plain(host), port), timeout_s)  # type: ignore[arg-type]  # octets work, too
    without_delay(sock)

    return sock


def listening(address: str, backlog: int, ports: Sequence[int] = ()) -> socket.socket:
    """Return a socket that listens at a free port of ``ports``; none given: at any.

    Args:
        address: numeric; empty: all of IPv4.
        backlog: most connections that may wait at once.
        ports: ports that a firewall lets through.

    Raises:
        OSError: the address is not one of this node, or none of the ports is free.
    """

    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    # Processes that start together begin at different ports.
    first = os.getpid() % len(ports) if ports else 0
    for port in (*ports[first:], *ports[:first]) or (0,):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family is socket.AF_INET6:
                # "::" is for both address families, whatever the system's default.
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)

            # Ports of a given range come round again, and may still be in TIME_WAIT of an earlier
            # job.
            if port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            sock.bind((address, port))
            sock.listen(backlog)
        except OSError as error:
            sock.close()
            # Only a port that is taken is a reason to try the next one.
            if error.errno != errno.EADDRINUSE or len(ports) < 2:
                raise
        else:
            return sock

    raise OSError(
        errno.EADDRINUSE, f"none of the ports {ports[0]} to {ports[-1]} is free"
    )


def without_delay(
    sock: socket.socket, keepalive: tuple[int, int, int] | None = None
) -> None:
    """Send each write at once; else a second one may wait 40 ms for the first (RFC 896, RFC 1122).

    Args:
        sock: of TCP, or a Unix socket, which has no such delay.
        keepalive: seconds of idleness, seconds between probes, and their number; None: no probes.
    """
    if sock.family == socket.AF_UNIX:
        return

    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if keepalive is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in zip(
            (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT),
            keepalive,
            strict=True,
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def plain(host: str) -> bytes:
    """Return a host name for the resolver: for text the socket module loads IDNA tables (ms).

    Raises:
        OSError: it is not a valid name.
    """
    try:
        return host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None


def quick_ack(sock: socket.socket | SecureSocket) -> None:
    """Acknowledge the octets read so far at once, not with the next answer or 40 ms later.

    A peer that writes a header and its data apart waits for that with the data (RFC 896).
    """
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:
        return  # the connection is gone, or none of TCP: the next read tells
