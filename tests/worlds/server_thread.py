"""A server of our own in a thread, for the tests of this folder."""

from __future__ import annotations

import io
import os
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from impi.base.errors import LocalProtocolError, StartupError
from impi.launch.client.rendezvous import Rendezvous
from impi.launch.server.loop import run_server
from impi.protocol.job import Job
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made
from impi.protocol.startup.client import ClientEvent, Joined, Negotiated
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.wire import addresses

__all__ = [
    "Client",
    "DEADLINE_S",
    "NO_AUTH",
    "ServerThread",
    "facts_of",
    "negotiate_all",
    "step",
]

DEADLINE_S = 20.0
NO_AUTH = {"IMPI_AUTH_NONE": ""}


class Client(Rendezvous):
    """A client without other events: it waits for what comes."""

    def join(self, timeout_s: float | None = None) -> int:
        """Connect and wait until all clients have joined; no deadline by default.

        Returns:
            The number of clients.

        Raises:
            StartupError: no server, a closed connection, or the deadline.
            PeerError: the server broke the protocol.
        """
        self.start()
        event = self._wait(timeout_s, "not all clients have joined")
        if not isinstance(event, Joined):
            raise LocalProtocolError(
                f"expected all clients to have joined, but got {event}", clause="2.3.4"
            )
        return event.nclients

    def negotiate(self, facts: ClientFacts, timeout_s: float | None = None) -> Job:
        """Exchange all labels and wait for the job; no deadline by default.

        Raises:
            StartupError: see :meth:`join`, or the clients' facts make no job.
            PeerError: the server broke the protocol.
        """
        self.submit(facts)
        event = self._wait(timeout_s, "not all clients have submitted their facts")
        if not isinstance(event, Negotiated):
            raise LocalProtocolError(
                f"expected the job, but got {event}", clause="2.3.6"
            )
        return event.job

    def _wait(self, timeout_s: float | None, what: str) -> ClientEvent:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._socket], [], [], left)
            if not ready:
                raise StartupError(
                    f"{what} at {self._where} within {timeout_s} s", clause="2.3"
                )
            events = self.on_readable()
            if events:
                return events[0]


class _Said(io.StringIO):
    """The lines that the server prints; another thread can wait for words of it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def write(self, text: str) -> int:
        with self._changed:
            self._changed.notify_all()
            return super().write(text)

    def wait_for(self, words: str) -> None:
        with self._changed:
            assert self._changed.wait_for(
                lambda: words in self.getvalue(), DEADLINE_S
            ), self.getvalue()


class ServerThread:
    """Runs ``run_server`` on 127.0.0.1. The test makes it end, and then calls :meth:`join`."""

    def __init__(
        self, count: int, *, environ: Mapping[str, str] = NO_AUTH, **others: object
    ) -> None:
        self.stderr = _Said()
        self.code: int | None = None
        self.environ = environ
        options = made(
            ServerOptions, count=count, **({"interface": "127.0.0.1"} | others)
        )
        reading, writing = os.pipe()
        self._stdout = os.fdopen(writing, "w")
        self._thread = threading.Thread(target=self._run, args=(options,), daemon=True)
        self._thread.start()
        with os.fdopen(reading) as out:
            self.line = out.readline()  # and from here on, stdout is closed
        self.host, _, port = self.line.strip().rpartition(":")
        self.port = int(port)

    def _run(self, options: ServerOptions) -> None:
        try:
            self.code = run_server(
                options, environ=self.environ, stdout=self._stdout, stderr=self.stderr
            )
        finally:
            self._stdout.close()  # or who waits for the line would wait for ever

    def join(self) -> int:
        """The exit code, once it has ended."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), self.stderr.getvalue()
        assert self.code is not None
        return self.code

    def client(self, rank: int, **others: object) -> Client:
        return Client(
            self.host,
            self.port,
            rank,
            **({"environ": self.environ} | others),  # type: ignore[arg-type]
        )

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection((self.host, self.port), DEADLINE_S)

    @property
    def said(self) -> str:
        return self.stderr.getvalue()


def negotiate_all(clients: Sequence[Client]) -> list[Job]:
    """The job of each, all of which have joined."""
    with ThreadPoolExecutor(len(clients)) as pool:
        futures = [
            pool.submit(c.negotiate, facts_of(rank), DEADLINE_S)
            for rank, c in enumerate(clients)
        ]
        return [future.result(DEADLINE_S) for future in futures]


def step(client: Rendezvous) -> list[ClientEvent]:
    """One turn of ``client``, as soon as something has come for it."""
    assert select.select([client], [], [], DEADLINE_S)[0]
    return client.on_readable()


def facts_of(client: int, nprocs: int = 1) -> ClientFacts:
    """Return the labels that client ``client`` of 127.0.CLIENT.1 contributes."""
    here = addresses.from_text(f"127.0.{client}.1")
    return ClientFacts(
        hosts=(
            HostFacts(
                here, 5000, tuple(ProcFacts(here, 100 + i) for i in range(nprocs))
            ),
        )
    )
