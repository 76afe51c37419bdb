"""A connection with TLS that looks like a plain socket to the loops of channels.

How it works: :func:`encrypt` makes one of a connected socket whose ends have proved a secret to
each other. Where a plain socket has octets, the kernel knows, and epoll tells. Octets of a TLS
record that was read only in part are known to :meth:`SecureSocket.pending` alone, so a loop asks
that before it sleeps.

One call reads or writes as many records as it can, of 16 KiB each. A record that the kernel has
taken in part cannot be taken back, but the caller may offer other octets next time, because urgent
packets overtake (IMPI 3.6). :meth:`SecureSocket.send` therefore counts all but the last octet of
such a record as sent: then its packet has begun, and nothing overtakes it.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.proofs import PROOF_SIZE, compare_digest
from impi.protocol.startup.encrypted import (
    INTERCEPTED,
    Stream,
    binding,
    context,
    session_proof,
)
from impi.rank.doors.introduce import receive_exactly

_CHUNK: Final = 1 << 16
_PROOF_S: Final = 60.0
_RECORD: Final = 1 << 14
"""Octets of user data in a whole record of TLS."""


def encrypt(
    sock: socket.socket, key: bytes, *, accepts: bool, deadline: float
) -> SecureSocket:
    """Return :func:`open_session` for the loops of channels."""
    return SecureSocket(open_session(sock, key, accepts=accepts, deadline=deadline))


def open_session(
    sock: socket.socket, key: bytes, *, accepts: bool, deadline: float
) -> ssl.SSLSocket:
    """Return the connection with TLS; both ends prove that they hold the same session.

    Args:
        sock: connected; closed if that fails.
        key: a secret that both ends know, of this job and these ends only.
        accepts: whether this end has accepted the connection.
        deadline: on the monotonic clock.

    Raises:
        OSError: the connection ended, or the time is over.
        PeerError: the other end holds another session: somebody is between.
    """

    sock.settimeout(max(0.01, deadline - time.monotonic()))

    session = context(accepts=accepts).wrap_socket(sock, server_side=accepts)
    try:
        # The certificate is everybody's. Somebody between has a session with each end, so two
        # numbers.
        number = binding(session)

        session.sendall(session_proof(key, number, accepts=accepts))
        if not compare_digest(
            receive_exactly(session, PROOF_SIZE),
            session_proof(key, number, accepts=not accepts),
        ):
            raise PeerError(INTERCEPTED)
    except BaseException:
        session.close()
        raise

    return session


def open_stream(sock: socket.socket, key: bytes, limit_s: float = _PROOF_S) -> Stream:
    """Begin a session as :func:`open_session` of the connecting end, without a socket of its own.

    For an end whose connection another process goes on with, or another loop. After the proofs
    this end speaks first.

    Raises:
        OSError: the connection has ended, or the time is over.
        PeerError: the other end holds another session: somebody is between.
    """

    until = time.monotonic() + limit_s
    stream = Stream(accepts=False)
    sock.sendall(stream.send(b""))

    def heard() -> bytes:
        sock.settimeout(max(0.01, until - time.monotonic()))
        if not (octets := sock.recv(_CHUNK)):
            raise ConnectionError("it closed the connection")

        found, answer = stream.receive(octets)
        sock.sendall(answer)

        return found

    proof = b""
    while not stream.ready:
        proof += heard()

    sock.sendall(stream.send(session_proof(key, stream.binding, accepts=False)))
    while len(proof) < PROOF_SIZE:
        proof += heard()

    if not compare_digest(proof, session_proof(key, stream.binding, accepts=True)):
        raise PeerError(INTERCEPTED)

    sock.settimeout(None)

    return stream


class SecureSocket:
    """The calls of :class:`socket.socket` that the loops of channels use; see these."""

    def __init__(self, session: ssl.SSLSocket) -> None:
        session.setblocking(False)
        self._session = session
        self._blocks = False
        self._unsent = 0
        """Octets of user data in a record that the kernel has taken in part."""
        self.fileno = session.fileno
        self.close = session.close
        self.setsockopt = session.setsockopt
        self.pending = session.pending
        """Returns the octets that have come and that epoll does not announce."""

    def setblocking(self, blocks: bool) -> None:
        """Say whether calls without MSG_DONTWAIT wait."""
        self._blocks = blocks

    def recv_into(self, room: memoryview, _nbytes: int = 0, flags: int = 0) -> int:
        """Read into ``room``; 0 is the end."""
        while True:
            try:
                got = n = self._session.recv_into(room)
                # A whole record is mostly a part of more. A shorter one is the last that has come.
                while n == _RECORD and got < len(room):
                    n = self._more(room[got:])
                    got += n
            except ssl.SSLWantReadError:
                self._wait(flags)
            else:
                return got

    def _more(self, room: memoryview) -> int:
        try:
            return self._session.recv_into(room)
        except ssl.SSLWantReadError:
            return 0

    def recvmsg_into(
        self, views: Sequence[memoryview], _size: int = 0, flags: int = 0
    ) -> tuple[int, None]:
        got = 0
        for view in views:
            try:
                n = self.recv_into(view, 0, flags if not got else socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not got:
                    raise

                break

            got += n
            if n < len(view):
                break

        return got, None

    def send(self, octets: bytes | bytearray | memoryview, _flags: int = 0) -> int:
        """Write as much as the kernel takes; BlockingIOError: it takes nothing."""

        # OpenSSL keeps the rest of a record and does not look at the octets offered next, so that
        # rest must go first, whatever is offered now.
        taken = self._finish_record()

        view = memoryview(octets)
        while taken < len(view):
            piece = view[taken : taken + _RECORD]
            try:
                taken += self._session.send(piece)
            except ssl.SSLWantWriteError:
                self._unsent = len(piece)
                taken += len(piece) - 1
                break

        if not taken:
            raise BlockingIOError

        return taken

    def sendmsg(
        self,
        views: Sequence[bytes | memoryview],
        _ancillary: object = (),
        flags: int = 0,
    ) -> int:
        """Write the first of several pieces: as many octets as one record has.

        A packet begins with a piece of several octets. None of it is written, or two at least: the
        last octet of a record may count as not taken, and the packet must have begun all the same.
        """
        # Joined into one record: each record costs a header, a tag and a call of OpenSSL.
        whole = bytearray()
        for view in views:
            piece = view[: _RECORD - len(whole)]
            if whole and len(piece) == 1:
                break

            whole += piece

        return self.send(whole, flags)

    def _finish_record(self) -> int:
        """Write the rest of a record that the kernel has taken in part.

        It is encrypted already, so nothing may come before it. It counts as taken but for its last
        octet, which the owner offers again, as the first one: it holds the place. Returns 1 for
        this octet, or 0 if there is no such record.
        """

        if not self._unsent:
            return 0

        try:
            self._session.send(bytes(self._unsent))  # its length alone counts
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

        self._unsent = 0

        return 1

    def _wait(self, flags: int) -> None:
        # The session never blocks itself, or MSG_DONTWAIT could not be had of it for one call.
        if not self._blocks or flags & socket.MSG_DONTWAIT:
            raise BlockingIOError

        poll = select.poll()
        poll.register(self._session, select.POLLIN)
        poll.poll()
