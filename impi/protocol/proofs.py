"""Proofs that both ends of a connection know one secret, which itself never travels.

Each end sends a nonce. Each end then sends HMAC-SHA256 (RFC 2104) over its role, both nonces, and
octets on which both must agree. So a proof is useless on another connection, for another pair of
ends, and in the other direction. Server and clients use it
(:mod:`impi.protocol.startup.challenge`), the hosts of different clients, the procs of one client,
and the procs and impirun.

The modules hashlib and hmac load OpenSSL, which costs each process 5 ms and 4 MiB. So SHA-256 is
the interpreter's own here, as it is in the module random, and HMAC is written out.
"""

from __future__ import annotations

from _operator import _compare_digest as compare_digest
from typing import Final

try:
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # Python 3.11
    except ImportError:
        from hashlib import sha256

__all__ = [
    "ANSWER_SIZE",
    "NONCE_SIZE",
    "PROOF_SIZE",
    "Keeper",
    "Knock",
    "compare_digest",
    "prove",
    "proves",
    "sha256",
]

NONCE_SIZE: Final = 32
"""Octets of a nonce; fresh ones come from ``os.urandom``."""
PROOF_SIZE: Final = 32
"""Octets of a proof."""
ANSWER_SIZE: Final = NONCE_SIZE + PROOF_SIZE
"""Octets that the accepting end sends: its nonce and its proof."""

_BLOCK: Final = 64  # Octets that SHA-256 takes at a time
# The two paddings of RFC 2104, as tables by which `translate` applies them at once.
_INNER: Final = bytes(octet ^ 0x36 for octet in range(256))
_OUTER: Final = bytes(octet ^ 0x5C for octet in range(256))


def prove(secret: bytes, role: str, *parts: bytes) -> bytes:
    """Return the proof of ``role`` over ``parts``, whose lengths count, too."""
    # Lengths go in front: else octets could be moved from one part to the next without a trace.
    return hmac(
        secret,
        b"".join(
            len(part).to_bytes(8, "big") + part for part in (role.encode(), *parts)
        ),
    )


def hmac(key: bytes, text: bytes) -> bytes:
    """Return HMAC-SHA256 of ``text`` (RFC 2104)."""

    block = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner = sha256(block.translate(_INNER) + text).digest()
    digest: bytes = sha256(block.translate(_OUTER) + inner).digest()

    return digest


def proves(proof: bytes, secret: bytes, role: str, *parts: bytes) -> bool:
    """Return whether ``proof`` is that of :func:`prove`, in a time that tells nothing about it."""
    return bool(compare_digest(proof, prove(secret, role, *parts)))


class Knock:
    """The connecting end: it sends ``nonce``, gets an answer, and sends :meth:`closing`.

    Args:
        secret: known to both ends.
        about: octets that both ends must agree on, such as their numbers.
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
        secret: known to both ends.
        about: octets that both ends must agree on.
        theirs: the nonce of the connecting end.
        nonce: a fresh one of this end.
    """

    def __init__(
        self, secret: bytes, about: bytes, theirs: bytes, nonce: bytes
    ) -> None:
        self._secret = secret
        self._signed = (about, theirs, nonce)
        self.answer = nonce + prove(secret, "keeper", *self._signed)
        """The octets to send: nonce and proof."""

    def accepts(self, closing: bytes) -> bool:
        """Return whether the connecting end has proved that it knows the secret."""
        return proves(closing, self._secret, "knock", *self._signed)


def veil(session: bytes, role: str, text: bytes) -> bytes:
    """Encrypt or decrypt a text by a stream of octets that only this session has."""
    stream = bytearray()
    for number in range(-(-len(text) // PROOF_SIZE)):
        stream += prove(session, f"{role} veil", number.to_bytes(8, "big"))

    return bytes(a ^ b for a, b in zip(text, stream, strict=False))
