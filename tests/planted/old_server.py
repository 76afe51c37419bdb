"""A server that does as the server of Notre Dame does, as its recorded conversations show.

Usage: ``old_server.py CLIENTS [PORT]``. It takes clients one after another, answers IMPI at once,
and then goes through the labels that it knows: each is broadcast when all clients have given it or
a later one, with client_mask 0 if nobody gave it. Labels that it does not know, and those that come
late, are swallowed. ``test_old_server.py`` compares it with the recordings, octet for octet.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator

LABELS = (
    *(0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500, 0x1600),
    *(0x2000, 0x2100, 0x2200, 0x2300, 0x2400),
    *(0x3000, 0x3100),
)
WORDS = (b"AUTH", b"IMPI", b"COLL", b"DONE", b"FINI")
Command = tuple[bytes, bytes]


class Client:
    """One connection; :attr:`next` is the command that is read and not taken yet."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self._commands = self._read()
        self.next: Command | None = None

    def octets(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.peer.recv(count - len(found))
            if not more:
                raise EOFError("a client was lost")
            found += more
        return found

    def _read(self) -> Iterator[Command]:
        while True:
            word, size = struct.unpack(">4si", self.octets(8))
            payload = self.octets(size)
            if word in WORDS:
                yield word, payload

    def peek(self) -> Command:
        if self.next is None:
            self.next = next(self._commands)
        return self.next

    def take(self) -> Command:
        found, self.next = self.peek(), None
        return found

    def tell(self, word: bytes, payload: bytes = b"") -> None:
        self.peer.sendall(word + struct.pack(">i", len(payload)) + payload)


def joined(peer: socket.socket, clients: dict[int, Client], count: int) -> None:
    """Take a client from AUTH to IMPI (2.3.3, 2.3.4); one that fails is closed."""
    client, key = Client(peer), os.environ.get("IMPI_AUTH_KEY")
    try:
        word, mask = client.take()
        offered = struct.unpack(">I", mask[:4])[0] if word == b"AUTH" else 0
        if offered & 2 and key is not None:
            client.peer.sendall(struct.pack(">ii", 1, 0))
            if client.octets(8) != struct.pack(">Q", int(key)):
                raise EOFError("a wrong key")
        elif offered & 1 and "IMPI_AUTH_NONE" in os.environ:
            client.peer.sendall(bytes(8))
        else:
            raise EOFError("no common method")
        word, payload = client.take()
        (number,) = struct.unpack(">i", payload)
        if word != b"IMPI" or number in clients or not 0 <= number < count:
            raise EOFError("no number of a client")
    except (EOFError, OSError, struct.error):
        peer.close()
        return
    client.tell(b"IMPI", struct.pack(">i", count))
    clients[number] = client


def label_of(command: Command) -> int:
    """The label of COLL; DONE and FINI come after all labels."""
    word, payload = command
    return int(struct.unpack(">i", payload[:4])[0]) if word == b"COLL" else 1 << 31


def relay(clients: list[Client]) -> None:
    """Broadcast each label that this server knows."""
    for label in LABELS:
        mask, data = 0, b""
        for number, client in enumerate(clients):
            # Late labels, and those that are not in the list, get no answer.
            while (given := label_of(client.peek())) < label or (
                given < 1 << 31 and given not in LABELS
            ):
                client.take()
            if given == label:
                mask |= 1 << number
                data += client.take()[1][4:]
        for client in clients:
            client.tell(b"COLL", struct.pack(">II", label, mask) + data)


def main() -> None:
    """Serve one job; a lost client is an error."""
    count, port = int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])
    clients: dict[int, Client] = {}
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
        while len(clients) < count:
            joined(listener.accept()[0], clients, count)
    ranked = [clients[number] for number in range(count)]
    relay(ranked)
    for client in ranked:
        while client.take()[0] != b"DONE":
            pass
    for client in ranked:
        client.tell(b"DONE")
    for client in ranked:
        while client.take()[0] != b"FINI":
            pass


if __name__ == "__main__":
    main()
