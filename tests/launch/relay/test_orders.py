"""Messages between an owner and its relay: lines of JSON in a TLS session."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from impi.base.errors import PeerError
from impi.launch.relay.orders import MOST_LINE, Orders, accepted, decode, encode
from impi.protocol.startup.encrypted import Stream
from impi.rank.vendors.secure_socket import open_stream

KEY = b"k" * 32


def test_lines() -> None:
    assert decode(encode({"ports": [1, 2]})) == {"ports": [1, 2]}
    for line in (b"[]\n", b"{", b"[" * 100000):
        with pytest.raises(PeerError, match="sent no JSON object"):
            decode(line)


def meet(
    owner: Callable[[socket.socket, Stream], object],
    relay: Callable[[Orders], Coroutine[Any, Any, None]],
    key: bytes = KEY,
) -> None:
    """Run an owner in a thread, and its relay."""
    one, other = socket.socketpair()

    def run() -> None:
        with one:
            try:
                stream = open_stream(one, key, 10.0)
            except (OSError, PeerError):
                return
            owner(one, stream)

    async def serve() -> None:
        reader, writer = await asyncio.open_connection(sock=other)
        try:
            await relay(await accepted(reader, writer, KEY))
        finally:
            writer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        asyncio.run(serve())
    finally:
        thread.join()


def test_what_is_heard() -> None:
    said = threading.Event()

    def owner(sock: socket.socket, stream: Stream) -> None:
        sock.sendall(stream.send(b'{"visit": "ab"}\n{"a": 1}\n{"cut'))
        said.wait()

    async def relay(orders: Orders) -> None:
        assert await orders.hear(1.0) == {"visit": "ab"}
        assert await orders.hear(1.0) == {"a": 1}
        with pytest.raises(TimeoutError):
            await orders.hear(0.01)
        said.set()
        assert await orders.hear(0.0) is None

    meet(owner, relay)


@pytest.mark.parametrize(
    ("octets", "sealed", "why"),
    [
        (b"x" * (2 * MOST_LINE), True, f"sent a line of more than {MOST_LINE} octets"),
        (b"7\n", True, "sent no JSON object"),
        (b'{"refuse": "ab"}\n' * 9, False, "has broken its TLS session"),
    ],
)
def test_what_is_not_taken(octets: bytes, sealed: bool, why: str) -> None:
    def owner(sock: socket.socket, stream: Stream) -> None:
        sock.sendall(stream.send(octets) if sealed else octets)

    async def relay(orders: Orders) -> None:
        with pytest.raises(PeerError, match=why):
            await orders.hear(1.0)

    meet(owner, relay)


def test_what_is_told_is_in_the_session() -> None:
    heard = bytearray()

    def owner(sock: socket.socket, stream: Stream) -> None:
        sock.sendall(stream.send(b"{}\n"))
        while b"\n" not in heard:
            octets = sock.recv(1 << 16)
            assert b"secret word" not in octets
            heard.extend(stream.receive(octets)[0])

    async def relay(orders: Orders) -> None:
        assert await orders.hear(5.0) == {}
        orders.tell(secret="secret word")
        await orders.drain()
        assert await orders.hear(5.0) is None

    meet(owner, relay)
    assert decode(bytes(heard)) == {"secret": "secret word"}


@pytest.mark.clause("2.2.4")
def test_who_does_not_know_the_key_gives_no_orders() -> None:
    async def relay(orders: Orders) -> None:
        raise AssertionError("it is let in")

    with pytest.raises(PeerError, match="the connection was intercepted"):
        meet(lambda _sock, _stream: None, relay, b"o" * 32)


LIMIT_S = 0.2


def test_what_came_while_this_process_was_late_is_heard() -> None:
    """A relay with many strangers, or on a busy machine, is late itself; its peer is not silent."""
    asked, said = threading.Event(), threading.Event()

    def owner(sock: socket.socket, stream: Stream) -> None:
        asked.wait()
        sock.sendall(stream.send(encode({"n": 1})))
        said.set()

    def late() -> None:
        asked.set()
        said.wait()
        until = time.monotonic() + 2 * LIMIT_S
        while time.monotonic() < until:
            said.wait(LIMIT_S)

    async def relay(orders: Orders) -> None:
        asyncio.get_running_loop().call_soon(late)
        assert await orders.hear(LIMIT_S) == {"n": 1}

    meet(owner, relay)
