"""A client's connection to the server: the socket around
:class:`~impi.protocol.startup.ClientMachine`.

The machine knows the protocol; this class reads, writes, waits and watches the time. For a program
with a selector of its own::

    rendezvous.start()                       # connects; then watch rendezvous.fileno() for reading
    for event in rendezvous.on_readable():   # Joined: submit(facts) when known; Negotiated: the job
        ...
    rendezvous.lost()                        # during the job, when readable: why it ended, or None
    rendezvous.check_silence()               # every 2 s; and beat(), best from a thread
    rendezvous.finish()                      # after all processes have exited successfully

The end matters as much as the start: the server's last sentence is the one that all clients print.
So every close is a shutdown of the sending half, then reading until the server has closed. Closing
with unread octets would send a reset, which can destroy that sentence or our own last command.
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

from impi.base.errors import (
    ImpiError,
    JobEnded,
    JobError,
    LocalProtocolError,
    NoServer,
    PeerError,
    ServerLost,
    StartupError,
    UsageError,
)
from impi.base.exit_codes import ExitCode
from impi.base.variables import OF_SERVER
from impi.launch.net import send_whole, set_options
from impi.launch.pulse import is_silent, silence, silent_in_s
from impi.protocol.proofs import NONCE_SIZE
from impi.protocol.startup.auth import (
    ALL,
    OF_CLIENTS,
    find_credentials,
    parse_preference,
)
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    STRICT_VERSIONS,
    ClientEvent,
    ClientMachine,
    Lost,
    Negotiated,
)
from impi.protocol.startup.facts import ClientFacts
from impi.rank.doors.introduce import AGAIN_S, PAUSE_S
from impi.rank.vendors.dial import connect, quick_ack, show_endpoint

_CHUNK: Final = 1 << 16
_CONNECT_S: Final = 30.0
# The longest wait for what a server does at once, if silence has no limit
_ANSWER_S: Final = 30.0
# Connections that were closed after an answer: the key is wrong
_MOST_ANSWERS: Final = 2
_SEND_S: Final = 60.0
# Longest wait for a connection that is only to report a failure
_INTRODUCED_S: Final = 10.0
_WORDS_S: Final = 1.0  # longest wait for the server's sentence about a failure


class Rendezvous:
    """One client's conversation with the server at ``host:port``; a context manager.

    Args:
        host: name or numeric address of the server.
        port: its TCP port.
        rank: number of this client.
        environ: variables with secret and methods (IMPI_AUTH_..., IMPI 2.3.3).
        versions: versions to offer.
        auth: methods, as in ``-auth``; None: all available ones but KEY, which sends the key in
            clear, and KEY, too, if 0.0 is the only version.
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
        # Where the server has started this client; empty: a user has
        self._started = environ.get(OF_SERVER, "")
        self._host, self._port = host, port
        # Who listens at that address may choose KEY, and so gets the key. IMPI 0.0 has no
        # other method with a secret (2.3.3).
        unasked = ALL if versions == STRICT_VERSIONS else OF_CLIENTS
        credentials = find_credentials(
            environ, unasked if auth is None else parse_preference(auth)
        )
        # A machine for each attempt: nonce and state of a closed
        # connection are of no use for the next.
        self._make: Callable[[], ClientMachine] = lambda: ClientMachine(
            rank, credentials, versions, os.urandom(NONCE_SIZE)
        )
        self._machine = self._make()
        self._silence_s = silence_s
        self._sock: socket.socket | None = None
        # Held while the machine is used: beats come from a thread, and TLS takes one at a time.
        self._writing = threading.Lock()
        self._heard = 0.0
        self._lost: ImpiError | None = None
        # Losses of others that lost() has heard of; the caller empties it
        self.losses: list[Lost] = []
        self._answered = False
        self._begun = False  # whether all clients are in the job
        self.is_said = False
        """Whether the user has read why the job could not begin, so that this client adds nothing.

        A server that has started this client prints its sentence first, in the same terminal.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def start(self, timeout_s: float = _CONNECT_S) -> None:
        """Connect and authenticate; watch :meth:`fileno` from now on.

        If the server closes the connection without an answer, this client tries again for some
        seconds: the server may have more strangers than it serves at a time.

        Raises:
            StartupError: no server answers, or it accepts none of our methods.
            PeerError: the server broke the protocol.
        """

        until = time.monotonic() + AGAIN_S
        first: StartupError | None = None

        answers = 0
        while True:
            self._answered = False
            try:
                self._connect(timeout_s)
                self._authenticate(
                    timeout_s if first is None else until - time.monotonic()
                )
            except StartupError as error:
                # The first error tells what has happened. A later one may
                # only say that the time is over.
                first = first or error

                # No second attempt without a socket, where no server has answered, or after several
                # answers that were followed by an end.
                answers += self._answered
                if (
                    answers > _MOST_ANSWERS
                    or self._sock is None
                    or time.monotonic() >= until
                ):
                    # A server that has started this client, and is gone, is the cause itself.
                    raise (error if self._started else first) from None
            else:
                return

            self.close()
            time.sleep(PAUSE_S)
            self._machine = self._make()

    def _connect(self, timeout_s: float) -> None:
        try:
            sock = connect(self._host, self._port, timeout_s)
        except OSError as error:
            why = error.strerror or error
            told = (
                f"no server answers at {self._where} ({why}): start 'impirun -server COUNT' first "
                "and give its clients the line that it prints"
            )
            if self._started:
                told = (
                    f"no server answers at {self._where} ({why}): it has ended, or this machine "
                    "cannot reach its address"
                )

            raise NoServer(told, clause="2.2.2") from None

        self._sock = sock
        sock.setblocking(False)
        set_options(sock, self._silence_s)

    def _authenticate(self, timeout_s: float) -> None:
        # The client speaks first, by AUTH (IMPI 2.3.3).
        self._flush()

        answer_s = self._silence_s or _ANSWER_S
        deadline = time.monotonic() + min(timeout_s, answer_s)
        while not self._machine.introduced:
            if not select.select(
                [self._socket], [], [], max(0.0, deadline - time.monotonic())
            )[0]:
                self.close()
                raise StartupError(
                    f"what listens at {self._where} has not answered AUTH within {answer_s:g} s"
                )

            self.on_readable()

    @property
    def encrypted(self) -> bool:
        """Whether the server demands TLS, for all connections between processes of the job."""
        return self._machine.encrypted

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def local_address(self) -> str:
        """Numeric address of this machine towards the server; other clients probably reach it."""
        return str(self._socket.getsockname()[0])

    def on_readable(self) -> list[ClientEvent]:
        """Read what has come, without waiting, and answer it.

        Raises:
            StartupError, JobError: the server closed the connection, or the facts make no job.
            PeerError: the server broke the protocol.
        """

        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""  # a reset ends the connection, too

        if not data:
            self._end()
            return []

        self._answered = True
        self._heard = time.monotonic()

        quick_ack(self._socket)  # some servers write a command in parts
        try:
            with self._writing:
                events = self._machine.receive_data(data)
        except JobEnded:
            self.is_said = bool(self._started) and not self._begun
            raise
        except PeerError as error:
            # The machine knows no addresses, and the user has to know which server it was.
            if error.peer in ("", "the server"):
                error.peer = f"the server at {self._where}"

            raise

        self._begun |= any(isinstance(event, Negotiated) for event in events)
        self._flush()

        return events

    def submit(self, facts: ClientFacts) -> None:
        """Submit this client's facts, after ``Joined``; the event ``Negotiated`` follows.

        Raises:
            StartupError: the server closed the connection.
        """
        with self._writing:
            self._machine.submit(facts)

        self._flush()

    def submit_nothing(self) -> None:
        """Submit that no proc here has used MPI, after ``Joined``; the event ``Unused`` follows.

        Raises:
            StartupError: the server closed the connection.
        """
        with self._writing:
            self._machine.submit_nothing()

        self._flush()

    def beat(self) -> None:
        """Send the server a heartbeat unless it is gone; you may call this in any thread."""
        with suppress(OSError), self._writing:
            if self._sock is not None:
                self._machine.beat()
                send_whole(self._sock, self._machine.data_to_send(), _SEND_S)

    def check_silence(self) -> float:
        """Raise ServerLost if the server was silent for too long; return the seconds until then."""
        # A server of IMPI 0.0 knows no heartbeat, and may be silent as long as the job runs.
        if not self._machine.beats:
            return float("inf")

        if is_silent(self.fileno(), self._heard, self._silence_s):
            raise ServerLost(f"the server at {self._where} {silence(self._silence_s)}")

        return silent_in_s(self._heard, self._silence_s)

    def lost(self) -> ImpiError | None:
        """Return why the job is over, or None while it goes on. Never waits."""
        if self._lost is None and self._sock is not None:
            try:
                self.losses += [
                    event for event in self.on_readable() if isinstance(event, Lost)
                ]
            except ImpiError as error:
                self._lost = error

        return self._lost

    def finish(self) -> None:
        """Send FINI and close: all processes of this client have exited with 0 (IMPI 2.3.7).

        Raises:
            JobError: the server is gone.
        """

        sock = self._socket
        # A FAIL of the server may wait in the socket: then the job has
        # failed, though all is well here.
        if (lost := self.lost()) is not None:
            raise lost

        closes = self._machine.beats
        with self._writing:
            self._machine.finish()

        try:
            self._send_all()

            # lost() has emptied the receive buffer, so no reset overtakes FINI.
            sock.shutdown(socket.SHUT_WR)
            if closes:
                self._read_on(sock)
        except OSError as error:
            raise JobError(
                f"the server at {self._where} was gone before FINI ({error.strerror or error})",
                clause="2.3.7",
            ) from None
        finally:
            self.close()

    def _read_on(self, sock: socket.socket) -> None:
        """Read until the server closes: its heartbeat to a closed socket would cause a reset."""
        until = time.monotonic() + (self._silence_s or _ANSWER_S)
        while select.select([sock], [], [], max(0.0, until - time.monotonic()))[
            0
        ] and sock.recv(_CHUNK):
            pass

    def lose(self, ranks: Sequence[int], reason: str) -> None:
        """Tell the server that these ranks (of MPI_COMM_WORLD) of this client are lost."""
        with self._writing:
            self._machine.lose(ranks, reason)

        self._flush()

    def leave(self, reason: str) -> None:
        """Tell the server that this whole client is lost, and close; the job goes on without it."""
        if self._sock is None:
            return

        with suppress(OSError, ImpiError):  # it is gone, or sees our end
            with self._writing:
                self._machine.lose((), reason)

            self._send_all()
            self._sock.shutdown(socket.SHUT_WR)
            self._read_on(self._sock)

        self.close()

    def fail(self, reason: str, code: int = 1) -> str:
        """Tell the server why this client ends the job, wait for its sentence, and close.

        Args:
            reason: the sentence, which the server completes with this client's number.
            code: exit code of the job.

        Returns:
            The sentence that all clients get; ``reason`` if the server sends none.
        """

        if self._sock is None:
            return reason

        try:
            # The server has said already why the job is over, and its sentence is the one to print.
            if self._lost is not None:
                raise self._lost

            with self._writing:
                self._machine.fail(reason, code)

            self._send_all()
            self._sock.shutdown(socket.SHUT_WR)

            # The server adds the number of this client to our sentence and sends it to
            # all clients, this one included.
            until = time.monotonic() + _WORDS_S
            while select.select(
                [self._sock], [], [], max(0.0, until - time.monotonic())
            )[0]:
                self.on_readable()
        except JobEnded as ended:
            reason = str(ended)
        except (OSError, ImpiError):
            # The server is gone, or of another implementation; the job ends in any case
            pass

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
            raise LocalProtocolError(
                "the connection to the server is not open: start() or join() first",
                clause="2.3",
            )

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
    """Report an error inside this ``with`` to the server, although there is no connection yet.

    Otherwise the server and the other clients would wait for this client without an end.
    """
    try:
        yield
    except ImpiError as error:
        with suppress(ImpiError):
            rendezvous.start(_INTRODUCED_S)
            rendezvous.fail(
                str(error),
                ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED,
            )

        raise
