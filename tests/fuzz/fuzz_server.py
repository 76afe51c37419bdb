"""Fuzzes the server: some connections, most of them clients that mostly keep to chapter 2."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

from fuzz_run import Crash, Octets, without_numbers

from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.server import ConnectionRefused, JobFailed, ServerMachine

__all__ = ["play"]

_NONE = Credentials((Method.NONE,))
_KEY = Credentials((Method.KEY,), 5678)
_BOTH = Credentials((Method.KEY, Method.NONE), 5678)
_HEAD = struct.Struct(">4si")
_INT4 = struct.Struct(">i")
_LENGTHS = [0, 1, 3, 4, 5, 8, 1024, 1025, 2**22, 2**22 + 1, 2**31 - 1, -1, -(2**31)]
_NAMES = [
    b"AUTH",
    b"IMPI",
    b"COLL",
    b"DONE",
    b"FINI",
    b"PING",
    b"\xff\xff\xff\xff",
    bytes(4),
]
_RIGHT_KEY = (5678).to_bytes(8, "big")


def _command(name: bytes, payload: bytes = b"") -> bytes:
    return _HEAD.pack(name, len(payload)) + payload


def _script(rng: Random, credentials: Credentials, rank: int) -> list[bytes]:
    """Return the octets of a client that does everything right; labels of its own choice."""
    key = credentials is _KEY or (credentials is _BOTH and rng.random() < 0.5)
    parts = [_command(b"AUTH", _INT4.pack(2 if key else 1))]
    if key:
        parts.append(_RIGHT_KEY)
    parts.append(_command(b"IMPI", _INT4.pack(rank)))
    label = 0
    for _ in range(int(rng.random() * 5)):
        label += 1 + int(rng.random() * 3)
        parts.append(
            _command(b"COLL", _INT4.pack(label) + bytes(int(rng.random() * 9)))
        )
    return [*parts, _command(b"DONE"), _command(b"FINI")]


def _broken(rng: Random, part: bytes) -> bytes:
    choice = int(rng.random() * 8)
    if choice == 0:
        return part[: int(rng.random() * len(part))]
    if choice == 1:
        return rng.randbytes(int(rng.random() * 40))
    if choice == 2:
        return part + part
    if choice == 3:
        return b""
    data = bytearray(part)
    if choice == 4:
        data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)
    elif choice == 5:
        data[4:8] = _INT4.pack(_LENGTHS[int(rng.random() * len(_LENGTHS))])
    elif choice == 6:
        data[0:4] = _NAMES[int(rng.random() * len(_NAMES))]
    else:
        data[8:12] = _INT4.pack(_LENGTHS[int(rng.random() * len(_LENGTHS))])
    return bytes(data)


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input."""
    nclients = 1 + int(rng.random() * 3)
    credentials = (_NONE, _KEY, _BOTH)[int(rng.random() * 3)]
    machine = ServerMachine(nclients, credentials)
    wrong = rng.random() * 0.12
    conns = nclients + (rng.random() < 0.3)
    scripts = []
    for conn in range(conns):
        machine.connected(conn, "peer")
        parts = _script(rng, credentials, min(conn, nclients - 1))
        scripts.append(
            [_broken(rng, part) if rng.random() < wrong else part for part in parts]
        )
    over = False
    before = reached["ClientJoined"]
    ends = [parts.pop() if rng.random() < 0.95 else b"" for parts in scripts]
    while any(scripts) or any(ends):
        if not any(scripts):
            # FINI comes when the job has begun
            scripts, ends = [[end] for end in ends], []
        conn = int(rng.random() * conns)
        if not scripts[conn]:
            conn = next(i for i in range(conns) if scripts[i])
        # Several commands in one read, or one in two.
        part = scripts[conn].pop(0)
        if scripts[conn] and rng.random() < 0.3:
            part += scripts[conn].pop(0)
        pieces = [part]
        if rng.random() < 0.2:
            cut = int(rng.random() * (len(part) + 1))
            pieces = [part[:cut], part[cut:]]
        for piece in pieces:
            Octets.fed += len(piece)
            over |= _events(machine.receive_data(conn, piece), reached, over)
        if over or rng.random() < 0.5:
            for other in range(conns):
                Octets.fed += len(machine.data_to_send(other))
    for conn in range(conns):
        over |= _events(machine.eof(conn), reached, over)
    for connection in machine._connections.values():
        if len(connection.channel.reader) > (1 << 22) + 8:
            raise Crash("more is held than one command")
    return reached["ClientJoined"] > before  # past AUTH, and past IMPI


def _events(events: object, reached: Counter[str], over: bool) -> bool:
    """Count them; whether the job has ended."""
    if events and over:
        raise Crash(f"events after the end: {events}")
    for event in events:  # type: ignore[attr-defined]
        name = type(event).__name__
        if isinstance(event, JobFailed | ConnectionRefused):
            if "(IMPI 2." not in event.reason:
                raise Crash(f"no clause: {event.reason}")
            name += ": " + without_numbers(event.reason.partition(": ")[2])
        reached[name] += 1
        over |= name == "JobOver" or isinstance(event, JobFailed)
    return over
