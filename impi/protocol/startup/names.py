"""Published names: questions of processes to a rendezvous server, sans I/O (MPI 4.1, 11.7).

A process asks over a connection of its own, whose first command is NAME and not AUTH. It is no
client, and other implementations never send it. All commands are NAME:

* process: a nonce; server: a nonce; both of 32 octets;
* process: a proof over its question, and the question, veiled; server: likewise with the answer,
  and then it closes the connection.

The proofs are by a key that the secret of the job makes
(:func:`impi.protocol.startup.auth.names_key`), so impirun can tell it to procs, which do not get
the secret. The veil is HMAC-SHA256 of a counter: the name of a port holds a secret, which must not
be read on the way. Questions and answers are JSON.
"""

from __future__ import annotations

import json
from typing import Final

from impi.base.errors import PeerError
from impi.base.records import record
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, prove, proves, veil
from impi.protocol.wire import OwnCommand, encode_command

LONGEST: Final = 8192
"""Most octets of a question or an answer."""
_MOST: Final = 10_000  # Names of one server
_ACTS: Final = ("publish", "lookup", "unpublish")


@record
class Answer:
    """A server's answer: the name of a port, or the reason why there is none."""

    port: str = ""
    error: str = ""
    """Class of the error: ERR_NAME, ERR_SERVICE; empty: none."""
    why: str = ""


@record
class NameTold:
    """Write its answer to a process and close its connection, already forgotten."""

    conn: int
    last: bytes


class Names:
    """The names of one server.

    Args:
        key: the secret that processes must know to ask.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._ports: dict[str, str] = {}

    def answer(self, question: bytes) -> Answer:
        """Return the answer to a question whose proof was right."""

        try:
            act, name, port = json.loads(question)
        except (ValueError, TypeError, RecursionError):
            act = name = port = None

        if act not in _ACTS or not isinstance(name, str) or not isinstance(port, str):
            return Answer("", "ERR_SERVICE", "the server does not know what was asked")

        # In MPI, a name that is not published is ERR_NAME for a lookup, and ERR_SERVICE for
        # taking back. The binding raises what this says.
        known = self._ports.get(name)
        if act == "lookup":
            return (
                Answer("", "ERR_NAME", f"no port is published as {name!r}")
                if known is None
                else Answer(known)
            )

        why = self._fault(act, name, known, port)
        if why:
            return Answer("", "ERR_SERVICE", why)

        if act == "publish":
            self._ports[name] = port
        else:
            del self._ports[name]

        return Answer()

    def _fault(self, act: str, name: str, known: str | None, port: str) -> str:
        """Return why a name cannot be published or taken back; empty: it can."""
        if act == "publish":
            full = (
                f"{_MOST} names are published, and no more can be"
                if len(self._ports) >= _MOST
                else ""
            )
            return (
                full
                if known is None
                else f"{name!r} is published already; unpublish it first"
            )

        if known is None:
            return f"no port is published as {name!r}"

        return "" if known == port else f"{name!r} is published for another port"


class Desk:
    """The server's side of one connection.

    Args:
        names: of the server.
        nonce: a fresh one.
    """

    def __init__(self, names: Names, nonce: bytes) -> None:
        self._names = names
        self._nonce = nonce
        self._session: bytes | None = None

    def hears(self, payload: bytes) -> tuple[bytes, bool]:
        """Return the octets to send, and whether these are the answer.

        Raises:
            PeerError: the other end has not proved that it knows the key.
        """

        # Two commands of a process: its nonce, then the question with a proof over both nonces. So
        # a recorded question proves nothing on another connection.
        if self._session is None:
            if len(payload) != NONCE_SIZE:
                raise PeerError(
                    "sent a NAME without a nonce", octets=payload[:NONCE_SIZE]
                )

            self._session = _session(self._names.key, payload, self._nonce)
            return encode_command(OwnCommand.NAME, self._nonce), False

        question = _opened(self._session, "asks", payload)
        if question is None:
            raise PeerError("has not proved that it knows the secret")

        found = self._names.answer(question)
        told = json.dumps([found.port, found.error, found.why]).encode()

        return encode_command(
            OwnCommand.NAME, _closed(self._session, "tells", told)
        ), True


class Asker:
    """The asking side of one connection.

    Args:
        key: see :class:`Names`.
        nonce: a fresh one; send :attr:`opening` first.
    """

    def __init__(self, key: bytes, nonce: bytes) -> None:
        self._key = key
        self._nonce = nonce
        self._session = b""
        self.opening = encode_command(OwnCommand.NAME, nonce)

    def asks(self, theirs: bytes, act: str, name: str, port: str) -> bytes:
        """Return the octets to send when the server's nonce has come."""
        self._session = _session(self._key, self._nonce, theirs)
        return encode_command(
            OwnCommand.NAME,
            _closed(self._session, "asks", json.dumps([act, name, port]).encode()),
        )

    def reads(self, payload: bytes) -> Answer:
        """Return the server's answer.

        Raises:
            PeerError: the server has not proved that it knows the key.
        """
        told = _opened(self._session, "tells", payload)
        if told is None:
            raise PeerError("has not proved that it knows the secret")

        return Answer(*json.loads(told))


def _session(key: bytes, asker: bytes, server: bytes) -> bytes:
    return prove(key, "session", asker, server)


def _closed(session: bytes, role: str, text: bytes) -> bytes:
    # The proof is over what travels: it is checked before anything is decrypted.
    veiled = veil(session, role, text)
    return prove(session, role, veiled) + veiled


def _opened(session: bytes, role: str, payload: bytes) -> bytes | None:
    """Return the text; None: no proof is with it."""
    proof, veiled = payload[:PROOF_SIZE], payload[PROOF_SIZE:]
    return veil(session, role, veiled) if proves(proof, session, role, veiled) else None
