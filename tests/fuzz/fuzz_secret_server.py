"""Fuzzes authentication by challenge at the server: honest clients, and others without the secret.

Those others have heard all that honest ones say, here and in an earlier job. In some inputs one of
them sits on a connection of an honest client and changes what passes.
"""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

from forger import Forger, is_shown
from fuzz_client import _facts
from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import ImpiError, JobError, PeerError, StartupError
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.challenge import BEAT
from impi.protocol.startup.client import ClientMachine, Joined, Negotiated
from impi.protocol.startup.server import (
    AuthenticatedByNone,
    ClientJoined,
    ConnectionRefused,
    JobFailed,
    JobOver,
    JobStarted,
    ServerMachine,
)
from impi.protocol.wire import Command, OwnCommand, encode_command, encode_reason

__all__ = ["play"]

_SECRET = b"fifteen men on the dead man's chest"
_ALONE = Credentials((Method.CHALLENGE,), 0, _SECRET)
_TLS = Credentials((Method.TLS,), 0, _SECRET)
_WITH_KEY = Credentials((Method.CHALLENGE, Method.KEY), 0x1234_5678_9ABC_DEF0, _SECRET)
_MASK = struct.Struct(">I")
_GREETING = 64
_STRANGER = 1024 + 8


def _accepted(choice: float) -> Credentials:
    """Return the server's methods; a session of TLS takes longer than all the rest."""
    return _TLS if choice < 0.15 else _WITH_KEY if choice < 0.4 else _ALONE


class _Honest:
    """A client that knows the secret."""

    def __init__(self, rng: Random, rank: int, credentials: Credentials) -> None:
        self.machine = ClientMachine(rank, credentials, nonce=rng.randbytes(32))
        self.rank = rank
        self.negotiated = False
        self.error = ""
        self.sent, self.heard = bytearray(), bytearray()

    def says(self) -> bytes:
        octets = self.machine.data_to_send()
        self.sent += octets
        return octets

    def hears(self, octets: bytes) -> None:
        if self.error or not octets:
            return
        self.heard += octets
        try:
            for event in self.machine.receive_data(octets):
                if isinstance(event, Joined):
                    self.machine.submit(_facts(self.rank, (1, 1)))
                self.negotiated |= isinstance(event, Negotiated)
        except (PeerError, StartupError, JobError) as error:
            if not is_shown(str(error)):
                raise Crash(f"not fit for a terminal: {error!s:.200}") from None
            self.error = str(error)


