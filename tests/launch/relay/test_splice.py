"""Both ends of a relay: octets between two sockets, and the proof."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from impi.base.errors import PeerError
from impi.launch.relay import splice as relay
from impi.launch.relay.splice import (
    MARK,
    TOKEN_SIZE,
    exactly,
    knock,
)
from impi.protocol.proofs import NONCE_SIZE, PROOF_SIZE, Keeper


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection that do not block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    one.setblocking(False)
    other.setblocking(False)
    return one, other


def test_octets_pass_both_ways_until_both_have_ended() -> None:
    async def run() -> None:
        (outer, one), (other, inner) = pair(), pair()
        sent = asyncio.Event()
        task = asyncio.create_task(relay.splice(one, other, sent))
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(outer, b"there")
        assert await exactly(inner, 5) == b"there"
        outer.shutdown(socket.SHUT_WR)
        assert await loop.sock_recv(inner, 9) == b""
        await sent.wait()
        assert not task.done()
        await loop.sock_sendall(inner, b"back")
        assert await exactly(outer, 4) == b"back"
        inner.close()
        await task
        with pytest.raises(ConnectionError, match="it closed the connection"):
            await exactly(outer, 1)
        for sock in (outer, one, other):
            sock.close()

    asyncio.run(run())


@pytest.mark.parametrize("same", [True, False])
def test_both_ends_prove_the_key(same: bool) -> None:
    token, key = bytes(range(TOKEN_SIZE)), b"k" * 32

    async def serve(sock: socket.socket) -> bool:
        head = await exactly(sock, len(MARK) + TOKEN_SIZE)
        assert head == MARK + token
        keeper = Keeper(
            key if same else b"o" * 32,
            head,
            await exactly(sock, NONCE_SIZE),
            bytes(NONCE_SIZE),
        )
        await asyncio.get_running_loop().sock_sendall(sock, keeper.answer)
        return same and keeper.accepts(await exactly(sock, PROOF_SIZE))

    async def run() -> None:
        one, other = pair()
        served = asyncio.create_task(serve(other))
        if same:
            await knock(one, token, key)
        else:
            with pytest.raises(
                PeerError, match="the answer does not come from a relay of this job"
            ):
                await knock(one, token, key)
        assert await served is same
        one.close()
        other.close()

    asyncio.run(run())


def test_as_many_files_as_there_may_be() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[1]), before[1]))
        relay.open_more_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
