"""Authentication by challenge, a method of ours (IMPI 2.3.3 leaves room for more).

Server and client prove to each other that they know one secret. It never travels, and octets of
one conversation prove nothing in another. After AUTH, whose mask offers method 31:

* server: the method's number, 32, and a nonce of 32 octets;
* client: its nonce, and its proof (:mod:`impi.protocol.proofs`), both of 32 octets; then IMPI as
  always;
* server: the command PROV with its proof and a number of the job, 32 octets each;
* client: after its DONE the command SEAL, a proof over all octets that it has sent;
* server: after its DONE the command SEAL, likewise;
* both, from PROV to FINI: now and then the command BEAT. An end that sends none for long is stopped
  or cut off. The seal does not cover BEAT, since either end may send it at any time.

The seals bind the whole start-up: an octet changed by anybody between them ends it. The number of
the job and the secret make the job's key, by which hosts prove themselves in the dance
(:class:`Trust`). Other implementations never offer the method, so they see nothing of this.

Method 30 is the same but for TLS (:mod:`.encrypted`): the client says no IMPI before PROV has come,
both go on in a TLS session, and the seals cover its number, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from impi.base.errors import PeerError
from impi.base.records import record, values_of
from impi.protocol.proofs import (
    NONCE_SIZE,
    PROOF_SIZE,
    compare_digest,
    prove,
    proves,
    sha256,
    veil,
)
from impi.protocol.wire import CommandReader, OwnCommand, encode_command

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

CLIENT: Final = "client"
SERVER: Final = "server"
GREETING_SIZE: Final = NONCE_SIZE + PROOF_SIZE
"""Octets that the client sends after the challenge."""
PROOF_PAYLOAD: Final = PROOF_SIZE + NONCE_SIZE
"""Octets of PROV."""

BEAT: Final = encode_command(OwnCommand.BEAT)
# A seal cannot cover itself, and an end may beat between its seal and FINI.
_UNSEALED: Final = (OwnCommand.SEAL, OwnCommand.BEAT)


@record
class Trust:
    """How the hosts of a job recognise each other: by proofs, or by the addresses they come
    from."""

    key: bytes = b""
    """The key of this job; secret."""
    clients: tuple[int, ...] = ()
    """The clients whose hosts have it, and prove that; none: this client has no secret."""
    tls: tuple[int, ...] = ()
    """The clients, among :attr:`clients`, whose hosts have channels with TLS between each other."""
    came: tuple[str, ...] = ()
    """The address that each client's start-up connection came from; see
    :mod:`impi.protocol.startup.origins`."""
    strict: bool = False
    """Whether hosts without a proof are refused that come from elsewhere (--strict-addresses)."""

    def told(self, *, strict: bool, token: str) -> dict[str, object]:
        """Return the values that impirun tells its processes, as JSON.

        The key is hexadecimal there, and veiled by impirun's token, which both ends have proved.
        """
        return {
            **values_of(self),
            "key": veil(bytes.fromhex(token), "job key", self.key).hex(),
            "strict": strict,
        }

    @classmethod
    def of(
        cls,
        *,
        token: str,
        key: str,
        clients: Sequence[int],
        tls: Sequence[int],
        came: Sequence[str],
        strict: bool,
    ) -> Trust:
        """Return the object of the values of :meth:`told`."""
        plain = veil(bytes.fromhex(token), "job key", bytes.fromhex(key))
        return cls(plain, tuple(clients), tuple(tls), tuple(came), strict)


def job_key(secret: bytes, number: bytes) -> bytes:
    """Return the key of the job with that number."""
    return prove(secret, "job", number)


class SealedChannel:
    """One end of a start-up connection, without a socket: commands go out and come in.

    It begins in clear. :meth:`prove` makes both ends prove themselves and seal their octets,
    :meth:`encrypt` goes on in a TLS session. The octets of both ways count for the seals from the
    first on, though neither end has a key then. BEAT and SEAL never count.

    Args:
        me: :data:`CLIENT` or :data:`SERVER`.
        limit: most octets of payload in the first command; see :attr:`reader` for the others.
    """

    def __init__(self, me: str, limit: int) -> None:
        self._me, self._other = (CLIENT, SERVER) if me == CLIENT else (SERVER, CLIENT)
        # A server names the client itself, since it has many.
        self._peer = "the server" if me == CLIENT else ""
        self.reader = CommandReader(limit, self._peer)
        """Octets that have come and were not taken: take them by the methods here only."""
        self.out = bytearray()
        """Octets to be written."""
        self._session = b""
        self._stream: Stream | None = None
        self._sent = sha256()
        self._heard = sha256()

    @property
    def sealing(self) -> bool:
        """Whether both ends prove themselves, and seal what they send."""
        return bool(self._session)

    @property
    def encrypted(self) -> bool:
        """Whether it has gone on in a TLS session."""
        return self._stream is not None

    @property
    def ready(self) -> bool:
        """Whether what is sent goes out at once: no handshake of a TLS session is under way."""
        return self._stream is None or self._stream.ready

    def send(self, octets: bytes) -> None:
        """Send these octets, which count for our seal."""
        self._sent.update(octets)
        self._write(octets)

    def beat(self) -> None:
        self._write(BEAT)

    def send_seal(self) -> None:
        """Send SEAL: a proof over all that we have sent, and over the number of a TLS session."""
        self._write(
            encode_command(OwnCommand.SEAL, self._seal(self._me, self._sent.digest()))
        )

    def data_to_send(self) -> bytes:
        data = bytes(self.out)
        self.out.clear()
        return data

    def receive_data(self, data: bytes) -> None:
        """Octets have come from the other end.

        Raises:
            PeerError: they are not of its TLS session.
        """
        if self._stream is not None:
            data, answer = self._stream.receive(data)
            # In a handshake octets of TLS are answered by such octets, before there is any command.
            self.out += answer

        self.reader.receive_data(data)

    def next_command(self) -> tuple[int, bytes] | None:
        """Return the next command; see :meth:`impi.protocol.wire.CommandReader.next_command`."""
        command = self.reader.next_command()
        if command is not None and command[0] not in _UNSEALED:
            # The octets as they came: a command has one encoding only, so it
            # can be encoded once more.
            self._heard.update(encode_command(*command))

        return command

    def take(self, size: int) -> bytes | None:
        octets = self.reader.take(size)
        self._heard.update(octets or b"")
        return octets

    def prove(self, secret: bytes, theirs: bytes, mine: bytes) -> None:
        """Both ends prove from here on that they know the secret; the others are their nonces."""
        # A nonce of each end: so neither can be made to repeat an earlier conversation.
        nonces = (mine, theirs) if self._me == CLIENT else (theirs, mine)
        self._session = prove(secret, "session", *nonces)

    def proof(self, job: bytes = b"") -> bytes:
        """Return our proof; ``job``: the number of the job, from the server only."""
        # Over the role, too: an end that is sent its own proof back does not take it.
        return prove(self._session, self._me, job)

    def is_proved(self, proof: bytes, job: bytes = b"") -> bool:
        """Return whether that is the other end's proof."""
        return proves(proof, self._session, self._other, job)

    def check_seal(self, seal: bytes) -> None:
        """Compare the payload of SEAL with all that we have heard.

        Raises:
            PeerError: the other end has sent something else.
        """
        if not compare_digest(seal, self._seal(self._other, self._heard.digest())):
            raise PeerError(
                "sent octets that differ from those that arrived: they were changed on the way",
                clause="2.3.3",
                peer=self._peer,
            )

    def encrypt(self) -> None:
        """Go on in a TLS session: both ends have proved themselves.

        Raises:
            PeerError: octets in clear have come behind the proof.
        """
        from impi.protocol.startup.encrypted import Stream

        # Octets in clear that wait here would be read as if the session had protected them.
        if len(self.reader):
            raise PeerError(
                "sent octets before its TLS session", clause="2.3.3", peer=self._peer
            )

        # The server accepts and so acts as the TLS server, whichever end has proved itself first.
        self._stream = Stream(accepts=self._me == SERVER)

    def _write(self, octets: bytes) -> None:
        self.out += octets if self._stream is None else self._stream.send(octets)

    def _seal(self, role: str, digest: bytes) -> bytes:
        # With somebody between, the two ends have two TLS sessions, whose numbers differ.
        number = () if self._stream is None else (self._stream.binding,)
        return prove(self._session, f"{role} seal", digest, *number)
