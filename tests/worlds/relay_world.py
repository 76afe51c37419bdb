"""Hosts that accept nothing but the connections that their near end fetches from a relay."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from impi.launch.relay.near_end import NearEnd
from impi.protocol.startup.auth import relay_key
from impi.protocol.startup.dance import encode_rank
from impi.protocol.startup.facts import HostFacts, ProcFacts
from impi.protocol.wire import addresses

SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
KEY = relay_key(SECRET)
LIMIT_S = 30.0
HERE = addresses.from_text("127.0.0.1")
MIB = 1 << 20
RANK = encode_rank(7)
StartRelay = Callable[..., Any]


class Behind:
    """A host that accepts nothing but its near end's connections."""

    def __init__(self, where: str, silence_s: float = 0.0, count: int = 1) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(LIMIT_S)
        self.near = NearEnd(where, KEY, count, silence_s)
        self.facts = self.near.lead(
            [
                HostFacts(HERE, self.listener.getsockname()[1], (ProcFacts(HERE, 1),))
                for _ in range(count)
            ]
        )
        self.near.start()

    def visit(self, number: int = 0, address: str = "127.0.0.1") -> socket.socket:
        """A connection of a host to an endpoint: it begins with its rank (IMPI 2.3.8)."""
        sock = socket.create_connection((address, self.facts[number].port), LIMIT_S)
        sock.sendall(RANK)
        return sock

    def accept(self) -> socket.socket:
        """Return the connection that a visitor has, once it has said its rank."""
        sock, _ = self.listener.accept()
        sock.settimeout(LIMIT_S)
        assert sock.recv(len(RANK), socket.MSG_WAITALL) == RANK
        return sock

    def close(self) -> None:
        self.near.close()
        self.listener.close()


def behind(stack: ExitStack, where: str, **others: Any) -> Behind:
    return stack.enter_context(closing(Behind(where, **others)))


def everything(sock: socket.socket) -> bytes:
    data = bytearray()
    while piece := sock.recv(1 << 16):
        data += piece
    return bytes(data)
