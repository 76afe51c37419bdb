"""Our server and clients in memory, with somebody between them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from itertools import count

from impi.base.errors import ImpiError
from impi.protocol.startup.auth import Credentials
from impi.protocol.startup.client import ClientMachine, Joined, Negotiated
from impi.protocol.startup.facts import ClientFacts
from impi.protocol.startup.server import ServerEvent, ServerMachine

SECRET = b"correct horse battery"

Maker = Callable[..., ClientFacts]
Change = Callable[[int, bytes], bytes]


def nonces() -> Callable[[int], bytes]:
    numbers = count(1)
    return lambda size: bytes([next(numbers)]) * size


def as_it_is(_conn: int, octets: bytes) -> bytes:
    return octets


class Exchange:
    """Our server and clients in memory, with somebody between them."""

    def __init__(
        self,
        server: Credentials,
        clients: list[ClientMachine],
        facts: list[ClientFacts],
    ) -> None:
        self.server = ServerMachine(len(clients), server, nonces())
        self.clients = clients
        self.facts = facts
        self.events: list[ServerEvent] = []
        self.jobs: dict[int, Negotiated] = {}
        self.errors: dict[int, ImpiError] = {}
        for conn in range(len(clients)):
            self.server.connected(conn, f"peer{conn}", f"192.0.2.{conn}")

    def run(self, to_server: Change = as_it_is, to_client: Change = as_it_is) -> None:
        for _ in range(60):
            for conn, client in enumerate(self.clients):
                self.events += self.server.receive_data(
                    conn, to_server(conn, client.data_to_send())
                )
                octets = to_client(conn, self.server.data_to_send(conn))
                if conn not in self.errors:
                    self._give(conn, client, octets)

    def _give(self, conn: int, client: ClientMachine, octets: bytes) -> None:
        try:
            for event in client.receive_data(octets):
                if isinstance(event, Joined):
                    client.submit(self.facts[conn])
                elif isinstance(event, Negotiated):
                    self.jobs[conn] = event
        except ImpiError as error:
            self.errors[conn] = error


def clients(
    *credentials: Credentials, **options: tuple[tuple[int, int], ...]
) -> list[ClientMachine]:
    return [
        ClientMachine(i, c, nonce=bytes([200 + i]) * 32, **options)
        for i, c in enumerate(credentials)
    ]


def proof(key: bytes, *parts: bytes) -> bytes:
    """By the words of impi.protocol.proofs, and not by its code."""
    return hmac.new(
        key, b"".join(len(p).to_bytes(8, "big") + p for p in parts), hashlib.sha256
    ).digest()
