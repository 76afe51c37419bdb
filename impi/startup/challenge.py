"""Authentication by challenge, a method of ours (IMPI 2.3.3 leaves room for more).

Server and client prove to each other that they know one secret. It never travels, and what was
heard of one conversation proves nothing in another. After AUTH, whose mask offers method 31:

* server: the method's number, 32, and a nonce of 32 octets;
* client: its nonce, and its proof (:mod:`impi.proofs`), both of 32 octets; then IMPI as always;
* server: the command PROV with its proof and a number of the job, 32 octets each;
* client: after its DONE the command SEAL, a proof over all octets that it has sent;
* server: after its DONE the command SEAL, likewise;
* both, from PROV to FINI: now and then the command BEAT. Who sends none for long is stopped or cut
  off. BEAT is no part of what is sealed, since either end may send it at any time.

The seals bind the whole start-up: an octet changed by anybody between them ends it. The number of
the job and the secret make the job's key, by which hosts prove themselves in the dance
(:class:`Trust`). Other implementations never offer the method, so they see nothing of this.

Method 30 is the same but for TLS (:mod:`.encrypted`): the client says no IMPI before PROV has come,
both go on in a TLS session, and the seals cover its number, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.proofs import NONCE_SIZE, PROOF_SIZE, prove, proves, sha256
from impi.records import record
from impi.wire import OwnCommand, encode_command

CLIENT: Final = "client"
SERVER: Final = "server"
GREETING_SIZE: Final = NONCE_SIZE + PROOF_SIZE
"""Octets that the client sends after the challenge."""
PROOF_PAYLOAD: Final = PROOF_SIZE + NONCE_SIZE
"""Octets of PROV."""

BEAT: Final = encode_command(OwnCommand.BEAT)
UNSEALED: Final = (OwnCommand.SEAL, OwnCommand.BEAT)


@record
class Trust:
    """What the hosts of a job need to prove themselves to each other."""

    key: bytes
    """The key of this job; secret."""
    clients: tuple[int, ...]
    """The clients whose hosts have it."""
    tls: tuple[int, ...] = ()
    """Of these, the clients whose hosts have channels with TLS between each other."""

    def told(self) -> dict[str, object]:
        """Return what impirun tells its processes: the key in hexadecimal, and the clients."""
        return {"key": self.key.hex(), "clients": self.clients, "tls": self.tls}

    @classmethod
    def of(cls, key: str, clients: Sequence[int], tls: Sequence[int] = ()) -> Trust:
        """Return the contrary of :meth:`told`."""
        return cls(bytes.fromhex(key), tuple(clients), tuple(tls))


class Conversation:
    """One end's side of one connection that is authenticated by challenge.

    Args:
        secret: what both ends know.
        me: :data:`CLIENT` or :data:`SERVER`.
        theirs, mine: the nonces of both ends.
    """

    def __init__(self, secret: bytes, me: str, theirs: bytes, mine: bytes) -> None:
        self._secret = secret
        self._me = me
        self._peer = SERVER if me == CLIENT else CLIENT
        nonces = (mine, theirs) if me == CLIENT else (theirs, mine)
        self._session = prove(secret, "session", *nonces)
        self._sent = sha256()
        self._heard = sha256()

    def sends(self, octets: bytes) -> None:
        """These octets go out; they count for our seal."""
        self._sent.update(octets)

    def hears(self, octets: bytes) -> None:
        """These octets have come; they count for the seal of the other end."""
        self._heard.update(octets)

    def proof(self, job: bytes = b"") -> bytes:
        """Return our proof; ``job``: the number of the job, from the server only."""
        return prove(self._session, self._me, job)

    def is_proved(self, proof: bytes, job: bytes = b"") -> bool:
        """Return whether that is the other end's proof."""
        return proves(proof, self._session, self._peer, job)

    def seal(self, *session: bytes) -> bytes:
        """Return a proof over all that we have sent, and over the number of a TLS session."""
        return prove(self._session, f"{self._me} seal", self._sent.digest(), *session)

    def is_sealed(self, seal: bytes, *session: bytes) -> bool:
        """Return whether that is the other end's proof over all that we have heard, likewise."""
        return proves(seal, self._session, f"{self._peer} seal", self._heard.digest(), *session)

    def job_key(self, job: bytes) -> bytes:
        """Return the key of the job with that number."""
        return prove(self._secret, "job", job)
