"""Connections to a server of pages: few at a time, and those that ask nothing go first.

A server of ``http.server`` or werkzeug has a thread for each connection, as long as it is open. A
stranger who holds connections would take all files and threads of the process, without knowing the
address of any page. So :class:`FewVisitors` bounds their number. It makes room before it accepts:
it closes the connection that has asked nothing for the longest time, but gives each a moment. An
answer under way is never cut.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Final

MOST: Final = 128
"""Connections at a time."""
_MOMENT_S: Final = 0.3
"""Time in which a connection may ask: a browser does at once, but the machine may be busy."""
_SILENT_S: Final = 10.0
_LOOK_S: Final = 0.01


class FewVisitors(TCPServer):
    """A server with threads, named before its true class; its handler is a :class:`Visitor`."""

    request_queue_size = MOST

    def __init__(self, *args: object, **options: object) -> None:
        # For each connection: since when it asks nothing; infinite: it is answered.
        self._there: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._most = min(MOST, os.sysconf("SC_OPEN_MAX") // 4)
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection, if there is room.

        Raises:
            OSError: there is none yet; the loop of the server goes on and comes again.
        """
        try:
            if not self._makes_room():
                raise BlockingIOError("all connections are answered, or are new")

            sock, address = super().get_request()
        except OSError:
            time.sleep(_LOOK_S)  # the listener stays ready
            raise

        sock.settimeout(_SILENT_S)
        self.waits(sock)

        return sock, address

    def shutdown_request(
        self, request: socket.socket | tuple[bytes, socket.socket]
    ) -> None:
        """Close a connection."""
        if isinstance(request, socket.socket):
            with self._lock:
                self._there.pop(request, None)

        super().shutdown_request(request)

    def waits(self, sock: socket.socket) -> None:
        """Note that nothing has been asked by a connection yet, or nothing more."""
        with self._lock:
            self._there[sock] = time.monotonic()

    def answers(self, sock: socket.socket) -> None:
        """Note that a connection has asked."""
        with self._lock:
            if sock in self._there:
                self._there[sock] = float("inf")

    def _makes_room(self) -> bool:
        with self._lock:
            if len(self._there) < self._most:
                return True

            oldest = min(self._there, key=self._there.__getitem__)
            if self._there[oldest] > time.monotonic() - _MOMENT_S:
                return False

            del self._there[oldest]

        try:
            oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
        except OSError:
            pass  # it has ended already

        return True


class Visitor(BaseHTTPRequestHandler):
    """A handler of :class:`FewVisitors` that tells it when it is asked, to be named first."""

    def handle_one_request(self) -> None:
        self._of().waits(self.connection)
        super().handle_one_request()

    def parse_request(self) -> bool:
        asked = super().parse_request()
        if asked:
            self._of().answers(self.connection)

        return asked

    def _of(self) -> FewVisitors:
        assert isinstance(self.server, FewVisitors), "the docstring says so"
        return self.server
