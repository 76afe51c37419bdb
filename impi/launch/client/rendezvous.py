"""A client's connection to the server: the socket around
:class:`~impi.protocol.startup.ClientMachine`.

For a program with a selector of its own::

    rendezvous.start()                       # connects; watch rendezvous.fileno() for reading
    for event in rendezvous.on_readable():   # Joined: submit(facts) when known; Negotiated: the job
        ...
    rendezvous.lost()                        # during the job, when readable: why it ended, or None
    rendezvous.check_silence()               # now and then; and beat(), best from a thread
    rendezvous.finish()                      # after all processes have exited successfully
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Self

from impi.base.errors import ImpiError, JobEnded, JobError, LocalProtocolError, ServerLost, StartupError, UsageError
from impi.base.exit_codes import ExitCode
from impi.launch.net import send_whole, set_options
from impi.launch.pulse import is_silent, silence
from impi.protocol.proofs import NONCE_SIZE
from impi.protocol.startup.auth import ALL, OF_CLIENTS, find_credentials, parse_preference
from impi.protocol.startup.client import ALL_VERSIONS, STRICT_VERSIONS, ClientEvent, ClientMachine, Lost
from impi.protocol.startup.facts import ClientFacts
from impi.rank.vendors.dial import connect, quick_ack, show_endpoint

_CHUNK: Final = 1 << 16
_CONNECT_S: Final = 30.0
_ANSWER_S: Final = 30.0  # the longest wait for what a server does at once, if silence has no limit
_AGAIN_S: Final = 3.0  # how long a client that was closed out without a word tries again: the server may be crowded
_PAUSE_S: Final = 0.2
_SEND_S: Final = 60.0
_INTRODUCED_S: Final = 10.0  # the longest wait for the server's answer, which normally is immediate
_WORDS_S: Final = 1.0  # the longest wait for the server's words on a failure


class Rendezvous:
    """One client's conversation with the server at ``host:port``; a context manager.

    Args:
        host: name or numeric address of the server.
        port: its TCP port.
        rank: number of this client.
        environ: for IMPI_AUTH_NONE and IMPI_AUTH_KEY (IMPI 2.3.3).
        versions: offered by this client.
        auth: methods, as in ``-auth``; None: all that are available and send no key in clear, and
            with version 0.0 alone that one, too.
        silence_s: seconds of silence after which the server is lost; 0: never.

    Raises:
        UsageError: no authentication method is available, or ``rank`` is out of range.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rank: int,
        *,
        environ: Mapping[str, str],
        versions: tuple[tuple[int, int], ...] = ALL_VERSIONS,
        auth: str | None = None,
        silence_s: float = 0.0,
    ) -> None:
        self._where = show_endpoint(host, port)
        self._host, self._port = host, port
        unasked = ALL if versions == STRICT_VERSIONS else OF_CLIENTS
        credentials = find_credentials(environ, unasked if auth is None else parse_preference(auth))
        self._make: Callable[[], ClientMachine] = lambda: ClientMachine(
            rank, credentials, versions, os.urandom(NONCE_SIZE)
        )
        self._machine = self._make()
        self._silence_s = silence_s
        self._answer_s = silence_s or _ANSWER_S
        self._sock: socket.socket | None = None
        # Held while octets are taken out of the machine and written: beats come from a thread.
        self._writing = threading.Lock()
        self._heard = 0.0
        self._lost: ImpiError | None = None
        self.losses: list[Lost] = []  # what lost() has heard of others that are lost; the caller empties it
        self._answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def start(self, timeout_s: float = _CONNECT_S) -> None:
        """Connect and authenticate; watch :meth:`fileno` from now on.

        A server that closes the connection without an answer may have more strangers than it can
        serve, so this client tries again for some seconds.

        Raises:
            StartupError: no server answers, or it takes none of our methods.
            PeerError: the server broke the protocol.
        """
        until = time.monotonic() + _AGAIN_S
        first: StartupError | None = None
        while True:
            try:
                self._connect(timeout_s)
                self._authenticate(timeout_s if first is None else until - time.monotonic())
            except StartupError as error:
                first = first or error
                if self._answered or self._sock is None or time.monotonic() >= until:
                    raise first from None
            else:
                return
            self.close()
            time.sleep(_PAUSE_S)
            self._machine = self._make()

    def _connect(self, timeout_s: float) -> None:
        try:
            sock = connect(self._host, self._port, timeout_s)
        except OSError as error:
            raise StartupError(
                f"no server answers at {self._where} ({error.strerror or error}): start 'impirun -server COUNT' first "
                "and give its clients the line that it prints",
                clause="2.2.2",
            ) from None
        self._sock = sock
        sock.setblocking(False)
        set_options(sock, self._silence_s)

    def _authenticate(self, timeout_s: float) -> None:
        self._flush()
        deadline = time.monotonic() + min(timeout_s, self._answer_s)
        while not self._machine.introduced:
            if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self.close()
                raise StartupError(f"what listens at {self._where} has not answered AUTH within {self._answer_s:g} s")
            self.on_readable()

    @property
    def encrypted(self) -> bool:
        """Whether the server wants TLS, on all connections between processes of the job."""
        return self._machine.encrypted

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def local_address(self) -> str:
        """Numeric address of this machine towards the server; probably valid for other clients."""
        return str(self._socket.getsockname()[0])

    def on_readable(self) -> list[ClientEvent]:
        """Read without waiting, and answer.

        Raises:
            StartupError, JobError: the server closed the connection, or the facts make no job.
            PeerError: the server broke the protocol.
        """
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""  # a reset is an end
        if not data:
            self._end()
            return []
        self._answered = True
        self._heard = time.monotonic()
        quick_ack(self._socket)  # some servers write a command in parts
        events = self._machine.receive_data(data)
        self._flush()
        return events

    def submit(self, facts: ClientFacts) -> None:
        """Submit the facts after :class:`~impi.protocol.startup.Joined`; ends with ``Negotiated``.

        Raises:
            StartupError: the server closed the connection.
        """
        self._machine.submit(facts)
        self._flush()

    def submit_nothing(self) -> None:
        """Tell the clients after ``Joined`` that no proc here has used MPI; ends with ``Unused``.

        Raises:
            StartupError: the server closed the connection.
        """
        self._machine.submit_nothing()
        self._flush()

    def beat(self) -> None:
        """Tell the server, unless it is gone, that this client runs; from any thread."""
        with suppress(OSError), self._writing:
            if self._sock is not None:
                self._machine.beat()
                send_whole(self._sock, self._machine.data_to_send(), _SEND_S)

    def check_silence(self) -> None:
        if self._machine.beats and is_silent(self.fileno(), self._heard, self._silence_s):
            raise ServerLost(f"the server at {self._where} {silence(self._silence_s)}")

    def lost(self) -> ImpiError | None:
        """Return why the job is over, or None while the server is there. Never waits."""
        if self._lost is None and self._sock is not None:
            try:
                self.losses += [event for event in self.on_readable() if isinstance(event, Lost)]
            except ImpiError as error:
                self._lost = error
        return self._lost

    def finish(self) -> None:
        """Send FINI and close: all processes of this client have exited with 0 (IMPI 2.3.7).

        Raises:
            JobError: the server is gone.
        """
        sock = self._socket
        if (lost := self.lost()) is not None:
            raise lost
        closes = self._machine.beats
        self._machine.finish()
        try:
            self._send_all()
            # lost() empties the receive buffer, so that no reset overtakes the FINI.
            sock.shutdown(socket.SHUT_WR)
            if closes:
                self._read_on(sock)
        except OSError as error:
            raise JobError(
                f"the server at {self._where} was gone before FINI ({error.strerror or error})", clause="2.3.7"
            ) from None
        finally:
            self.close()

    def _read_on(self, sock: socket.socket) -> None:
        """Wait for the end that the server gives: its beat at a closed socket would be a reset."""
        until = time.monotonic() + self._answer_s
        while select.select([sock], [], [], max(0.0, until - time.monotonic()))[0] and sock.recv(_CHUNK):
            pass

    def lose(self, ranks: Sequence[int], reason: str) -> None:
        """Tell the server that these ranks (of MPI_COMM_WORLD) of this client are lost."""
        self._machine.lose(ranks, reason)
        self._flush()

    def leave(self, reason: str) -> None:
        """Tell the server that all of this client is lost, and close: the job goes on without."""
        if self._sock is None:
            return
        with suppress(OSError, ImpiError):  # it is gone, or sees our end
            self._machine.lose((), reason)
            self._send_all()
            self._sock.shutdown(socket.SHUT_WR)
            self._read_on(self._sock)
        self.close()

    def fail(self, reason: str, code: int = 1) -> str:
        """Tell the server why this client ends the job, and by it all clients; then close.

        ``code``: the exit code of the job.

        Returns:
            The sentence that all clients get; ``reason`` if the server does not say it.
        """
        if self._sock is None:
            return reason
        try:
            if self._lost is not None:
                raise self._lost
            self._machine.fail(reason, code)
            self._send_all()
            self._sock.shutdown(socket.SHUT_WR)
            until = time.monotonic() + _WORDS_S
            while select.select([self._sock], [], [], max(0.0, until - time.monotonic()))[0]:
                self.on_readable()
        except JobEnded as ended:
            reason = str(ended)
        except (OSError, ImpiError):
            pass  # it is gone, or another implementation, and ends the job anyway
        self.close()
        return reason

    def close(self) -> None:
        """Close the connection; without :meth:`finish` this ends the job. Idempotent."""
        with self._writing:
            if self._sock is not None:
                self._sock.close()
                self._sock = None

    @property
    def _socket(self) -> socket.socket:
        if self._sock is None:
            raise LocalProtocolError("the connection to the server is not open: start() or join() first", clause="2.3")
        return self._sock

    def _flush(self) -> None:
        try:
            self._send_all()
        except OSError:
            self._end()

    def _send_all(self) -> None:
        # The server always reads, so this waits for the network only.
        with self._writing:
            send_whole(self._socket, self._machine.data_to_send(), _SEND_S)

    def _end(self) -> None:
        error = self._machine.eof()
        if isinstance(error, ServerLost):
            raise ServerLost(f"the server at {self._where} was lost")
        if isinstance(error, JobError):
            error.peer = self._where
        if error is not None:
            raise error


@contextmanager
def telling(rendezvous: Rendezvous) -> Iterator[None]:
    """Tell the server, to which there is no connection yet, of what keeps this client from it.

    The server would wait for this client: its loss ends the job.
    """
    try:
        yield
    except ImpiError as error:
        with suppress(ImpiError):
            rendezvous.start(_INTRODUCED_S)
            rendezvous.fail(str(error), ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED)
        raise
