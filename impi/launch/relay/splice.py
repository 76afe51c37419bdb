"""The parts that both ends of a relay use: octets between two sockets, and the proof.

A connection to a relay begins with :data:`MARK`, a token and a nonce; then both ends prove that
they know the key (:mod:`impi.protocol.proofs`). The token :data:`OWNER` asks for endpoints; any
other token names a visitor. The owner's connection goes on with orders
(:mod:`impi.launch.relay.orders`).
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from contextlib import suppress
from typing import Final

from impi.base.errors import PeerError
from impi.protocol.proofs import ANSWER_SIZE, Knock
from impi.rank.doors.introduce import new_nonce
from impi.rank.vendors.dial import without_delay

MARK: Final = b"IMPIRLAY"
TOKEN_SIZE: Final = 16
OWNER: Final = bytes(TOKEN_SIZE)
"""The token of a connection that asks for endpoints."""
HEAD_SIZE: Final = len(MARK) + TOKEN_SIZE
# Most octets in memory for each direction of a splice; more wait in the sender
_CHUNK: Final = 1 << 17
# Seconds of idleness, seconds between probes, number of probes: a splice ends when its link is cut.
_KEEPALIVE: Final = (15, 5, 6)
_AT_ONCE: Final = struct.pack("ii", 1, 0)


async def splice(
    one: socket.socket, other: socket.socket, sent: asyncio.Event | None = None
) -> None:
    """Pass octets both ways until both have ended; the caller closes the sockets.

    When one direction ends, its end is passed on, and the other direction goes on. A reset on one
    side becomes a reset on the other.

    Args:
        one: a connected, non-blocking socket.
        other: a connected, non-blocking socket.
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

        # Lingering for 0 s turns the caller's close into a reset.
        for sock in (one, other):
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop, room = asyncio.get_running_loop(), memoryview(bytearray(_CHUNK))
    while nbytes := await loop.sock_recv_into(source, room):
        await loop.sock_sendall(target, room[:nbytes])
        # Sockets that are always ready would starve all other tasks
        await asyncio.sleep(0)

    # One direction only. A host that has sent its FINI still reads until
    # the other's has come (IMPI 3.8).
    target.shutdown(socket.SHUT_WR)


def open_more_files() -> None:
    """Raise the limit of open files to the highest allowed: each splice takes two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def exactly(sock: socket.socket, nbytes: int) -> bytes:
    """Return exactly ``nbytes`` octets.

    Raises:
        OSError: the connection ended before that.
    """
    data = bytearray()
    while len(data) < nbytes:
        piece = await asyncio.get_running_loop().sock_recv(sock, nbytes - len(data))
        if not piece:
            raise ConnectionError("it closed the connection")

        data += piece

    return bytes(data)


async def knock(sock: socket.socket, token: bytes, key: bytes) -> None:
    """Tell a relay by a token for which visitor this connection is, and prove the key.

    Raises:
        OSError: the relay has closed the connection.
        PeerError: it does not know the key.
    """

    head = MARK + token
    loop, proof = asyncio.get_running_loop(), Knock(key, head, new_nonce())
    await loop.sock_sendall(sock, head + proof.nonce)

    closing = proof.closing(await exactly(sock, ANSWER_SIZE))
    if closing is None:
        raise PeerError("the answer does not come from a relay of this job")

    await loop.sock_sendall(sock, closing)
