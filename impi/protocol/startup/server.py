"""The server's side of start-up (chapter 2) for a whole job, without sockets.

The server is as ignorant as possible (IMPI 2.3.1): it authenticates clients, counts them in,
concatenates their data, and waits for their ends. A connection is a number chosen by the
caller, and goes through the phases AUTH, KEY (if chosen), IMPI, COLL, SEAL (after a challenge,
:mod:`.challenge`), DONE, RUNNING. ``_HANDLERS`` is the whole protocol: it maps a phase and a
command to a method.

Octets flow from :meth:`ServerMachine.receive_data` through the connection's channel
(:class:`~.challenge.SealedChannel`) to a handler. The handler yields events and sends answers by
the channels; a :class:`~.collect.Collector` says when a label is complete and may be broadcast to
all clients.

Invariant: a connection that has not joined is a *stranger*, and its faults cost it the connection,
never the job. After its accepted IMPI command it *is* a client, and its loss ends the job. All
clients are told the reason (FAIL) before the connections close. If all clients offer
``RESILIENT_VERSION``, a loss while the job runs only goes to the others (LOSS), which go on. So
this server is the one place that decides who is lost, and all hear of losses in one order.
:mod:`impi.launch.server.loop` drives the machine with sockets, :mod:`impi.tools.simulate` without.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, TypeAlias

from impi.base.errors import LocalProtocolError, PeerError, UsageError
from impi.base.records import record
from impi.protocol.proofs import NONCE_SIZE, compare_digest
from impi.protocol.startup.agree import all_resilient
from impi.protocol.startup.auth import (
    PROVING,
    Credentials,
    Method,
    choose_method,
    decode_mask,
)
from impi.protocol.startup.challenge import GREETING_SIZE, SERVER, SealedChannel
from impi.protocol.startup.collect import Collector
from impi.protocol.startup.facts import MAX_CLIENTS
from impi.protocol.startup.names import LONGEST, Desk, Names, NameTold
from impi.protocol.startup.origins import encode_came, offers_ours
from impi.protocol.wire import (
    MAX_PAYLOAD,
    Command,
    Label,
    OwnCommand,
    decode_loss,
    decode_reason,
    encode_command,
    encode_loss,
    encode_reason,
)

# Octets of payload before a client has joined: AUTH may grow (2.3.3), here to 8192 methods. More
# would let anybody who can connect fill the server's memory.
_STRANGER_LIMIT: Final = 1024

# Octets of broadcasts that a client may leave unread: two of the longest possible.
_MAX_UNREAD: Final = 1 << 28

_KEY_SIZE: Final = 8

_NOBODY: Final = -1  # The client number of a stranger


@record
class AuthenticatedByNone:
    """A connection is let in without authentication: warn the user (IMPI 2.3.3)."""

    conn: int
    peer: str


@record
class ClientJoined:
    """A connection has become a client."""

    conn: int
    client: int
    peer: str


@record
class ConnectionRefused:
    """Close this connection and tell the user why; the job goes on, without the connection."""

    conn: int
    reason: str
    kind: str
    """The reason without particulars: equal for equal faults, so that they can be counted."""
    last: bytes = b""
    """Octets to write first, if the socket takes them."""
    guessed: bool = False
    """Whether it has ended without the key or secret that was asked for."""


@record
class JobStarted:
    """Every client has its DONE: start-up is complete (IMPI 2.3.6)."""


@record
class ClientFinished:
    """A client has sent FINI: close its connection (IMPI 2.3.7), already forgotten here."""

    conn: int
    client: int


@record
class ClientLost:
    """A resilient job goes on without a client, or without some procs of one: tell the user."""

    client: int
    reason: str
    conn: int | None
    """The connection to be closed, already forgotten here; None: only procs are lost."""


@record
class JobOver:
    """Every client has sent FINI: the server ends in success (IMPI 2.3.7)."""


@record
class JobFailed:
    """The job cannot go on: tell the user, close all connections, and pass in no more octets."""

    client: int
    reason: str
    """One sentence that names the client and the clause."""
    code: int = 1
    """The exit code of the job."""


ServerEvent: TypeAlias = (
    AuthenticatedByNone
    | ClientJoined
    | ConnectionRefused
    | JobStarted
    | ClientFinished
    | ClientLost
    | NameTold
    | JobOver
    | JobFailed
)


# Each state is named by what the server waits for on this connection.
class _ServerPhase(Enum):
    # 2.3.3: the methods that the client offers. A process that asks for names begins otherwise.
    AUTH = auto()
    # A question of such a process (:mod:`.names`), which never becomes a client.
    NAME = auto()
    # The key, or the client's nonce and proof; neither has a command header.
    KEY = auto()
    # 2.3.4: the number of the client. Until it comes, the connection is a stranger.
    IMPI = auto()
    # 2.3.5: labels, and DONE behind the last one.
    COLL = auto()
    # After a challenge only: the proof over all that the client has sent.
    SEAL = auto()
    # 2.3.6: nothing of this client, but the labels and DONE of the others.
    DONE = auto()
    # 2.3.7: FINI.
    RUNNING = auto()


class _Connection:
    """The state of one connection."""

    __slots__ = (
        *(
            "address",
            "channel",
            "client",
            "desk",
            "is_ours",
            "method",
            "nonce",
            "number",
            "peer",
            "phase",
        ),
    )

    def __init__(self, number: int, peer: str, address: str) -> None:
        self.number = number
        self.peer = peer
        self.address = address
        # Whether it has offered a version of ours, so that it knows CAME
        self.is_ours = False
        self.phase = _ServerPhase.AUTH
        self.client = _NOBODY
        self.channel = SealedChannel(SERVER, _STRANGER_LIMIT)
        self.method = Method.NONE
        self.nonce = b""
        self.desk: Desk | None = None

    @property
    def name(self) -> str:
        return (
            self.peer
            if self.client == _NOBODY
            else f"client {self.client} ({self.peer})"
        )

    def describe_eof(self) -> PeerError:
        """Return the error of a connection that has ended here."""
        reader = self.channel.reader
        # A stranger's octets may be part of a key, and are not shown.
        held = b"" if self.client == _NOBODY else reader.held
        inside = ", in the middle of a command," if len(reader) else ""
        without, clause = (
            ("without FINI ", "2.3.7")
            if self.phase is _ServerPhase.RUNNING
            else ("", "2.3")
        )
        return PeerError(
            f"its connection ended{inside} {without}{_WHEN[self.phase]}",
            clause=clause,
            octets=held,
        )


class ServerMachine:
    """The server of one job.

    The caller reports accepted connections by :meth:`connected`, feeds :meth:`receive_data` and
    :meth:`eof`, and handles the returned events *in order*. Then it writes :meth:`data_to_send` of
    *every* connection, because one client's command may cause a broadcast to all.

    Args:
        nclients: number of clients of the job.
        credentials: the methods by which they may authenticate, and key and secret.
        fresh: returns a number of unpredictable octets; for method CHALLENGE.
        resilient: whether a client without ``--resilient`` ends the job at its start.
        names_key: the secret of processes that publish names.

    Raises:
        UsageError: ``nclients`` is not 1 to 32.
        LocalProtocolError: ``fresh`` is missing.
    """

    def __init__(
        self,
        nclients: int,
        credentials: Credentials,
        fresh: Callable[[int], bytes] | None = None,
        *,
        resilient: bool = False,
        names_key: bytes = b"",
    ) -> None:
        if not 1 <= nclients <= MAX_CLIENTS:
            raise UsageError(
                f"a job has 1 to {MAX_CLIENTS} clients, not {nclients}", clause="2.3.5"
            )
        # This module makes no random octets itself, so that tests and the
        # simulator can repeat a run.
        if fresh is None and credentials.proving:
            raise LocalProtocolError("a challenge needs octets that cannot be guessed")
        self._nclients = nclients
        self._credentials = credentials
        # No method that proves a secret: nonces are not looked at
        self._fresh = fresh or bytes
        self._job_number = self._fresh(NONCE_SIZE)
        self._connections: dict[int, _Connection] = {}
        self._clients: dict[int, _Connection] = {}
        self._unfinished = set(range(nclients))
        self._collector = Collector(nclients)
        self._names = Names(names_key)
        self._ended = False
        self._must_survive = resilient
        self._without: set[int] = set()  # The clients that the job goes on without
        # Whether all clients want the job to survive the loss of one
        self._resilient = False

    def connected(self, conn: int, peer: str, address: str = "") -> None:
        """A connection was accepted.

        Args:
            conn: its number.
            peer: its other end in the user's words.
            address: the numeric address that it comes from; empty: not known.
        """
        self._connections[conn] = _Connection(conn, peer, address)

    def receive_data(self, conn: int, data: bytes) -> list[ServerEvent]:
        """Octets have come on ``conn``; those of a forgotten connection are ignored."""
        connection = self._connections.get(conn)
        if connection is None or self._ended:
            return []
        events: list[ServerEvent] = []
        try:
            connection.channel.receive_data(data)
            # A command may end the job, or make a later one of the same read obsolete: look anew
            # before each step.
            while not self._ended and conn in self._connections:
                step = self._step(connection)
                if step is None:
                    break
                events += step
        except PeerError as error:
            events += self._lose(connection, str(error), error.message)
        return events

    def eof(self, conn: int) -> list[ServerEvent]:
        """The peer of ``conn`` has closed it, or it broke."""
        connection = self._connections.get(conn)
        if connection is None or self._ended:
            return []
        error = connection.describe_eof()
        return self._lose(connection, str(error), error.message)

    def fail(self, reason: str, code: int = 1, client: int = _NOBODY) -> JobFailed:
        """End the job; all clients are told.

        Args:
            reason: one sentence.
            code: the exit code of the job.
            client: the client that gives the reason; default: the server itself.
        """
        # Clients are told one reason only: later faults are mostly consequences of the first.
        if not self._ended:
            self._ended = True
            self._broadcast(encode_reason(reason, code))
        return JobFailed(client, reason, code)

    def data_to_send(self, conn: int) -> bytes:
        """Take out the octets to be written on ``conn``."""
        connection = self._connections.get(conn)
        return b"" if connection is None else connection.channel.data_to_send()

    def is_stranger(self, conn: int) -> bool:
        """Whether ``conn`` is known and has not joined: dropping it does not harm the job."""
        connection = self._connections.get(conn)
        return connection is not None and connection.client == _NOBODY

    def beat(self) -> None:
        """Tell the clients that this server runs: those that tell it the same, :meth:`beats`."""
        for connection in self._connections.values():
            # Behind octets that wait a BEAT would prove nothing sooner, and would pile up for a
            # client that does not read.
            if self.beats(connection.number) and not connection.channel.out:
                connection.channel.beat()

    def beats(self, conn: int) -> bool:
        """Whether ``conn`` is a client that sends BEAT."""
        connection = self._connections.get(conn)
        return (
            connection is not None
            and connection.client != _NOBODY
            and connection.channel.sealing
        )

    def lose(self, conn: int, reason: str) -> list[ServerEvent]:
        """Give up ``conn`` for a reason that its octets do not show: a client, and so the job."""
        connection = self._connections.get(conn)
        if connection is None or self._ended:
            return []
        return self._lose(connection, f"{reason}, {_WHEN[connection.phase]}")

    @property
    def survives(self) -> bool:
        """Whether the job goes on without a client that is lost from now on."""
        return self._resilient and any(
            one.phase is _ServerPhase.RUNNING for one in self._clients.values()
        )

    def missing(self) -> list[int]:
        return [
            c
            for c in range(self._nclients)
            if c not in self._clients and c not in self._without
        ]

    # One turn: at most one command (or key) of one connection.

    def _step(self, connection: _Connection) -> list[ServerEvent] | None:
        """Handle the next item of ``connection``; None if it is not there yet."""
        # 2.3.3: a key has no command header, so the phase says how to read on.
        if connection.phase is _ServerPhase.KEY:
            octets = connection.channel.take(
                _KEY_SIZE if connection.method is Method.KEY else GREETING_SIZE
            )
            return None if octets is None else list(self._on_key(connection, octets))
        command = connection.channel.next_command()
        if command is None:
            return None
        cmd, payload = command
        # Three fates: carried out here, known but in the wrong place, or unknown and skipped.
        # Before AUTH nothing is skipped: another first command means another protocol.
        handler = _HANDLERS.get((connection.phase, cmd))
        if handler is not None:
            return list(handler(self, connection, payload))
        if connection.phase is _ServerPhase.AUTH:
            head = cmd.to_bytes(4, "big", signed=True)
            raise PeerError("did not begin with AUTH", clause="2.3.3", octets=head)
        if cmd in _KNOWN:
            raise PeerError(
                f"sent {Command(cmd).name} {_WHEN[connection.phase]}", clause="2.3"
            )
        return []  # 2.3.2: a command that is not understood is discarded.

    def _on_auth(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        offered = decode_mask(payload)
        if offered is None:
            raise PeerError(
                "sent an AUTH mask that is not of 32-bit words",
                clause="2.3.3",
                octets=payload,
            )
        method = choose_method(self._credentials.methods, offered)
        if method is None:
            # 2.3.3: the client sees no more than a closed connection, so the server's
            # sentence has both lists.
            ours = ", ".join(f"{m.name} ({m})" for m in self._credentials.methods)
            theirs = ", ".join(str(m) for m in sorted(offered)) or "none"
            raise PeerError(
                f"no common authentication method: it offers {theirs}, this server accepts {ours}",
                clause="2.3.3",
            )
        # The answer of 2.3.3, number and length, has the shape of a command. A proof needs a nonce
        # that no earlier conversation had.
        connection.method = method
        if method in PROVING:
            connection.nonce = self._fresh(NONCE_SIZE)
        connection.channel.send(encode_command(method, connection.nonce))
        connection.phase = (
            _ServerPhase.IMPI if method is Method.NONE else _ServerPhase.KEY
        )
        yield from ()  # all handlers are generators, also those without an event

    def _on_name(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        # A question may be longer than what strangers may send otherwise: it has
        # the name of a port in it.
        connection.phase, connection.channel.reader.limit = _ServerPhase.NAME, LONGEST
        connection.desk = connection.desk or Desk(self._names, self._fresh(NONCE_SIZE))
        answer, over = connection.desk.hears(payload)
        connection.channel.send(answer)
        if over:
            del self._connections[connection.number]
            yield NameTold(connection.number, connection.channel.data_to_send())

    def _on_key(self, connection: _Connection, octets: bytes) -> Iterator[ServerEvent]:
        """Handle a key, or the client's nonce and proof; see :mod:`.challenge`."""
        channel, job = connection.channel, self._job_number
        if connection.method is not Method.KEY:
            channel.prove(
                self._credentials.secret, octets[:NONCE_SIZE], connection.nonce
            )
            if not channel.is_proved(octets[NONCE_SIZE:]):
                raise PeerError(
                    "has not proved that it knows the secret", clause="2.3.3"
                )
            channel.send(encode_command(OwnCommand.PROV, channel.proof(job) + job))
        # In constant time: who can connect often must not learn the key octet by octet.
        elif not compare_digest(
            octets, self._credentials.key.to_bytes(_KEY_SIZE, "big")
        ):
            raise PeerError("sent a wrong authentication key", clause="2.3.3")
        connection.phase = _ServerPhase.IMPI
        # Behind PROV, which is the last command in clear
        if connection.method is Method.TLS:
            channel.encrypt()
        yield from ()

    def _on_impi(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        if len(payload) != 4:
            raise PeerError(
                "sent an IMPI command that is not one rank",
                clause="2.3.4",
                octets=payload,
            )
        # 2.3.4: the user gives the number, so each fault names the right numbers.
        client = int.from_bytes(payload, "big", signed=True)
        last = self._nclients - 1
        missing = self.missing()
        # Three slips of a user, maybe on another machine. The reason goes to that client, too
        # (:meth:`_lose`), and the others go on waiting.
        if not missing:
            raise PeerError(
                f"is one client too many: all {self._nclients} have joined",
                clause="2.3.4",
            )
        if not 0 <= client <= last:
            raise PeerError(
                f"wants to be client {client}, but this job has clients 0 to {last}",
                clause="2.3.4",
            )
        if client in self._clients:
            other = self._clients[client].peer
            free = ", ".join(map(str, missing))
            raise PeerError(
                f"wants to be client {client}, which {other} is already; still free: {free}",
                clause="2.3.4",
            )
        # The stranger becomes a client: from here on its loss is the loss of the job.
        connection.client = client
        connection.phase = _ServerPhase.COLL
        # From here on it is authenticated
        connection.channel.reader.limit = MAX_PAYLOAD
        self._clients[client] = connection
        if connection.method is Method.NONE:
            yield AuthenticatedByNone(connection.number, connection.peer)
        yield ClientJoined(connection.number, client, connection.peer)
        if not self.missing():
            self._broadcast(
                encode_command(Command.IMPI, self._nclients.to_bytes(4, "big"))
            )
            yield from self._relay()

    def _on_coll(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        if len(payload) < 4:
            raise PeerError(
                "sent a COLL command without a label", clause="2.3.5", octets=payload
            )
        # 2.3.1: the server knows no label. C_VERSION is the exception for commands of our own: a
        # client that offers no version of ours must not get them.
        label = int.from_bytes(payload[:4], "big", signed=True)
        if label == Label.C_VERSION:
            connection.is_ours = offers_ours(payload[4:])
        self._collector.add(connection.client, label, payload[4:])
        yield from self._relay()

    def _on_done(self, connection: _Connection, seal: bytes) -> Iterator[ServerEvent]:
        # DONE and SEAL both come here. With a seal DONE alone ends nothing: only the seal shows
        # that the labels before it are the client's.
        if connection.phase is _ServerPhase.COLL and connection.channel.sealing:
            connection.phase = _ServerPhase.SEAL
            return
        if connection.phase is _ServerPhase.SEAL:
            connection.channel.check_seal(seal)
        self._collector.finish(connection.client)
        connection.phase = _ServerPhase.DONE
        yield from self._relay()

    def _on_fail(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        reason, code = decode_reason(payload)
        yield self.fail(f"{connection.name}: {reason}", code, connection.client)

    def _on_loss(
        self, connection: _Connection, payload: bytes
    ) -> Iterator[ServerEvent]:
        if not self._resilient:
            raise PeerError("sent LOSS, but not all clients have --resilient")
        # The client number in it is not looked at: a client speaks for itself only, and the
        # connection says which one it is.
        _, ranks, reason = decode_loss(payload)
        if not ranks:
            yield from self._lose(connection, reason)
            return
        # The sender is told, too: this server decides the order of losses, and all
        # clients hear the same one.
        text = f"{connection.name}: {reason}"
        self._broadcast(encode_loss(connection.client, ranks, text))
        yield ClientLost(connection.client, text, None)

    def _on_fini(
        self, connection: _Connection, _payload: bytes
    ) -> Iterator[ServerEvent]:
        # 2.3.7: FINI has no answer. Only the last one ends the server in success. The client stays
        # in `_clients`: a later loss must know that somebody has finished.
        client = connection.client
        self._unfinished.discard(client)
        del self._connections[connection.number]
        yield ClientFinished(connection.number, client)
        if not self._unfinished:
            self._ended = True
            yield JobOver()

    def _relay(self) -> Iterator[ServerEvent]:
        """Broadcast the complete labels: none while a client that may still submit is missing."""
        for label, mask, data in self._collector.complete():
            # C_VERSION is the first label, so this is known before any client can be lost in a
            # running job.
            if label == Label.C_VERSION:
                self._resilient = all_resilient(data, self._nclients)
                if self._must_survive and not self._resilient:
                    yield self.fail(_NOT_RESILIENT)
                    return
            self._broadcast(
                encode_command(Command.COLL, _COLL_HEAD.pack(label, mask) + data)
            )
            for connection in self._clients.values():
                # A client that never reads would make the server keep every broadcast for it.
                if len(connection.channel.out) > _MAX_UNREAD:
                    yield from self._lose(
                        connection,
                        f"leaves over {_MAX_UNREAD} octets of broadcasts unread",
                    )
                    return
        if self._collector.finished:
            # Before DONE: a client turns to the dance with DONE, and needs the addresses there.
            came = encode_came(
                [self._clients[client].address for client in range(self._nclients)]
            )
            for connection in self._clients.values():
                connection.channel.send(
                    (came if connection.is_ours else b"") + encode_command(Command.DONE)
                )
                if connection.channel.sealing:
                    connection.channel.send_seal()
                connection.phase = _ServerPhase.RUNNING
            yield JobStarted()

    def _broadcast(self, octets: bytes) -> None:
        for connection in self._clients.values():
            connection.channel.send(octets)

    def _lose(
        self, connection: _Connection, reason: str, kind: str = ""
    ) -> list[ServerEvent]:
        """Forget a stranger, end the job, or go on without a client, which the others are told."""
        text = f"{connection.name}: {reason}"
        if connection.client == _NOBODY:
            del self._connections[connection.number]
            # The reason may name other clients, so it goes to an authenticated peer only.
            if connection.phase is _ServerPhase.IMPI:
                connection.channel.send(encode_reason(text))
            guessed = connection.phase in (_ServerPhase.KEY, _ServerPhase.NAME)
            last = connection.channel.data_to_send()
            return [
                ConnectionRefused(
                    connection.number, text, kind or reason, last, guessed
                )
            ]
        # Even a resilient job cannot lose a client before it runs: 2.3.4 has counted it, and
        # its labels are mandatory.
        if not self._resilient or connection.phase is not _ServerPhase.RUNNING:
            return [self.fail(text, client=connection.client)]
        # Forgotten before the broadcast, which goes to the others only.
        del self._connections[connection.number], self._clients[connection.client]
        self._unfinished.discard(connection.client)
        self._without.add(connection.client)
        lost = ClientLost(connection.client, text, connection.number)
        if self._unfinished:
            self._broadcast(encode_loss(connection.client, (), text))
            return [lost]
        self._ended = True
        # The clients that are left have all finished. If none is left, no client has.
        return [
            lost,
            JobOver() if self._clients else JobFailed(connection.client, text),
        ]


_Handler: TypeAlias = Callable[
    [ServerMachine, _Connection, bytes], Iterator[ServerEvent]
]

_NOT_RESILIENT: Final = (
    "the server was started with --resilient, and not all clients were: give it to all of them, none with "
    "--impi-version 0.0"
)
_COLL_HEAD: Final = struct.Struct(">iI")
_KNOWN: Final = frozenset(int(command) for command in Command)

_WHEN: Final = {
    _ServerPhase.AUTH: "before authentication",
    _ServerPhase.NAME: "before it had its answer",
    _ServerPhase.KEY: "before it sent its key",
    _ServerPhase.IMPI: "before it said which client it is",
    _ServerPhase.COLL: "before its start-up was complete",
    _ServerPhase.SEAL: "before it sealed its start-up",
    _ServerPhase.DONE: "before the start-up of all clients was complete",
    _ServerPhase.RUNNING: "while the job was running",
}

# The commands of each phase; a known one elsewhere is an error, an unknown one is skipped.
_HANDLERS: Final[dict[tuple[_ServerPhase, int], _Handler]] = {
    (_ServerPhase.AUTH, Command.AUTH): ServerMachine._on_auth,
    **{
        (phase, OwnCommand.NAME): ServerMachine._on_name
        for phase in (_ServerPhase.AUTH, _ServerPhase.NAME)
    },
    (_ServerPhase.IMPI, Command.IMPI): ServerMachine._on_impi,
    (_ServerPhase.COLL, Command.COLL): ServerMachine._on_coll,
    (_ServerPhase.COLL, Command.DONE): ServerMachine._on_done,
    (_ServerPhase.SEAL, OwnCommand.SEAL): ServerMachine._on_done,
    **{
        # From clients only: what a stranger says must not end the job.
        (phase, OwnCommand.FAIL): ServerMachine._on_fail
        for phase in (
            _ServerPhase.COLL,
            _ServerPhase.SEAL,
            _ServerPhase.DONE,
            _ServerPhase.RUNNING,
        )
    },
    # After DONE both are wrong, and the collector says how.
    (_ServerPhase.DONE, Command.COLL): ServerMachine._on_coll,
    (_ServerPhase.DONE, Command.DONE): ServerMachine._on_done,
    (_ServerPhase.RUNNING, Command.FINI): ServerMachine._on_fini,
    (_ServerPhase.RUNNING, OwnCommand.LOSS): ServerMachine._on_loss,
}
