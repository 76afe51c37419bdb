"""Fuzzes a client's machine: a mostly correct server, and other clients with any facts."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import PeerError, StartupError
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import (
    ALL_VERSIONS,
    STRICT_VERSIONS,
    ClientMachine,
    Joined,
)
from impi.protocol.startup.facts import (
    ClientFacts,
    HostFacts,
    ProcFacts,
    encode_facts,
    encode_versions,
)

__all__ = ["play"]

_CREDENTIALS = [
    Credentials((Method.NONE,)),
    Credentials((Method.KEY,), 5678),
    Credentials((Method.KEY, Method.NONE), 5678),
]
_HEAD = struct.Struct(">4si")
_CHDR = struct.Struct(">iI")
_INT4 = struct.Struct(">i")
_LENGTHS = [0, 1, 3, 4, 7, 8, 1024, 1025, 2**27, 2**27 + 1, 2**31 - 1, -1, -(2**31)]
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


def _facts(client: int, shares: tuple[int, ...]) -> ClientFacts:
    hosts = []
    for host, nprocs in enumerate(shares):
        here = bytes(12) + bytes([10, 0, client, host])
        hosts.append(
            HostFacts(here, 5000, tuple(ProcFacts(here, i) for i in range(nprocs)))
        )
    return ClientFacts(hosts=tuple(hosts))


_MINE = _facts(1, (1, 2))
_THEIRS = [
    _facts(client, shares)
    for client, shares in ((0, (1,)), (2, (2, 1)), (3, (1, 1, 1)))
]
_VERSIONS = [
    encode_versions(STRICT_VERSIONS),
    encode_versions(ALL_VERSIONS),
    encode_versions([(0, 0), (0, 1), (7, 7)]),
]


def _command(name: bytes, payload: bytes = b"") -> bytes:
    return _HEAD.pack(name, len(payload)) + payload


def _broadcasts(rng: Random, nclients: int) -> list[tuple[int, bytearray]]:
    """The fourteen labels of a job whose client 1 we are."""
    clients = [_THEIRS[0], _MINE, *_THEIRS[1:]][:nclients]
    whole = [
        (0x1000, bytearray(b"".join(_VERSIONS[int(rng.random() * 3)] for _ in clients)))
    ]
    for values in zip(*(encode_facts(facts) for facts in clients), strict=True):
        whole.append(
            (int(values[0][0]), bytearray(b"".join(data for _, data in values)))
        )
    return whole


def _damage(rng: Random, data: bytearray) -> None:
    choice = int(rng.random() * 4)
    if choice == 0 and data:
        data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)
    elif choice == 1:
        del data[int(rng.random() * (len(data) + 1)) :]
    elif choice == 2:
        data += rng.randbytes(int(rng.random() * 20))
    elif data:
        at = 4 * int(rng.random() * (len(data) // 4))
        data[at : at + 4] = rng.choice(
            (b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0")
        )


def _broken(rng: Random, part: bytes) -> bytes:
    choice = int(rng.random() * 6)
    if choice == 0:
        return part[: int(rng.random() * len(part))]
    if choice == 1:
        return rng.randbytes(int(rng.random() * 40))
    if choice == 2:
        return part + part
    data = bytearray(part)
    if choice == 3:
        data[4:8] = _INT4.pack(_LENGTHS[int(rng.random() * len(_LENGTHS))])
    elif choice == 4:
        data[0:4] = _NAMES[int(rng.random() * len(_NAMES))]
    else:
        data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)
    return bytes(data)


def _script(rng: Random, credentials: Credentials, wrong: float) -> list[bytes]:
    """Return the octets of the server."""
    nclients = 2 + int(rng.random() * 3)
    method = credentials.methods[int(rng.random() * len(credentials.methods))]
    parts = [_INT4.pack(method) + bytes(4), _command(b"IMPI", _INT4.pack(nclients))]
    mask = (1 << nclients) - 1
    for label, data in _broadcasts(rng, nclients):
        if rng.random() < wrong:
            _damage(rng, data)
        seen = mask ^ 1 << int(rng.random() * 5) if rng.random() < wrong * 0.3 else mask
        parts.append(_command(b"COLL", _CHDR.pack(label, seen) + data))
        if rng.random() < 0.02:
            parts.append(_command(b"COLL", _CHDR.pack(label + 1, 1) + b"unknown"))
    parts.append(_command(b"DONE"))
    return [
        _broken(rng, part) if rng.random() < wrong * 0.3 else part for part in parts
    ]


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input."""
    credentials = _CREDENTIALS[int(rng.random() * 3)]
    machine = ClientMachine(
        1, credentials, ALL_VERSIONS if rng.random() < 0.5 else STRICT_VERSIONS
    )
    joined = False
    last = ""
    try:
        for part in _script(rng, credentials, rng.random() * 0.2):
            cut = int(rng.random() * len(part)) if part and rng.random() < 0.2 else 0
            for piece in (part[:cut], part[cut:]) if cut else (part,):
                Octets.fed += len(piece)
                for event in machine.receive_data(piece):
                    last = type(event).__name__
                    reached[last] += 1
                    if isinstance(event, Joined):
                        joined = True
                        machine.submit(_MINE)
                Octets.fed += len(machine.data_to_send())
    except (PeerError, StartupError) as error:
        if not error.clause or not str(error):
            raise Crash("an error without a clause") from error
        reached[
            f"{type(error).__name__} {error.clause}: {without_numbers(error.message)}"
        ] += 1
        return joined
    if last == "Negotiated":
        machine.finish()
        machine.data_to_send()
        if machine.eof() is not None:
            raise Crash("an error after FINI")
    elif machine.eof() is None:
        raise Crash("no error although the job was never complete")
    return joined
