"""The client's side of start-up without sockets: from AUTH to the job, and FINI at its end.

How it works: the phases are AUTH, PROOF (by method CHALLENGE only, :mod:`.challenge`), IMPI,
JOINED, COLL, DONE, SEAL (likewise), RUNNING and FINISHED, one after another. AUTH and IMPI
introduce the client; :class:`Joined` reports that all clients are there.
:meth:`ClientMachine.submit` then queues the labels (:mod:`.client_labels`); those of our own go
with DONE, and the server's DONE turns the broadcasts into the :class:`~impi.protocol.job.Job` that
:class:`Negotiated` carries. :meth:`ClientMachine.submit_nothing` sends DONE alone: the program of
this client has ended without MPI. Where all clients do so, :class:`Unused` takes the place of a
job.

FAIL is the server's word why the job fails, in any phase. :mod:`impi.launch.client.rendezvous`
drives it with a socket, :mod:`impi.tools.simulate` without one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from impi.base.errors import (
    ImpiError,
    JobEnded,
    JobError,
    LocalProtocolError,
    ServerLost,
    StartupError,
    Truncated,
    UsageError,
)
from impi.base.records import record, replaced
from impi.protocol.job import (
    LAZY_VERSION,
    LONG8_VERSION,
    RESILIENT_VERSION,
    STRICT_VERSION,
    TUNED_VERSION,
    Job,
)
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE
from impi.protocol.startup.auth import PROVING, Credentials, Method, encode_mask
from impi.protocol.startup.challenge import (
    CLIENT,
    PROOF_PAYLOAD,
    SealedChannel,
    Trust,
    job_key,
)
from impi.protocol.startup.client_labels import Labels, server_fault
from impi.protocol.startup.facts import MAX_CLIENTS, ClientFacts
from impi.protocol.startup.origins import decode_came
from impi.protocol.wire import (
    MAX_PAYLOAD,
    Command,
    OwnCommand,
    OwnLabel,
    decode_loss,
    decode_reason,
    encode_command,
    encode_loss,
    encode_reason,
)

if TYPE_CHECKING:
    from impi.protocol.options import ClientOptions

ALL_VERSIONS: Final = (STRICT_VERSION, LONG8_VERSION, TUNED_VERSION)
"""Versions offered unless the user asked for 0.0."""
RESILIENT_VERSIONS: Final = (*ALL_VERSIONS, RESILIENT_VERSION)
"""Versions offered with ``--resilient``."""
LAZY_VERSIONS: Final = (*ALL_VERSIONS, LAZY_VERSION)
"""Versions offered with ``--lazy``."""
STRICT_VERSIONS: Final = (STRICT_VERSION,)


def versions_to_offer(options: ClientOptions) -> tuple[tuple[int, int], ...]:
    """Return the versions of a client with these options; the highest that all have is in force."""
    if options.reach.impi_version:
        return STRICT_VERSIONS

    if options.common.resilient:
        return RESILIENT_VERSIONS

    # Never both: a resilient job sees a loss by the end of a channel, so it needs them all.
    return LAZY_VERSIONS if options.reach.lazy else ALL_VERSIONS


_AUTH_LIMIT: Final = 1024
# The words of 2.3.3
_WRONG_KEY: Final = "Server disconnected (wrong authentication key?)"
_NO_METHOD: Final = (
    "This client offered {} (by its IMPI_AUTH_ variables and -auth); "
    "a server that takes none of it says so there."
)
_NO_KEY: Final = (
    " To a server that knows IMPI_AUTH_KEY in clear only, -auth 1 sends it."
)
_LOST: Final = "the server was lost, or ended the job: {}; its own messages say which"
_RIGHT_KEY: Final = "If the key is right, the server's own messages say why: client {} may exist already."


@record
class Joined:
    """All clients have joined: call :meth:`ClientMachine.submit` when the processes are known."""

    nclients: int


@record
class Negotiated:
    """Start-up is complete."""

    job: Job
    trust: Trust = Trust()
    """The proofs, or the addresses, by which the hosts of the job recognise each other."""


@record
class Unused:
    """No client has submitted facts, so there is no job; FINI ends it."""


@record
class Lost:
    """A client, or some procs of one without an MPI library, are lost; the job goes on."""

    client: int
    ranks: tuple[int, ...]
    """In MPI_COMM_WORLD; empty: all of the client."""
    reason: str


ClientEvent: TypeAlias = Joined | Negotiated | Unused | Lost


# Each state is named by what has been sent last, or is awaited.
class _ClientPhase(Enum):
    # 2.3.3: the offer is sent; the server's choice of a method comes next.
    AUTH = auto()
    # Nonce and proof are sent; the server's own proof comes next.
    PROOF = auto()
    # 2.3.4: the number of this client is sent; the number of clients comes once all are there.
    IMPI = auto()
    # All clients are there; the caller does not know its processes yet.
    JOINED = auto()
    # 2.3.5: a label is sent; its broadcast comes next.
    COLL = auto()
    # 2.3.6: DONE is sent. Before the server's DONE, broadcasts of labels of ours and CAME may come.
    DONE = auto()
    # The server's DONE has come; its seal comes next, without which nothing heard counts.
    SEAL = auto()
    # Start-up is over, and the hosts connect.
    RUNNING = auto()
    # 2.3.7: FINI is sent, which has no answer: the server may close now.
    FINISHED = auto()


class ClientMachine:
    """One client's conversation with the server. Write :meth:`data_to_send` first and after calls.

    Args:
        rank: the number of this client in the job.
        credentials: the methods by which it may authenticate, and its key.
        versions: the versions to offer, ascending, with 0.0 first.
        nonce: fresh octets for method CHALLENGE.

    Raises:
        UsageError: ``rank`` is out of range.
        LocalProtocolError: ``versions`` is no such list, or ``nonce`` is missing.
    """

    def __init__(
        self,
        rank: int,
        credentials: Credentials,
        versions: tuple[tuple[int, int], ...] = ALL_VERSIONS,
        nonce: bytes = b"",
    ) -> None:
        if not 0 <= rank < MAX_CLIENTS:
            raise UsageError(
                f"a client is numbered 0 to {MAX_CLIENTS - 1}, not {rank}",
                clause="2.2.2",
            )

        # 2.3.5: the lists come back joined together, and are told apart only by
        # the 0.0 that begins each.
        if versions[:1] != (STRICT_VERSION,) or list(versions) != sorted(set(versions)):
            raise LocalProtocolError(
                f"versions must ascend from 0.0: {versions}", clause="2.3.5"
            )

        if credentials.proving and len(nonce) != NONCE_SIZE:
            raise LocalProtocolError(
                f"a challenge needs a nonce of {NONCE_SIZE} octets"
            )

        self._rank = rank
        self._credentials = credentials
        self._nonce = nonce
        self._versions = versions
        self._phase = _ClientPhase.AUTH
        self._method = Method.NONE
        self._nclients = 0
        self._labels: Labels  # from Joined on
        self._trust = Trust()
        # 2.3.3: AUTH comes first, and its answer has no command header: a small limit until then.
        self._channel = SealedChannel(CLIENT, _AUTH_LIMIT)
        self._channel.send(
            encode_command(Command.AUTH, encode_mask(credentials.methods))
        )

    def submit(self, facts: ClientFacts) -> None:
        """Begin the exchange of labels; :class:`Negotiated` follows.

        Raises:
            LocalProtocolError: before :class:`Joined`, or for the second time.
        """

        # 2.3.4: the server answers IMPI once all clients are there. Labels follow that answer.
        if self._phase is not _ClientPhase.JOINED:
            raise LocalProtocolError(
                "facts are submitted once, after all clients have joined",
                clause="2.3.5",
            )

        self._labels.submit(self._versions, facts)
        self._phase = _ClientPhase.COLL
        self._send_labels()

    def submit_nothing(self) -> None:
        """Contribute no label: no process here has initialised MPI; :class:`Unused` follows.

        Raises:
            LocalProtocolError: see :meth:`submit`.
        """
        if self._phase is not _ClientPhase.JOINED:
            raise LocalProtocolError(
                "nothing is submitted once, after all clients have joined",
                clause="2.3.5",
            )

        # DONE without a label. The server need not know what that means: it relays no label of this
        # client, and the others see the gap in client_mask.
        self._labels.withheld = True
        self._send_labels()

    def finish(self) -> None:
        """Send FINI: all processes of this client have exited successfully (IMPI 2.3.7).

        Raises:
            LocalProtocolError: before :class:`Negotiated` or :class:`Unused`, or a second time.
        """
        if self._phase is not _ClientPhase.RUNNING:
            raise LocalProtocolError(
                "FINI is sent once, after start-up", clause="2.3.7"
            )

        self._phase = _ClientPhase.FINISHED
        self._channel.send(encode_command(Command.FINI))

    def fail(self, reason: str, code: int = 1) -> None:
        """Tell the server, which tells all clients, why this client ends the job: one sentence.

        ``code``: the exit code of the job.
        """
        # Before AUTH is answered the server might read a reason as a key (2.3.3).
        if self._phase not in (_ClientPhase.AUTH, _ClientPhase.FINISHED):
            self._channel.send(encode_reason(reason, code))

    def lose(self, ranks: Sequence[int], reason: str) -> None:
        """Tell the server, which tells all clients, that procs of this client are lost.

        ``ranks``: in MPI_COMM_WORLD; none: all of the client.
        """
        if self._phase is _ClientPhase.RUNNING:
            self._channel.send(encode_loss(self._rank, ranks, reason))

    @property
    def beats(self) -> bool:
        """Whether the server sends BEAT, and takes it."""
        return self._channel.sealing and self._phase not in (
            _ClientPhase.PROOF,
            _ClientPhase.FINISHED,
        )

    def beat(self) -> None:
        """Tell the server that this client runs; without effect unless it :attr:`beats`."""
        if self.beats:
            self._channel.beat()

    @property
    def encrypted(self) -> bool:
        """Whether the conversation has gone on in a TLS session."""
        return self._channel.encrypted

    @property
    def introduced(self) -> bool:
        """Whether writing :meth:`data_to_send` tells the server which client this is."""
        return self._phase is not _ClientPhase.AUTH and (
            self._method is not Method.TLS or (self.encrypted and self._channel.ready)
        )

    def data_to_send(self) -> bytes:
        return self._channel.data_to_send()

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Octets have come from the server.

        Raises:
            PeerError: the server broke the protocol.
            StartupError: the labels of the clients make no job.
            JobEnded: the server has ended the job, and says why.
        """

        self._channel.receive_data(data)

        events: list[ClientEvent] = []
        while (command := self._channel.next_command()) is not None:
            event = self._on_command(*command)
            if event is not None:
                events.append(event)

        return events

    def eof(self) -> ImpiError | None:
        """The connection ended: return the error to end with, or None if FINI was sent."""

        # No server ends in the middle of a command on purpose, whatever the phase.
        held = self._channel.reader.held
        if held and self._phase is not _ClientPhase.FINISHED:
            return Truncated(
                "closed the connection in the middle of a command",
                clause="2.3.2",
                peer="the server",
                octets=held,
            )

        # The text of IMPI has no word for a reason: a server of IMPI 0.0 just closes. So the phase
        # tells the most likely reason.
        match self._phase:
            case _ClientPhase.FINISHED:
                return None
            case _ if self.beats:
                return ServerLost("the server was lost")  # it says why before it closes
            case _ClientPhase.RUNNING:
                return JobError(
                    "the server was lost, or ended the job without a word; its own messages may say why",
                    clause="2.3.7",
                )
            case _ClientPhase.AUTH:
                offered = " or ".join(
                    method.name for method in self._credentials.methods
                )
                hidden = (
                    self._credentials.proving
                    and Method.KEY not in self._credentials.methods
                )
                why = f"{_WRONG_KEY}\n{_NO_METHOD.format(offered)}{_NO_KEY if hidden else ''}"
            case _ClientPhase.PROOF | _ClientPhase.IMPI if (
                self._phase is _ClientPhase.PROOF or self._method is Method.KEY
            ):
                # A right key has no answer (2.3.3), so this end may follow a right or a wrong one.
                why = f"{_WRONG_KEY}\n{_RIGHT_KEY.format(self._rank)}"
            case _ClientPhase.IMPI:
                why = _LOST.format(
                    f"client {self._rank} exists already or is out of range, or another client was lost"
                )
            case _:
                why = _LOST.format("another client was lost")

        return StartupError(why, clause="" if why.startswith(_WRONG_KEY) else "2.3")

    def _on_command(self, cmd: int, payload: bytes) -> ClientEvent | None:
        if self._phase in (_ClientPhase.AUTH, _ClientPhase.PROOF):
            # {which, len} has the shape of a command. FAIL is not taken here: a server that has
            # proved nothing must not end the job with a sentence of its choice.
            (self._on_method if self._phase is _ClientPhase.AUTH else self._on_proof)(
                cmd, payload
            )
            return None

        if cmd == OwnCommand.FAIL:
            raise JobEnded(*decode_reason(payload))

        match cmd:
            case Command.IMPI if self._phase is _ClientPhase.IMPI:
                return self._on_size(payload)
            # Also in DONE: labels of ours are sent with DONE and come back after it.
            case Command.COLL if self._phase in (
                _ClientPhase.JOINED,
                _ClientPhase.COLL,
                _ClientPhase.DONE,
            ):
                if self._labels.hears(payload):
                    self._send_labels()
            case Command.DONE if self._phase is _ClientPhase.DONE:
                self._labels.check_relayed()
                if not self._channel.sealing:
                    return self._started()

                self._phase = _ClientPhase.SEAL
            case OwnCommand.CAME if self._phase is _ClientPhase.DONE:
                self._trust = replaced(
                    self._trust, came=decode_came(payload, self._nclients)
                )
            case OwnCommand.SEAL if self._phase is _ClientPhase.SEAL:
                self._channel.check_seal(payload)
                return self._started()
            case (
                Command.AUTH | Command.IMPI | Command.COLL | Command.DONE | Command.FINI
            ):
                raise server_fault(
                    f"sent {Command(cmd).name} in the wrong place", "2.3.2", payload
                )
            case OwnCommand.LOSS if self._phase is _ClientPhase.RUNNING:
                return Lost(*decode_loss(payload))

        return None  # 2.3.5: commands that are not understood are ignored

    def _on_method(self, which: int, data: bytes) -> None:
        # Taking another method would let the server talk this client out of the
        # proof that its user wants.
        if which not in self._credentials.methods:
            raise server_fault(
                f"chose authentication method {which}, which was not offered", "2.3.3"
            )

        self._method = Method(which)

        self._phase = _ClientPhase.IMPI
        if self._method is Method.KEY:
            self._channel.send(self._credentials.key.to_bytes(8, "big"))
        elif self._method in PROVING:
            if len(data) != NONCE_SIZE:
                raise server_fault("sent a malformed challenge", "2.3.3", data)

            # The client proves itself first: a stranger at the server's port then gets no
            # proof to try guesses on.
            self._channel.prove(self._credentials.secret, data, self._nonce)
            self._channel.send(self._nonce + self._channel.proof())
            self._phase = _ClientPhase.PROOF

        # A right key has no answer (2.3.3), so nothing is awaited before IMPI: one round trip less.
        # By method TLS the rank waits until the session hides it.
        if self._method is not Method.TLS:
            self._say_rank()

        # A broadcast has the data of all clients, each as much as one command holds.
        if self._phase is _ClientPhase.IMPI:
            self._channel.reader.limit = MAX_CLIENTS * MAX_PAYLOAD

    def _say_rank(self) -> None:
        self._channel.send(encode_command(Command.IMPI, self._rank.to_bytes(4, "big")))

    def _on_proof(self, cmd: int, payload: bytes) -> None:
        proof, number = payload[:PROOF_SIZE], payload[PROOF_SIZE:]

        # The client has proved itself first, but its nonce makes the server's proof a fresh one: a
        # server that only repeats an old conversation fails here.
        right = cmd == OwnCommand.PROV and len(payload) == PROOF_PAYLOAD
        if not right or not self._channel.is_proved(proof, number):
            raise server_fault(
                "has not proved that it knows the secret: it is not the server of this job",
                "2.3.3",
            )

        self._trust = Trust(key=job_key(self._credentials.secret, number))
        self._phase = _ClientPhase.IMPI

        self._channel.reader.limit = MAX_CLIENTS * MAX_PAYLOAD
        if self._method is Method.TLS:
            self._channel.encrypt()
            self._say_rank()

    def _started(self) -> ClientEvent:
        self._phase = _ClientPhase.RUNNING
        # No label at all was relayed, so every client withheld its own. One that submitted some
        # would have been reported (`_WAIT_FOR_US`).
        if not self._labels.values:
            return Unused()

        return Negotiated(
            self._labels.agreed_job(), self._labels.agreed_trust(self._trust)
        )

    def _on_size(self, payload: bytes) -> Joined:
        # 2.3.4: the answer to IMPI is the number of clients, which must include this one.
        self._nclients = (
            int.from_bytes(payload, "big", signed=True) if len(payload) == 4 else -1
        )
        if not self._rank < self._nclients <= MAX_CLIENTS:
            raise server_fault(
                f"sent a number of clients to which client {self._rank} cannot belong",
                "2.3.4",
                payload,
            )

        self._labels = Labels(self._rank, self._nclients, self._method)
        self._phase = _ClientPhase.JOINED

        return Joined(self._nclients)

    def _send_labels(self) -> None:
        """Send the labels that are due, and DONE behind the last ones."""
        # One label of the specification a round trip, because existing servers expect that; ours
        # go together, with DONE, as a server may drop unknown labels.
        due = self._labels.due()
        for label, data in due:
            self._channel.send(
                encode_command(Command.COLL, struct.pack(">i", label) + data)
            )

        # Nothing that has to be awaited is left, so DONE may follow at once.
        if not due or isinstance(due[0][0], OwnLabel):
            self._phase = _ClientPhase.DONE

            self._channel.send(encode_command(Command.DONE))
            if self._channel.sealing:
                self._channel.send_seal()
