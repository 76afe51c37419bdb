"""Introductions over real sockets: those that are awaited come in, and nobody else."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from impi.base.errors import PeerError
from impi.protocol.proofs import ANSWER_SIZE, Knock, prove
from impi.rank.doors import entrance
from impi.rank.doors.introduce import introduce, new_nonce, receive_exactly
from impi.rank.doors.reception import Claim, receive
from impi.rank.doors.strangers import Strangers

SECRET = b"correct horse battery"
WAIT_S = 30.0


class World:
    """A process that awaits numbers; odd ones need no proof."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.said: list[str] = []
        self.pool = ThreadPoolExecutor(4)

    def claim(self, head: bytes, address: str) -> Claim:
        assert address == "127.0.0.1"
        if len(head) != 1 or head[0] > 9:
            raise PeerError("that is not a number", octets=head)
        return Claim(head[0], b"" if head[0] % 2 else SECRET, bytes([head[0]]))

    def receive(
        self, *awaited: int, seconds: float = WAIT_S
    ) -> dict[int, socket.socket]:
        return receive(
            [self.listener],
            awaited,
            1,
            self.claim,
            time.monotonic() + seconds,
            self.said.append,
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(self.listener.getsockname(), WAIT_S)

    def close(self) -> None:
        self.pool.shutdown()
        self.listener.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def ended(sock: socket.socket) -> bool:
    try:
        while sock.recv(1000):
            pass
    except ConnectionResetError:
        pass
    sock.close()
    return True


def test_those_that_are_awaited_come_in(world: World) -> None:
    waiting = world.pool.submit(world.receive, 2, 3)
    with world.connect() as plain, world.connect() as proving:
        assert introduce(plain, b"\3", b"", b"")
        assert introduce(proving, b"\2", SECRET, b"\2")
        links = waiting.result(WAIT_S)
        assert sorted(links) == [2, 3]
        for number, ours in ((2, proving), (3, plain)):
            links[number].sendall(b"x")
            assert ours.recv(1) == b"x"
            links[number].close()
    assert world.said == []


def test_what_does_not_come_is_missing_at_the_deadline(world: World) -> None:
    with world.connect() as silent:
        assert world.receive(2, seconds=0.05) == {}
        assert ended(silent)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"\x63", "that is not a number"),
        (b"", "that is not a number"),
        (b"\2IMPI", "ends without its proof"),
    ],
)
def test_strangers_are_closed_and_delay_nobody(
    world: World, octets: bytes, why: str
) -> None:
    """A peer that ends by itself is reported last: as part of a lost job, it would hide why."""
    waiting = world.pool.submit(world.receive, 1)
    stranger = world.connect()
    stranger.sendall(octets)
    stranger.shutdown(socket.SHUT_WR)
    assert ended(stranger)
    assert octets == b"\x63" or world.said == []
    with world.connect() as honest:
        introduce(honest, b"\1", b"", b"")
        waiting.result(WAIT_S)[1].close()
    [said] = world.said
    assert said.startswith("connection of 127.0.0.1:")
    assert why in said


@pytest.mark.parametrize(
    ("secret", "about"), [(b"another secret", b"\2"), (SECRET, b"\4")]
)
def test_a_wrong_secret_or_another_pair_is_refused(
    world: World, secret: bytes, about: bytes
) -> None:
    waiting = world.pool.submit(world.receive, 2)
    liar = world.connect()
    knock = Knock(secret, about, new_nonce())
    liar.sendall(b"\2" + knock.nonce)
    answer = receive_exactly(liar, ANSWER_SIZE)
    assert knock.closing(answer) is None  # the honest end would leave here
    liar.sendall(prove(secret, "knock", about, knock.nonce, answer[:32]))
    assert ended(liar)
    with world.connect() as honest:
        assert introduce(honest, b"\2", SECRET, b"\2")
        waiting.result(WAIT_S)[2].close()
    assert "does not know this job's secret" in world.said[0]


def test_a_second_claim_to_a_number_is_refused(world: World) -> None:
    waiting = world.pool.submit(world.receive, 1, 2)
    with world.connect() as first, world.connect() as last:
        introduce(first, b"\1", b"", b"")
        second = world.connect()
        introduce(second, b"\1", b"", b"")
        assert ended(second)
        assert introduce(last, b"\2", SECRET, b"\2")
        for sock in waiting.result(WAIT_S).values():
            sock.close()
    assert "number 1, but that one has a connection already" in world.said[0]


def test_the_silent_have_their_time_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        entrance, "Strangers", lambda members: Strangers(members, age_s=0.05)
    )
    waiting = world.pool.submit(world.receive, 1)
    assert ended(world.connect())
    with world.connect() as honest:
        introduce(honest, b"\1", b"", b"")
        waiting.result(WAIT_S)[1].close()
    assert "has not said in time what it is" in world.said[0]
