"""The client's side of start-up without sockets: from AUTH to the job, and FINI at its end.

The phases are AUTH, PROOF (by method CHALLENGE only, :mod:`.challenge`), IMPI, JOINED, COLL, DONE,
SEAL (likewise), RUNNING and FINISHED, one after another. AUTH and IMPI introduce the client;
:class:`Joined` reports that all clients are there.
:meth:`ClientMachine.submit` then queues the labels in ascending order. Each label waits for its
broadcast before the next one goes out, as existing servers expect; those of our own go with DONE.
C_VERSION comes first because the version decides which labels of ours follow. The broadcasts
collect in ``_values``; DONE turns them into the :class:`~impi.job.Job` (:mod:`.agree`) that
:class:`Negotiated` carries. :meth:`ClientMachine.submit_nothing` sends DONE alone: the program of
this client has ended without MPI. Where all clients do so, :class:`Unused` takes the place of a
job.

Invariant: a broadcast with a known label must be the label at the head of the queue, and its
client_mask must name every client; labels of ours may name fewer. Unknown labels are ignored
(2.3.5). FAIL is the server's word why the job fails, in any phase. :mod:`impi.launch.rendezvous`
drives it with a socket, :mod:`impi.simulate` without one.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

from impi.decisions import Decisions
from impi.errors import (
    ImpiError,
    JobEnded,
    JobError,
    LocalProtocolError,
    PeerError,
    ServerLost,
    StartupError,
    Truncated,
    UsageError,
)
from impi.job import (
    ALTERNATIVES,
    LAZY_VERSION,
    LONG8_VERSION,
    RESILIENT_VERSION,
    STRICT_VERSION,
    TUNED_VERSION,
    Job,
)
from impi.proofs import NONCE_SIZE, PROOF_SIZE
from impi.records import record, replaced
from impi.startup.agree import agree_on_job, agree_on_version
from impi.startup.auth import PROVING, Credentials, Method, encode_mask
from impi.startup.challenge import BEAT, CLIENT, PROOF_PAYLOAD, UNSEALED, Conversation, Trust
from impi.startup.choices import (
    NEEDED,
    agree_on_decisions,
    agree_on_native,
    check_choice,
    check_version,
    encode_choices,
    encode_decisions,
    knows_tables,
)
from impi.startup.facts import MAX_CLIENTS, ClientFacts, encode_facts, encode_versions
from impi.wire import (
    MAX_PAYLOAD,
    Command,
    CommandReader,
    Label,
    OwnCommand,
    OwnLabel,
    decode_loss,
    decode_reason,
    encode_command,
    encode_loss,
    encode_reason,
)

if TYPE_CHECKING:
    from impi.options import ClientOptions
    from impi.startup.encrypted import Stream

ALL_VERSIONS: Final = (STRICT_VERSION, LONG8_VERSION, TUNED_VERSION)
"""Versions offered unless the user asked for 0.0."""
RESILIENT_VERSIONS: Final = (*ALL_VERSIONS, RESILIENT_VERSION)
"""Versions offered with ``--resilient``."""
LAZY_VERSIONS: Final = (*ALL_VERSIONS, LAZY_VERSION)
"""Versions offered with ``--lazy``."""
STRICT_VERSIONS: Final = (STRICT_VERSION,)


def versions_to_offer(options: ClientOptions) -> tuple[tuple[int, int], ...]:
    """Return the versions of a client with these options; the highest that all have is in force."""
    if options.impi_version:
        return STRICT_VERSIONS
    if options.resilient:
        return RESILIENT_VERSIONS
    return LAZY_VERSIONS if options.lazy else ALL_VERSIONS


_AUTH_LIMIT: Final = 1024
_KNOWN_LABELS: Final = frozenset(int(label) for label in Label)
_OWN_LABELS: Final = frozenset(int(label) for label in OwnLabel)
_OF_TUNED_VERSION: Final = (OwnLabel.C_TUNING, OwnLabel.C_NATIVE, OwnLabel.C_SOFTWARE, OwnLabel.C_PROVES)
_PROVES: Final = (1).to_bytes(4, "big")
_ENCRYPTS: Final = (3).to_bytes(4, "big")
_WRONG_KEY: Final = "Server disconnected (wrong authentication key?)"  # the words of 2.3.3
_NO_METHOD: Final = (
    "This client offered {} (by its IMPI_AUTH_ variables and -auth); a server that takes none of it says so there."
)
_LOST: Final = "the server was lost, or ended the job: {}; its own messages say which"
_WAIT_FOR_US: Final = "other clients wait for it"
_NO_MPI: Final = ", which means that the program there has ended without initialising MPI"
_RIGHT_KEY: Final = "If the key is right, the server's own messages say why: client {} may exist already."


@record
class Joined:
    """All clients have joined: call :meth:`ClientMachine.submit` when the processes are known."""

    nclients: int


@record
class Negotiated:
    """Start-up is complete."""

    job: Job
    trust: Trust | None = None
    """What hosts need to prove themselves; None: this client has no secret."""


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


class _Phase(Enum):
    AUTH = auto()
    PROOF = auto()
    IMPI = auto()
    JOINED = auto()
    COLL = auto()
    DONE = auto()
    SEAL = auto()
    RUNNING = auto()
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
            raise UsageError(f"a client is numbered 0 to {MAX_CLIENTS - 1}, not {rank}", clause="2.2.2")
        if versions[:1] != (STRICT_VERSION,) or list(versions) != sorted(set(versions)):
            raise LocalProtocolError(f"versions must ascend from 0.0: {versions}", clause="2.3.5")
        if credentials.proving and len(nonce) != NONCE_SIZE:
            raise LocalProtocolError(f"a challenge needs a nonce of {NONCE_SIZE} octets")
        self._rank = rank
        self._credentials = credentials
        self._nonce = nonce
        self._conversation: Conversation | None = None
        self._job_number = b""
        self._proving: tuple[int, ...] = ()
        self._encrypting: tuple[int, ...] = ()
        self._stream: Stream | None = None
        self._versions = versions
        self._phase = _Phase.AUTH
        self._method: Method | None = None
        self._reader = CommandReader(_AUTH_LIMIT)
        self._nclients = 0
        self._labels: deque[tuple[Label | OwnLabel, bytes]] = deque()
        self._facts: ClientFacts  # from submit() on, without which no label is taken
        self._values: dict[int, bytes] = {}
        self._version = STRICT_VERSION
        self._decisions: Decisions | None = None
        self._native = False
        self._software: dict[int, bytes] = {}
        self._auth = encode_command(Command.AUTH, encode_mask(credentials.methods))
        self._out = bytearray(self._auth)

    def submit(self, facts: ClientFacts) -> None:
        """Begin the exchange of labels; :class:`Negotiated` follows.

        Raises:
            LocalProtocolError: before :class:`Joined`, or for the second time.
        """
        if self._phase is not _Phase.JOINED:
            raise LocalProtocolError("facts are submitted once, after all clients have joined", clause="2.3.5")
        self._labels = deque(
            [(Label.C_VERSION, encode_versions(self._versions)), *encode_facts(facts), *encode_choices(facts)]
        )
        self._facts = facts
        for label, data in self._labels:
            if len(data) + 4 > MAX_PAYLOAD:
                raise UsageError(f"{label.name} takes {len(data)} octets: this client has too many processes")
        self._phase = _Phase.COLL
        self._send_label()

    def submit_nothing(self) -> None:
        """Contribute no label: no process here has initialised MPI; :class:`Unused` follows.

        Raises:
            LocalProtocolError: see :meth:`submit`.
        """
        if self._phase is not _Phase.JOINED:
            raise LocalProtocolError("nothing is submitted once, after all clients have joined", clause="2.3.5")
        self._send_label()

    def finish(self) -> None:
        """Send FINI: all processes of this client have exited successfully (IMPI 2.3.7).

        Raises:
            LocalProtocolError: before :class:`Negotiated` or :class:`Unused`, or a second time.
        """
        if self._phase is not _Phase.RUNNING:
            raise LocalProtocolError("FINI is sent once, after start-up", clause="2.3.7")
        self._phase = _Phase.FINISHED
        self._send(encode_command(Command.FINI))

    def fail(self, reason: str, code: int = 1) -> None:
        """Tell the server, and by it all clients, why this client ends the job: one sentence.

        ``code``: the exit code of the job.
        """
        if self._phase not in (_Phase.AUTH, _Phase.FINISHED):
            self._send(encode_reason(reason, code))

    def lose(self, ranks: Sequence[int], reason: str) -> None:
        """Tell the server, and by it all clients, that procs of this client are lost.

        ``ranks``: in MPI_COMM_WORLD; none: all of the client.
        """
        if self._phase is _Phase.RUNNING:
            self._send(encode_loss(self._rank, ranks, reason))

    @property
    def beats(self) -> bool:
        """Whether the server sends BEAT, and takes it."""
        return self._conversation is not None and self._phase not in (_Phase.PROOF, _Phase.FINISHED)

    def beat(self) -> None:
        """Tell the server that this client runs; without effect unless it :attr:`beats`."""
        if self.beats:
            self._put(BEAT)

    def _put(self, octets: bytes) -> None:
        """Send what is no part of the seal."""
        self._out += octets if self._stream is None else self._stream.send(octets)

    def _send(self, octets: bytes) -> None:
        self._put(octets)
        if self._conversation is not None:
            self._conversation.sends(octets)

    @property
    def encrypted(self) -> bool:
        """Whether the conversation has gone on in a TLS session."""
        return self._stream is not None

    @property
    def introduced(self) -> bool:
        """Whether writing :meth:`data_to_send` tells the server which client this is."""
        return self._phase is not _Phase.AUTH and (self._method is not Method.TLS or self._stream is not None)

    def data_to_send(self) -> bytes:
        """Take out the octets to be written."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Octets have come from the server.

        Raises:
            PeerError: the server broke the protocol.
            StartupError: what the clients contributed makes no job.
            JobEnded: the server has ended the job, and says why.
        """
        if self._stream is not None:
            data, answer = self._stream.receive(data)
            self._out += answer
        self._reader.receive_data(data)
        events: list[ClientEvent] = []
        while (command := self._next_command()) is not None:
            event = self._on_command(*command)
            if self._conversation is not None and command[0] not in UNSEALED:
                self._conversation.hears(encode_command(*command))
            if event is not None:
                events.append(event)
        if self._method is Method.TLS and self._stream is None and self._phase is _Phase.IMPI:
            self._encrypt()
        return events

    def _encrypt(self) -> None:
        """Go on in a TLS session: the server has proved that it knows the secret."""
        from impi.startup.encrypted import Stream

        if len(self._reader):
            raise self._fault("sent octets before its TLS session", "2.3.3")
        self._stream = Stream(accepts=False)
        self._say_rank()

    def _next_command(self) -> tuple[int, bytes] | None:
        try:
            return self._reader.next_command()
        except PeerError as error:
            raise self._fault(error.message, error.clause, error.octets) from None

    def eof(self) -> ImpiError | None:
        """The connection ended: return the error to end with, or None if FINI was sent."""
        if len(self._reader) and self._phase is not _Phase.FINISHED:
            return Truncated(
                "closed the connection in the middle of a command",
                clause="2.3.2",
                peer="the server",
                octets=self._reader.held,
            )
        match self._phase:
            case _Phase.FINISHED:
                return None
            case _ if self.beats:
                return ServerLost("the server was lost")  # it says why before it closes
            case _Phase.RUNNING:
                return JobError(
                    "the server was lost, or ended the job without a word; its own messages may say why",
                    clause="2.3.7",
                )
            case _Phase.AUTH:
                offered = " or ".join(method.name for method in self._credentials.methods)
                why = f"{_WRONG_KEY}\n{_NO_METHOD.format(offered)}"
            case _Phase.PROOF | _Phase.IMPI if self._phase is _Phase.PROOF or self._method is Method.KEY:
                # A right key has no answer (2.3.3), so this end may follow a right or a wrong one.
                why = f"{_WRONG_KEY}\n{_RIGHT_KEY.format(self._rank)}"
            case _Phase.IMPI:
                why = _LOST.format(f"client {self._rank} exists already or is out of range, or another client was lost")
            case _:
                why = _LOST.format("another client was lost")
        return StartupError(why, clause="" if why.startswith(_WRONG_KEY) else "2.3")

    def _on_command(self, cmd: int, payload: bytes) -> ClientEvent | None:
        if self._phase in (_Phase.AUTH, _Phase.PROOF):
            # {which, len} has the shape of a command; of another server not even a reason is taken.
            (self._on_method if self._phase is _Phase.AUTH else self._on_proof)(cmd, payload)
            return None
        if cmd == OwnCommand.FAIL:
            raise JobEnded(*decode_reason(payload))
        match cmd:
            case Command.IMPI if self._phase is _Phase.IMPI:
                return self._on_size(payload)
            case Command.COLL if self._phase in (_Phase.JOINED, _Phase.COLL, _Phase.DONE):
                self._on_broadcast(payload)
            case Command.DONE if self._phase is _Phase.DONE:
                self._check_relayed()
                self._phase = _Phase.RUNNING if self._conversation is None else _Phase.SEAL
                return self._started() if self._conversation is None else None
            case OwnCommand.SEAL if self._phase is _Phase.SEAL:
                return self._on_seal(payload)
            case Command.AUTH | Command.IMPI | Command.COLL | Command.DONE | Command.FINI:
                raise self._fault(f"sent {Command(cmd).name} in the wrong place", "2.3.2", payload)
            case OwnCommand.LOSS if self._phase is _Phase.RUNNING:
                return Lost(*decode_loss(payload))
        return None  # 2.3.5: commands that are not understood are ignored

    def _on_method(self, which: int, data: bytes) -> None:
        if which not in self._credentials.methods:
            raise self._fault(f"chose authentication method {which}, which was not offered", "2.3.3")
        self._method = Method(which)
        self._phase = _Phase.IMPI
        if self._method is Method.KEY:
            self._send(self._credentials.key.to_bytes(8, "big"))
        elif self._method in PROVING:
            if len(data) != NONCE_SIZE:
                raise self._fault("sent a challenge that is none", "2.3.3", data)
            talk = self._conversation = Conversation(self._credentials.secret, CLIENT, data, self._nonce)
            talk.sends(self._auth)
            self._send(self._nonce + talk.proof())
            self._phase = _Phase.PROOF
        if self._method is not Method.TLS:
            self._say_rank()
        if self._phase is _Phase.IMPI:
            self._reader.limit = MAX_CLIENTS * MAX_PAYLOAD

    def _say_rank(self) -> None:
        self._send(encode_command(Command.IMPI, self._rank.to_bytes(4, "big")))

    @property
    def _session(self) -> tuple[bytes, ...]:
        """The number of the TLS session, if there is one."""
        return () if self._stream is None else (self._stream.binding,)

    def _on_proof(self, cmd: int, payload: bytes) -> None:
        proof, self._job_number = payload[:PROOF_SIZE], payload[PROOF_SIZE:]
        right = cmd == OwnCommand.PROV and len(payload) == PROOF_PAYLOAD
        if not right or self._conversation is None or not self._conversation.is_proved(proof, self._job_number):
            raise self._fault("has not proved that it knows the secret: it is not the server of this job", "2.3.3")
        self._phase = _Phase.IMPI
        self._reader.limit = MAX_CLIENTS * MAX_PAYLOAD

    def _on_seal(self, payload: bytes) -> ClientEvent:
        if self._conversation is None or not self._conversation.is_sealed(payload, *self._session):
            raise self._fault("has sent other octets than have come: somebody between has changed them", "2.3.3")
        self._phase = _Phase.RUNNING
        return self._started()

    def _started(self) -> ClientEvent:
        if not self._values:
            return Unused()
        trust = None
        if self._conversation is not None and self._rank in self._proving:
            trust = Trust(self._conversation.job_key(self._job_number), self._proving, self._encrypting)
        return Negotiated(self._agreed(), trust)

    def _on_size(self, payload: bytes) -> Joined:
        self._nclients = int.from_bytes(payload, "big", signed=True) if len(payload) == 4 else -1
        if not self._rank < self._nclients <= MAX_CLIENTS:
            raise self._fault(f"sent a number of clients that client {self._rank} cannot be one of", "2.3.4", payload)
        self._phase = _Phase.JOINED
        return Joined(self._nclients)

    def _on_broadcast(self, payload: bytes) -> None:
        if len(payload) < 8:
            raise self._fault("sent COLL without label and client_mask", "2.3.5", payload)
        label, mask = struct.unpack_from(">iI", payload)
        if label in _OWN_LABELS:
            self._on_choice(OwnLabel(label), mask, payload[8:])
            return
        if label not in _KNOWN_LABELS:
            return  # 2.3.5: labels that are not understood are ignored.
        if self._phase is _Phase.DONE and not self._values:
            raise StartupError(_WAIT_FOR_US)
        if not self._labels or label != self._labels[0][0]:
            raise self._fault(f"broadcast {Label(label).name}, which was not its turn", "2.3.5", payload)
        self._check_mask(Label(label), mask)
        self._values[label] = payload[8:]
        if label == Label.C_VERSION:
            # Decided here, and not with the rest, because it decides which labels follow (2.3.5).
            self._on_version(agree_on_version(payload[8:], self._nclients))
        self._labels.popleft()
        self._send_label()

    def _on_version(self, version: tuple[int, int]) -> None:
        self._version = version
        check_version(self._facts, version)
        if not knows_tables(version):
            if self._stream is not None:
                # C_PROVES would not be sent, so all channels would be in clear without a word.
                raise StartupError(
                    "the server wants TLS (--tls), which needs clients of ours without --impi-version 0.0; what all "
                    f"of them offer is version {version[0]:#x}.{version[1]}"
                )
            return
        if self._facts.offer.decisions is not None:
            self._labels.append((OwnLabel.C_TUNING, encode_decisions(self._facts.offer.decisions)))
        if self._facts.representation:
            self._labels.append((OwnLabel.C_NATIVE, self._facts.representation))
        if self._facts.software:
            self._labels.append((OwnLabel.C_SOFTWARE, self._facts.software))
        if self._conversation is not None:
            self._labels.append((OwnLabel.C_PROVES, _PROVES if self._stream is None else _ENCRYPTS))

    def _on_choice(self, label: OwnLabel, mask: int, data: bytes) -> None:
        if label in _OF_TUNED_VERSION and not knows_tables(self._version):
            return  # Without that version it is nobody's whom we know.
        clients = self._contributors(label, mask, data)
        mine = bool(self._labels) and self._labels[0][0] is label
        if not clients or (self._rank in clients) is not mine:
            raise self._fault(f"broadcast {label.name}, but not what the clients of this job submitted", "2.3.5", data)
        if label is OwnLabel.C_TUNING:
            self._decisions = agree_on_decisions(clients, data)
        else:
            chosen = {client: data[4 * i : 4 * i + 4] for i, client in enumerate(clients)}
            if label is OwnLabel.C_NATIVE:
                self._native = agree_on_native(list(chosen.values()), self._nclients)
            elif label is OwnLabel.C_SOFTWARE:
                self._software = chosen
            elif label is OwnLabel.C_PROVES:
                self._proving = tuple(clients)
                self._encrypting = tuple(client for client, value in chosen.items() if value == _ENCRYPTS)
            else:
                check_choice(label, chosen, self._labels[0][1] if mine else None, self._nclients)
        if mine:
            self._labels.popleft()
            self._send_label()

    def _contributors(self, label: OwnLabel, mask: int, data: bytes) -> list[int]:
        """Return the clients that submitted a label of ours; none if that cannot have been."""
        clients = [client for client in range(self._nclients) if mask >> client & 1]
        fits = label is OwnLabel.C_TUNING or len(data) == 4 * len(clients)
        return clients if fits and not mask >> self._nclients else []

    def _agreed(self) -> Job:
        job = agree_on_job(self._nclients, self._values)
        # The choices are the same everywhere, or some client has refused them.
        collectives = tuple(name for name in ALTERNATIVES if name in self._facts.offer.collectives)
        return replaced(
            job,
            verify=self._facts.offer.verify,
            collectives=collectives,
            decisions=self._decisions,
            native=self._native,
            software=tuple(tuple(self._software.get(client, b"")) for client in range(self._nclients)),
        )

    def _send_label(self) -> None:
        if self._phase is _Phase.DONE:
            return
        ours = [self._labels[0]] if self._labels else []
        if not ours or ours[0][0] in _OWN_LABELS:
            # Ours are the highest. Nobody waits for one: a server may drop what it does not know.
            ours = list(self._labels)
            self._phase = _Phase.DONE
        for label, data in ours:
            self._send(encode_command(Command.COLL, struct.pack(">i", label) + data))
        if self._phase is _Phase.DONE:
            self._send(encode_command(Command.DONE))
            if self._conversation is not None:
                self._send(encode_command(OwnCommand.SEAL, self._conversation.seal(*self._session)))

    def _check_relayed(self) -> None:
        """StartupError: the server has kept back a label that a choice of the user needs."""
        for label, _ in self._labels:
            if label in NEEDED:
                raise StartupError(
                    f"this server does not relay {NEEDED[OwnLabel(label)]} to the other clients: use the"
                    " impirun -server that comes with this client, or start all clients without it",
                    clause="2.3.5",
                )

    def _check_mask(self, label: Label, mask: int) -> None:
        """All labels that we know are mandatory: every client must have contributed."""
        everybody = (1 << self._nclients) - 1
        if mask & ~everybody:
            raise self._fault(f"broadcast {label.name} of clients that do not exist (client_mask {mask:#x})", "2.3.5")
        missing = [str(client) for client in range(self._nclients) if not mask >> client & 1]
        if str(self._rank) in missing:
            raise self._fault(f"broadcast {label.name} without what this client submitted", "2.3.5")
        if missing:
            who = "client" if len(missing) == 1 else "clients"
            why = _NO_MPI if label == Label.C_VERSION else ""
            raise StartupError(
                f"did not contribute the mandatory {label.name}{why}",
                clause="2.3.5",
                peer=f"{who} {', '.join(missing)}",
            )

    @staticmethod
    def _fault(what: str, clause: str, octets: bytes = b"") -> PeerError:
        return PeerError(what, clause=clause, peer="the server", octets=octets)
