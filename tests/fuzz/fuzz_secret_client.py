"""Fuzzes authentication by challenge at a client: what answers does not know the secret."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

from forger import Forger, is_shown
from fuzz_run import Crash, Octets, without_numbers
from fuzz_secret_server import _EARLIER, _SECRET

from impi.base.errors import PeerError
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.challenge import BEAT
from impi.protocol.startup.client import ClientMachine
from impi.protocol.wire import Command, OwnCommand, encode_command, encode_reason

__all__ = ["play"]

_BOTH = Credentials((Method.CHALLENGE, Method.TLS), 0, _SECRET)
_INT4 = struct.Struct(">i")
_LIMIT = 1024 + 8


def _method(rng: Random, forger: Forger) -> bytes:
    choice = rng.random()
    if choice < 0.85:
        return encode_command(
            _BOTH.methods[int(rng.random() * 2)],
            forger.octets(32)[:32].ljust(32, b"\0"),
        )
    if choice < 0.9:
        return encode_command(Method.CHALLENGE, forger.octets(32))
    return encode_command(int(rng.random() * 40) - 2, b"")


def _later(rng: Random, forger: Forger) -> bytes:
    return forger.one_of(
        lambda: encode_command(OwnCommand.PROV, forger.octets(64)),
        lambda: encode_command(
            OwnCommand.PROV, forger.octets(64)[:64].ljust(64, b"\0")
        ),
        lambda: encode_command(Command.IMPI, _INT4.pack(1 + int(rng.random() * 4))),
        lambda: encode_command(Command.COLL, _INT4.pack(0x1000) + forger.octets(8)),
        lambda: encode_command(Command.DONE),
        lambda: encode_command(OwnCommand.SEAL, forger.octets(32)),
        lambda: encode_reason("\x1b[2J\x07the end\nof it", int(rng.random() * 300)),
        lambda: BEAT,
        lambda: (
            _INT4.pack(OwnCommand.PROV)
            + _INT4.pack(1 << int(rng.random() * 28))
            + bytes(4000)
        ),
        lambda: forger.octets(40),
    )


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input; deep: the client was challenged, and went on to hear the proof."""
    forger = Forger(rng, _EARLIER)
    machine = ClientMachine(int(rng.random() * 3), _BOTH, nonce=rng.randbytes(32))
    forger.hears(machine.data_to_send())
    challenged = False
    try:
        for turn in range(2 + int(rng.random() * 4)):
            part = _method(rng, forger) if turn == 0 else _later(rng, forger)
            for piece in forger.pieces(part):
                Octets.fed += len(piece)
                if events := machine.receive_data(piece):
                    raise Crash(f"a server without the secret brings about {events}")
                said = machine.data_to_send()
                if _SECRET in said:
                    raise Crash("the secret travels")
                challenged |= len(said) >= 64
                forger.hears(said)
                if len(machine._channel.reader) > _LIMIT + len(piece):
                    raise Crash(
                        "a server that has proved nothing makes the client hold more than a little"
                    )
            machine.beat()
            if machine.data_to_send():
                raise Crash("a server without the secret brings about a beat")
    except PeerError as error:
        if not is_shown(str(error)):
            raise Crash(f"not fit for a terminal: {error}") from error
        reached[f"{type(error).__name__}: {without_numbers(error.message)}"] += 1
        return challenged
    if machine.eof() is None:
        raise Crash("no error although nothing was proved")
    return challenged
