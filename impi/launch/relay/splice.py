"""What both ends of a relay do: octets between two sockets, lines of JSON, and the proof.

A connection to a relay begins with :data:`MARK` and a token, then a nonce; both ends then prove
that they know the key (:mod:`impi.protocol.proofs`). The token :data:`OWNER` asks for endpoints;
any other one is that of a visitor of an endpoint. The owner's connection goes on in lines of JSON,
see :mod:`impi.launch.relay.far_end`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import struct
from contextlib import suppress
from typing import Final

from impi.base.errors import PeerError
from impi.launch.pulse import BEAT_S
from impi.protocol.proofs import ANSWER_SIZE, Knock
from impi.rank.doors.introduce import new_nonce
from impi.rank.vendors.dial import without_delay

MARK: Final = b"IMPIRLAY"
TOKEN_SIZE: Final = 16
OWNER: Final = bytes(TOKEN_SIZE)
"""In place of a token: this connection asks for endpoints."""
HEAD_SIZE: Final = len(MARK) + TOKEN_SIZE
MOST_LINE: Final = 1 << 16
"""Longest line in octets: the ports of some 9000 endpoints."""
_CHUNK: Final = 1 << 17  # octets that wait for a socket, in each direction of a splice; more wait in the kernel
# Seconds of idleness, seconds between probes, and their number: nothing lasts on a cut link.
_KEEPALIVE: Final = (15, 5, 6)
_AT_ONCE: Final = struct.pack("ii", 1, 0)


async def splice(one: socket.socket, other: socket.socket, sent: asyncio.Event | None = None) -> None:
    """Pass octets both ways until both have ended; the caller closes the sockets.

    The end of one direction is passed on, and the other one goes on. A reset becomes a reset.

    Args:
        one: connected; does not block.
        other: connected; does not block.
        sent: set once the direction from ``one`` to ``other`` has ended.
    """
    for sock in (one, other):
        without_delay(sock, _KEEPALIVE)
    pumps = [asyncio.create_task(_pump(*ends)) for ends in ((one, other), (other, one))]
    if sent is not None:
        pumps[0].add_done_callback(lambda _: sent.set())
    try:
        await asyncio.gather(*pumps)
    except BaseException as error:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        if not isinstance(error, OSError):
            raise
        for sock in (one, other):
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop, room = asyncio.get_running_loop(), memoryview(bytearray(_CHUNK))
    while nbytes := await loop.sock_recv_into(source, room):
        await loop.sock_sendall(target, room[:nbytes])
        await asyncio.sleep(0)  # sockets that are always ready would let nobody else have a turn
    target.shutdown(socket.SHUT_WR)


def open_more_files() -> None:
    """Let this process have as many descriptors as it may: each splice has two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def exactly(sock: socket.socket, nbytes: int) -> bytes:
    """Return so many octets.

    Raises:
        OSError: the connection ended before.
    """
    data = bytearray()
    while len(data) < nbytes:
        piece = await asyncio.get_running_loop().sock_recv(sock, nbytes - len(data))
        if not piece:
            raise ConnectionError("it closed the connection")
        data += piece
    return bytes(data)


async def knock(sock: socket.socket, token: bytes, key: bytes) -> None:
    """Say to a relay which visitor this connection is for, and prove the key.

    Raises:
        OSError: the relay has closed the connection.
        PeerError: it does not know the key.
    """
    head = MARK + token
    loop, proof = asyncio.get_running_loop(), Knock(key, head, new_nonce())
    await loop.sock_sendall(sock, head + proof.nonce)
    closing = proof.closing(await exactly(sock, ANSWER_SIZE))
    if closing is None:
        raise PeerError("what answers is no relay of this job")
    await loop.sock_sendall(sock, closing)


def tell(writer: asyncio.StreamWriter, **word: object) -> None:
    """Write a line; none of :func:`beat` comes into the middle of it."""
    writer.write(encode(word))


def encode(word: dict[str, object]) -> bytes:
    """Return the line of a word."""
    return json.dumps(word).encode() + b"\n"


async def hear(reader: asyncio.StreamReader, limit_s: float) -> dict[str, object] | None:
    """Return the next line; None: the connection has ended.

    Raises:
        TimeoutError: nothing has come for ``limit_s`` seconds; 0: there is no limit.
        PeerError: it is no line of JSON.
    """
    try:
        async with asyncio.timeout(limit_s or None):
            line = await reader.readline()
    except TimeoutError:
        raise
    except OSError:
        return None
    except ValueError:
        raise PeerError(f"sent a line of more than {MOST_LINE} octets") from None
    return decode(line) if line.endswith(b"\n") else None


def decode(line: bytes) -> dict[str, object]:
    """Return the word of a line; PeerError: it has none."""
    try:
        word = json.loads(line)
    except (ValueError, RecursionError):
        word = None
    if not isinstance(word, dict):
        raise PeerError("sent no JSON object", octets=line)
    return word


async def beat(writer: asyncio.StreamWriter) -> None:
    """Say every :data:`~impi.launch.pulse.BEAT_S` seconds that this process runs."""
    with suppress(OSError):
        while True:
            tell(writer)
            await writer.drain()
            await asyncio.sleep(BEAT_S)
