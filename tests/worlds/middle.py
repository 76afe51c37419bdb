"""One who sits on a connection: passes it on, drops a hello, or answers plain, and keeps all."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack, suppress

HELLO = b"\x16\x03\x01"
"""The first octets of a TLS session."""
IDLE_S = 1.0
"""Time of silence after which a connection that was meddled with is closed."""
CHUNK = 1 << 16
GARBAGE = b'{"ports": [1], "job": 1}\n' * 8
"""An answer in plain."""


class Middle:
    """A listener before another one.

    Args:
        to: the true one.
        act: ``forward``, ``drop`` (the hello: of TLS if ``tls``, or else the first octets), or
            ``plain`` (answers the hello itself).
        tls: whether the ends begin a TLS session.
    """

    def __init__(self, to: tuple[str, int], act: str, *, tls: bool) -> None:
        self._to, self._act, self._tls = to, act, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.where: tuple[str, int] = self._listener.getsockname()
        self.said: list[list[bytes]] = []
        """The octets from the connecting end of each connection, in pieces."""
        self.heard = bytearray()
        """The octets from the accepting ends."""
        self._served: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def octets(self) -> bytes:
        """All that has crossed."""
        return b"".join(b"".join(pieces) for pieces in self.said) + bytes(self.heard)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for thread in self._served:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.said.append([])
            thread = threading.Thread(target=self._serve, args=(sock, self.said[-1]))
            self._served.append(thread)
            thread.start()

    def _serve(self, caller: socket.socket, said: list[bytes]) -> None:
        with ExitStack() as stack, suppress(OSError):
            stack.enter_context(caller)
            owner = stack.enter_context(socket.create_connection(self._to))
            meddled = False
            while True:
                ready, _, _ = select.select(
                    [caller, owner], [], [], IDLE_S if meddled else None
                )
                if not ready:
                    return
                for one in ready:
                    octets = one.recv(CHUNK)
                    if not octets:
                        return
                    if one is owner:
                        self.heard += octets
                        caller.sendall(octets)
                        continue
                    said.append(octets)
                    at = octets.find(HELLO) if self._tls else 0
                    if self._act != "forward" and not meddled and at >= 0:
                        meddled = True
                        owner.sendall(octets[:at])
                        if self._act == "plain":
                            caller.sendall(GARBAGE)
                    else:
                        owner.sendall(octets)


def replay(to: tuple[str, int], said: list[bytes]) -> bytes:
    """Say to the true listener what one end has said earlier; return what it answers."""
    heard = bytearray()
    with suppress(OSError), socket.create_connection(to) as sock:
        sock.settimeout(IDLE_S)
        for piece in said:
            sock.sendall(piece)
            with suppress(TimeoutError):
                octets = sock.recv(CHUNK)
                if not octets:
                    break
                heard += octets
    return bytes(heard)