class _Game:
    """One input."""

    def __init__(self, rng: Random, reached: Counter[str]) -> None:
        self.rng, self.reached = rng, reached
        self.count = 1 + int(rng.random() * 2)
        accepts = _accepted(rng.random())
        self.server = ServerMachine(self.count, accepts, rng.randbytes)
        self.forger = Forger(rng, _EARLIER)
        self.honest = [
            _Honest(rng, rank, _TLS if accepts is _TLS else _ALONE)
            for rank in range(self.count)
        ]
        self.liars = range(self.count, self.count + 1 + int(rng.random() * 3))
        self.scripts = {conn: self.script() for conn in self.liars}
        self.changes = rng.random() < 0.3
        """Whether somebody sits between client 0 and the server."""
        self.changed = False
        self.sent: dict[int, bytearray] = {
            conn: bytearray() for conn in range(self.count)
        }
        self.got: dict[int, bytearray] = {
            conn: bytearray() for conn in range(self.count)
        }
        self.refused: set[int] = set()
        self.failed = self.started = self.over = self.deep = False

    def script(self) -> list[bytes]:
        """Return the octets of somebody without the secret."""
        forger, rng = self.forger, self.rng
        method = rng.random()
        mask = (
            3 << 30
            if method < 0.7
            else 1 << 31 | 3
            if method < 0.8
            else int(rng.random() * 2**32)
        )
        parts = [encode_command(Command.AUTH, _MASK.pack(mask)), b"?"]
        rank = int(rng.random() * (self.count + 1))
        parts += (
            [encode_command(Command.IMPI, rank.to_bytes(4, "big"))]
            if rng.random() < 0.8
            else []
        )
        for _ in range(int(rng.random() * 4)):
            parts.append(
                forger.one_of(
                    lambda: encode_command(
                        Command.COLL, _MASK.pack(0x1000) + forger.octets(8)
                    ),
                    lambda: encode_command(Command.DONE),
                    lambda: encode_command(OwnCommand.SEAL, forger.octets(32)),
                    lambda: encode_command(OwnCommand.PROV, forger.octets(64)),
                    lambda: encode_reason("\x1b[2Jthe end", 9),
                    lambda: encode_command(Command.FINI),
                    lambda: BEAT,
                    lambda: forger.octets(64),
                    lambda: (
                        _MASK.pack(Command.AUTH & 0xFFFFFFFF)
                        + b"\0\0\x04\0"
                        + bytes(2000)
                    ),
                )
            )
        return parts

    def feed(self, conn: int, octets: bytes) -> None:
        Octets.fed += len(octets)
        if conn in self.refused or self.over:
            return
        for event in self.server.receive_data(conn, octets):
            self.reached[type(event).__name__] += 1
            if (
                isinstance(event, ClientJoined | AuthenticatedByNone)
                and conn in self.liars
            ):
                raise Crash(f"somebody without the secret is let in: {event}")
            if isinstance(event, JobFailed):
                if not self.changed:
                    raise Crash(
                        f"the job ends although nothing was changed: {event.reason}"
                    )
                self.failed = self.over = True
            if isinstance(event, ConnectionRefused):
                self.refused.add(conn)
                self.deep |= "has not proved" in event.reason
                self.reached[
                    "refused: " + without_numbers(event.reason.partition(": ")[2])
                ] += 1
            if isinstance(event, JobFailed | ConnectionRefused) and not is_shown(
                event.reason
            ):
                raise Crash(f"not fit for a terminal: {event.reason}")
            self.started |= isinstance(event, JobStarted)
            self.over |= isinstance(event, JobOver)
        connection = self.server._connections.get(conn)
        if (
            conn in self.liars
            and connection is not None
            and len(connection.channel.reader) > _STRANGER + len(octets)
        ):
            raise Crash("a stranger makes the server hold more than its limit")

    def passes(self, octets: bytes) -> bytes:
        """Return the effect of octets on the connection of client 0."""
        if not self.changes or self.changed or not octets or self.rng.random() < 0.8:
            return octets
        at = int(self.rng.random() * len(octets))
        other = self.forger.one_of(
            lambda: (
                octets[:at]
                + bytes([octets[at] ^ 1 << int(self.rng.random() * 8)])
                + octets[at + 1 :]
            ),
            lambda: octets[:at],
            lambda: octets[:at] + self.forger.octets(8) + octets[at:],
            lambda: octets + octets,
        )
        self.changed = other != octets
        return other

    def honest_turn(self, conn: int) -> None:
        client = self.honest[conn]
        octets = client.says()
        self.forger.hears(octets)
        passed = self.passes(octets) if conn == 0 else octets
        self.got[conn] += passed
        self.feed(conn, passed)
        answer = self.server.data_to_send(conn)
        self.sent[conn] += answer
        self.forger.hears(answer)
        client.hears(self.passes(answer) if conn == 0 else answer)

    def liar_turn(self, conn: int) -> None:
        part = self.scripts[conn].pop(0)
        # The greeting is made late: by then it has heard more.
        for piece in self.forger.pieces(
            self.forger.octets(_GREETING) if part == b"?" else part
        ):
            self.feed(conn, piece)
        self.forger.hears(self.server.data_to_send(conn))

    def play(self) -> bool:
        for conn in range(self.liars.stop):
            self.server.connected(conn, "peer")
        while any(self.scripts.values()):
            conn = int(self.rng.random() * self.liars.stop)
            if conn < self.count:
                self.honest_turn(conn)
            elif self.scripts[conn]:
                self.liar_turn(conn)
        before = -1
        while before < (
            now := sum(len(client.sent) + len(client.heard) for client in self.honest)
        ):
            before = now
            # The first one hears of the last one
            for conn in (*range(self.count), *range(self.count)):
                self.honest_turn(conn)
        self.judge()
        return self.deep

    def judge(self) -> None:
        """Nothing that was changed is part of a start-up that is complete; else all is well."""
        self.changes = False  # FINI is not sealed
        self.reached["changed on its way" if self.changed else "not changed"] += 1
        if not self.changed:
            if not self.started or not all(client.negotiated for client in self.honest):
                raise Crash(
                    f"an honest start-up was spoilt: {[client.error for client in self.honest]}"
                )
            for client in self.honest:
                client.machine.finish()
            for conn in range(self.count):
                self.honest_turn(conn)
            if not self.over:
                raise Crash("the job does not end")
            return
        if self.started and self.got[0] != self.honest[0].sent:
            raise Crash(
                "the server has begun a job with octets that the client has not sent"
            )
        if (
            self.honest[0].negotiated
            and not self.honest[0].error
            and self.honest[0].heard != self.sent[0]
        ):
            raise Crash(
                "the client has begun a job with octets that the server has not sent"
            )
        for conn in range(self.count):
            error = self.honest[conn].machine.eof()
            if not isinstance(error, ImpiError | None):
                raise Crash(f"no declared error: {error!r}")


def _earlier(method: Credentials) -> list[bytes]:
    """All that is heard of an earlier job with the same secret."""
    rng = Random(1)
    server, client, heard = (
        ServerMachine(1, method, rng.randbytes),
        _Honest(rng, 0, method),
        [],
    )
    server.connected(0, "peer")
    for _ in range(40):
        octets = client.says()
        server.receive_data(0, octets)
        answer = server.data_to_send(0)
        client.hears(answer)
        heard += [
            part
            for whole in (octets, answer)
            for part in (whole, whole[:64], whole[-64:])
            if part
        ]
        heard += [
            whole[at : at + 32]
            for whole in (octets, answer)
            for at in range(0, len(whole), 4)
        ][:40]
    assert client.negotiated
    return list(dict.fromkeys(part for part in heard if part))[:400]


_EARLIER: list[bytes] = _earlier(_ALONE) + _earlier(_TLS)


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: a forged proof was examined."""
    return _Game(rng, reached).play()
