"""TLS 1.3 between two ends that have proved one secret to each other: method 30, and host channels.

The certificate lies beside this file and is known to everybody, so it proves nothing. The ends
prove instead that both hold the same TLS session: its number (:attr:`Stream.binding`) is part of a
proof under their secret. Somebody between them would have two sessions, and so two numbers. The
number is the client's Finished message, which depends on all of the handshake (RFC 8446, 4.4.4).
No ticket is given, so no session is resumed.

The standard library's ssl takes 5 ms and 4 MiB: import this module only where TLS is chosen.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import cache
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.proofs import prove

_CERTIFICATE: Final = f"{__file__.rpartition('/')[0]}/everybodys.pem"
_CHUNK: Final = 1 << 16


@cache
def context(*, accepts: bool) -> ssl.SSLContext:
    """Return the settings of the end that accepts a connection, or of the other."""

    found = ssl.SSLContext(
        ssl.PROTOCOL_TLS_SERVER if accepts else ssl.PROTOCOL_TLS_CLIENT
    )

    found.minimum_version = ssl.TLSVersion.TLSv1_3
    if accepts:
        found.load_cert_chain(_CERTIFICATE)
        found.num_tickets = 0
    else:
        # The proof that follows says who the other end is.
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE

    return found


def binding(session: ssl.SSLObject | ssl.SSLSocket) -> bytes:
    """Return the number of a session whose handshake is over: the same at both ends only."""
    number = session.get_channel_binding("tls-unique")
    if not number:
        raise PeerError("has a TLS session without a Finished message")

    return number


INTERCEPTED: Final = "holds another TLS session: the connection was intercepted"
"""Sentence on an end whose :func:`session_proof` is wrong."""


def session_proof(key: bytes, number: bytes, *, accepts: bool) -> bytes:
    """Return the proof of one end that it holds the session of that number, and knows a key."""
    return prove(key, f"tls {'accepting' if accepts else 'connecting'}", number)


class Stream:
    """One end of a TLS session, without a socket.

    Octets to be sent may be given before the handshake is over; they wait for that.

    Args:
        accepts: whether this end has accepted the connection.
    """

    def __init__(self, *, accepts: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context(accepts=accepts).wrap_bio(
            self._incoming, self._outgoing, server_side=accepts
        )
        self._waiting = b""
        self._ready = False
        # Whether the other end has said that nothing more follows: who cuts the connection cannot
        self.closed = False
        # The end that connects speaks first, so its first octets are ready at once.
        self._shake_hands()

    @property
    def ready(self) -> bool:
        """Whether the handshake is over."""
        return self._ready

    @property
    def binding(self) -> bytes:
        """The number of the session, once octets of the other end have come."""
        return binding(self._session)

    def send(self, octets: bytes) -> bytes:
        """Return the octets to write on the connection so that the other end receives
        ``octets``."""
        self._waiting += octets
        return self._taken()

    def receive(self, octets: bytes) -> tuple[bytes, bytes]:
        """Take octets of the connection; return the other end's octets, and octets to write.

        Raises:
            PeerError: they are not of this session.
        """

        self._incoming.write(octets)

        heard = bytearray()
        try:
            if not self._ready:
                self._shake_hands()

            while self._ready and (piece := self._session.read(_CHUNK)):
                heard += piece

            self.closed = self._ready
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            if not self._ready:  # anybody can write that before there is a key
                raise PeerError("has ended its TLS session in the handshake") from None

            self.closed = True  # this end had said so before
        except ssl.SSLError as error:
            self._ready = False  # nothing more can be sent
            raise PeerError(
                f"has broken its TLS session ({error.reason or error})"
            ) from None

        return bytes(heard), self._taken()

    def close(self) -> bytes:
        """Return the octets that tell the other end that nothing more follows."""
        last = self._taken()
        with suppress(ssl.SSLWantReadError):  # it need not answer
            self._session.unwrap()

        return last + self._taken()

    def _shake_hands(self) -> None:
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return

        self._ready = True

    def _taken(self) -> bytes:
        # Before the end of the handshake there is no key, so the octets wait;
        # only the handshake's own go.
        while self._ready and self._waiting:
            self._waiting = self._waiting[self._session.write(self._waiting) :]

        return self._outgoing.read()
