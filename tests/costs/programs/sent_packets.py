"""The IMPI packets that this proc sends to other clients: octets of its sockets, cut by headers."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from impi.protocol.wire.packets import HEADER_SIZE, unpack_header

sent: defaultdict[int, bytearray] = defaultdict(bytearray)
"""By socket; to be cleared where a packet begins, as after any blocking operation."""


def keep() -> None:
    """Note from now on what Internet sockets send; those inside a client are of another family."""
    plain, gathered = socket.socket.send, socket.socket.sendmsg

    def kept(sock: socket.socket, octets: Any, n: int) -> int:
        if sock.family != socket.AF_UNIX:
            sent[sock.fileno()] += octets[:n]
        return n

    def send(self: socket.socket, data: Any, *flags: int) -> int:
        return kept(self, data, plain(self, data, *flags))

    def sendmsg(self: socket.socket, views: Sequence[Any], *more: Any) -> int:
        return kept(self, b"".join(views), gathered(self, views, *more))

    socket.socket.send = send  # type: ignore[method-assign, assignment]
    socket.socket.sendmsg = sendmsg  # type: ignore[method-assign, assignment]


def count() -> int:
    """Return the number of packets, each with a header that tells its length (IMPI 3.5)."""
    return sum(map(packets_in, sent.values()))


def packets_in(octets: bytearray) -> int:
    """Return the number of packets in what one socket has sent."""
    found, place = 0, 0
    while place < len(octets):
        place += HEADER_SIZE + unpack_header(octets, place).pk_len
        found += 1
    return found
