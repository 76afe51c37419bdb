"""Fuzzes published names at the server: honest processes, others without the secret, and damage.

The others have heard all that honest processes and the server have said, here and in an earlier
job of the same secret. In some conversations somebody on the way changes what passes.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from forger import Forger, is_shown
from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import PeerError
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.names import Answer, Asker, Names, NameTold
from impi.protocol.startup.server import ConnectionRefused, ServerMachine
from impi.protocol.wire import CommandReader, OwnCommand, encode_command

__all__ = ["play"]

_KEY = b"k" * 32
_ACTS = ("publish", "lookup", "unpublish", "else")
_NAMES = ("ocean", "air", "\u20ac\x1b[2J", "")
_PORTS = ("impi:a", "impi:b", "")


def _payload(octets: bytes) -> bytes:
    reader = CommandReader()
    reader.receive_data(octets)
    command = reader.next_command()
    return b"" if command is None else command[1]


class _Game:
    """One input: one server, and some conversations one after the other."""

    def __init__(self, rng: Random, reached: Counter[str], forger: Forger) -> None:
        self.rng, self.reached, self.forger = rng, reached, forger
        self.server = ServerMachine(
            1, Credentials((Method.NONE,)), rng.randbytes, names_key=_KEY
        )
        self.model = Names(_KEY)
        self.deep = False

    def feed(self, conn: int, octets: bytes) -> bytes:
        """Give octets to the server in pieces; return what it says."""
        said = b""
        for piece in self.forger.pieces(octets):
            Octets.fed += len(piece)
            for event in self.server.receive_data(conn, piece):
                self.reached[type(event).__name__] += 1
                if isinstance(event, NameTold):
                    return said + event.last
                if not isinstance(event, ConnectionRefused):
                    raise Crash(f"a process that asks for names brings about {event}")
                if not is_shown(event.reason):
                    raise Crash(f"not fit for a terminal: {event.reason}")
                self.deep |= "has not proved" in event.reason
                self.reached[
                    "refused: " + without_numbers(event.reason.partition(": ")[2])
                ] += 1
                return b""
            said += self.server.data_to_send(conn)
        return said

    def passes(self, octets: bytes) -> bytes:
        """Return the effect of octets on their way."""
        self.forger.hears(octets)
        if not octets or self.rng.random() < 0.9:
            return octets
        at = int(self.rng.random() * len(octets))
        return self.forger.one_of(
            lambda: (
                octets[:at]
                + bytes([octets[at] ^ 1 << int(self.rng.random() * 8)])
                + octets[at + 1 :]
            ),
            lambda: octets[:at],
            lambda: octets[:at] + self.forger.octets(8) + octets[at:],
        )

    def honest(self, conn: int) -> None:
        """A process asks; it gets the right answer, or none."""
        asker = Asker(_KEY, self.rng.randbytes(32))
        act, name, port = (
            row[int(self.rng.random() * len(row))] for row in (_ACTS, _NAMES, _PORTS)
        )
        opened = self.passes(asker.opening)
        greeting = self.passes(self.feed(conn, opened))
        try:
            question = asker.asks(_payload(greeting), act, name, port)
            passed = self.passes(question)
            answered = self.feed(conn, passed)
            due: Answer | None = None
            # Commands that IMPI does not know are skipped
            if answered and question in passed:
                due = self.model.answer(json.dumps([act, name, port]).encode())
            answer = asker.reads(_payload(self.passes(answered)))
        except PeerError as failure:
            self.reached[f"the process hears: {without_numbers(str(failure))}"] += 1
            return
        if answer != due:
            raise Crash(f"{act} {name!r} is answered by {answer}, not {due}")
        self.reached[f"{act}: {answer.error or 'done'}"] += 1

    def liar(self, conn: int) -> None:
        """Somebody without the secret asks; the server must not answer."""
        parts = [encode_command(OwnCommand.NAME, self.forger.octets(32))]
        for _ in range(1 + int(self.rng.random() * 2)):
            parts.append(
                self.forger.one_of(
                    lambda: encode_command(OwnCommand.NAME, self.forger.octets(64)),
                    lambda: encode_command(OwnCommand.NAME, self.forger.octets(9000)),
                    lambda: self.forger.octets(72),
                )
            )
        for part in parts:
            if len(self.feed(conn, part)) > 40:
                raise Crash("somebody without the secret is answered")

    def play(self) -> bool:
        for conn in range(1, 4 + int(self.rng.random() * 6)):
            self.server.connected(conn, "peer")
            (self.honest if self.rng.random() < 0.6 else self.liar)(conn)
            self.server.eof(conn)
        if self.server._names._ports != self.model._ports:
            raise Crash(
                f"the server has {self.server._names._ports}, not {self.model._ports}"
            )
        return self.deep


def _earlier() -> list[bytes]:
    """All that is heard of an earlier job with the same secret."""
    rng = Random(1)
    forger = Forger(rng, [])
    game = _Game(rng, Counter(), forger)
    for conn in range(1, 9):
        game.server.connected(conn, "peer")
        game.honest(conn)
    return forger._heard


_EARLIER: list[bytes] = _earlier()


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: a question without the right proof was examined."""
    return _Game(rng, reached, Forger(rng, _EARLIER)).play()
