"""impirun's control socket, to which its procs connect (docs/how-it-works/start-up.md)."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable
from typing import Any, Final

from impi.launch.net import show_endpoint
from impi.records import fresh, record
from impi.vendors.dial import equal

_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 24
"""Longest first line in octets: the list of some 200 000 procs."""
_SEND_S: Final = 10.0


@record(frozen=False)
class _Connection:
    sock: socket.socket
    peer: str
    received: bytearray = fresh(default_factory=bytearray)
    known: bool = False


class Control:
    """Accepts the procs of one client, and no other process.

    Args:
        address: to listen on; all procs must reach it.
        size: number of procs.
        agents: number of host agents.
        selector: for its sockets; the data of a key is a callable for the owner's loop.
        warn: called with one sentence for each refused connection.
        feed: gets the socket of a proc that fetches standard input; None: there is no input.
    """

    def __init__(
        self,
        address: str,
        size: int,
        selector: selectors.BaseSelector,
        warn: Callable[[str], None],
        *,
        agents: int = 0,
        feed: Callable[[socket.socket], None] | None = None,
    ) -> None:
        self._size = size
        self.serves = agents > 0
        """Whether there are host agents."""
        self._feed = feed
        self._missing = list(range(agents))
        """Numbers of the host agents that are not connected."""
        self._selector = selector
        self._warn = warn
        self.token = os.urandom(16).hex()
        self.joined: set[object] = set()
        """Procs that have begun MPI_Init: (node, pid) under an MPI library, rank without one."""
        self.rank0: dict[str, Any] | None = None
        """Facts from vendor rank 0; None: not here yet."""
        self.agents: dict[int, dict[str, Any]] = {}
        """Facts from each host agent, by number."""
        self._rank0_connection: _Connection | None = None
        self._agent_connections: dict[int, _Connection] = {}
        self._pure: dict[int, tuple[_Connection, object]] = {}
        self._connections: list[_Connection] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family, backlog=1024)
        self._listener.setblocking(False)
        self.endpoint = show_endpoint(address, self._listener.getsockname()[1])
        """``address:port``."""
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def complete(self) -> bool:
        """Whether all facts for the other clients are here."""
        return self.rank0 is not None and not self._missing

    def answer_agent(self, number: int, reply: dict[str, object]) -> None:
        """Answer a host agent with the job and its host index."""
        self._send(self._agent_connections[number], reply)

    def answer(self, reply: dict[str, object]) -> None:
        """Answer vendor rank 0 with the job or an error."""
        if self._rank0_connection is not None:
            self._send(self._rank0_connection, reply)

    def close(self) -> None:
        """Close all its sockets."""
        for connection in [*self._connections]:
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        connection = _Connection(sock, show_endpoint(*address[:2]))
        self._connections.append(connection)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._read(connection))

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
        elif not connection.known:
            connection.received += data
            line, newline, _ = connection.received.partition(b"\n")
            if newline:
                self._introduce(connection, bytes(line))
                connection.received = bytearray()
            elif len(connection.received) > _MAX_LINE:
                self._refuse(connection, "sent no end of line")

    def _introduce(self, connection: _Connection, line: bytes) -> None:
        try:
            hello = json.loads(line)
        except ValueError:
            hello = None
        if not isinstance(hello, dict) or not equal(
            str(hello.get("token")).encode("utf-8", "replace"), self.token.encode()
        ):
            self._refuse(connection, "does not know this job's token")
            return
        connection.known = True
        match hello.get("role"):
            case "joining":
                self.joined.add((hello.get("node"), hello.get("pid")))
            case "rank0" if self.rank0 is None:
                self.rank0 = hello
                self._rank0_connection = connection
            case "pure" if hello.get("rank") in range(self._size) and hello["rank"] not in self._pure:
                self._add_pure(connection, hello)
            case "host" if hello.get("number") in self._missing:
                self._missing.remove(hello["number"])
                self.agents[hello["number"]] = hello
                self._agent_connections[hello["number"]] = connection
            case "input" if self._feed is not None:
                self._forget(connection)
                self._feed(connection.sock)
            case role:
                self._refuse(connection, f"came as {role!r}, rank {hello.get('rank')}, where none was awaited")

    def _add_pure(self, connection: _Connection, hello: dict[str, Any]) -> None:
        self.joined.add(hello["rank"])
        self._pure[hello["rank"]] = (connection, hello.get("address"))
        if len(self._pure) == self._size:
            peers = [self._pure[rank][1] for rank in range(self._size)]
            for other, _ in self._pure.values():
                self._send(other, {"peers": peers})

    def _send(self, connection: _Connection, reply: dict[str, object]) -> None:
        try:
            connection.sock.settimeout(_SEND_S)
            connection.sock.sendall(json.dumps(reply).encode() + b"\n")
            connection.sock.setblocking(False)
        except OSError:
            self._drop(connection)  # that proc has ended, which its launcher tells

    def _refuse(self, connection: _Connection, why: str) -> None:
        self._warn(f"closed a connection to {self.endpoint} from {connection.peer}, which {why}")
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._forget(connection)
            connection.sock.close()

    def _forget(self, connection: _Connection) -> None:
        self._connections.remove(connection)
        self._selector.unregister(connection.sock)
