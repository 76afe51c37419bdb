"""Proofs that both ends of a connection know one secret, which itself never travels.

Each end sends a nonce. Each end then sends HMAC-SHA256 (RFC 2104) over its role, both nonces, and
what both must agree on. So a proof is useless on another connection, for another pair of ends, and
in the other direction. Server and clients use it (:mod:`impi.startup.challenge`), the hosts of
different clients, the procs of one client, and the procs and impirun.
"""

from __future__ import annotations

from typing import Final

NONCE_SIZE: Final = 32
"""Octets of a nonce; fresh ones come from ``os.urandom``."""
PROOF_SIZE: Final = 32
"""Octets of a proof."""
ANSWER_SIZE: Final = NONCE_SIZE + PROOF_SIZE
"""Octets that the accepting end sends: its nonce and its proof."""


def prove(secret: bytes, role: str, *parts: bytes) -> bytes:
    """Return the proof of ``role`` over ``parts``, whose lengths count, too."""
    import hmac  # it loads OpenSSL, which jobs without a secret never need

    text = b"".join(len(part).to_bytes(8, "big") + part for part in (role.encode(), *parts))
    return hmac.digest(secret, text, "sha256")


def proves(proof: bytes, secret: bytes, role: str, *parts: bytes) -> bool:
    """Return whether ``proof`` is that of :func:`prove`; the time tells nothing."""
    from hmac import compare_digest

    return compare_digest(proof, prove(secret, role, *parts))


class Knock:
    """The connecting end: it sends ``nonce``, gets an answer, and sends :meth:`closing`.

    Args:
        secret: what both ends know.
        about: what both ends must agree on, such as their numbers.
        nonce: a fresh one.
    """

    def __init__(self, secret: bytes, about: bytes, nonce: bytes) -> None:
        self._secret = secret
        self._about = about
        self.nonce = nonce

    def closing(self, answer: bytes) -> bytes | None:
        """Return our proof; None: the accepting end has not proved that it knows the secret."""
        theirs, proof = answer[:NONCE_SIZE], answer[NONCE_SIZE:]
        if not proves(proof, self._secret, "keeper", self._about, self.nonce, theirs):
            return None
        return prove(self._secret, "knock", self._about, self.nonce, theirs)


class Keeper:
    """The accepting end: it sends :attr:`answer` to a nonce and checks the closing.

    Args:
        secret: what both ends know.
        about: what both ends must agree on.
        theirs: the nonce of the connecting end.
        nonce: a fresh one of this end.
    """

    def __init__(self, secret: bytes, about: bytes, theirs: bytes, nonce: bytes) -> None:
        self._secret = secret
        self._signed = (about, theirs, nonce)
        self.answer = nonce + prove(secret, "keeper", *self._signed)
        """What to send."""

    def accepts(self, closing: bytes) -> bool:
        """Return whether the connecting end has proved that it knows the secret."""
        return proves(closing, self._secret, "knock", *self._signed)
