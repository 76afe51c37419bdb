"""The entrance of an owner with a loop: strangers go, members stay, and what is said of them."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from impi.base.records import record
from impi.rank.doors import strangers
from impi.rank.doors.entrance import Entrance
from impi.rank.vendors.dial import show_endpoint


@record(frozen=False, eq=False)
class Caller:
    sock: socket.socket
    address: str
    port: int


class World:
    """An owner that welcomes whoever says ``yes``, and keeps what others say."""

    def __init__(self, members: int = 0) -> None:
        self.said: list[str] = []
        self.heard: list[bytes | None] = []
        self.selector = selectors.DefaultSelector()
        self.entrance: Entrance[Caller] = Entrance(
            socket.create_server(("127.0.0.1", 0)),
            self.selector,
            members,
            make=Caller,
            read=self.read,
            show=show_endpoint,
            warn=self.said.append,
        )
        host, _, port = self.entrance.endpoint.rpartition(":")
        self.where = (host, int(port))

    def read(self, caller: Caller) -> None:
        data = self.entrance.receive(caller, 100)
        self.heard.append(data)
        self.entrance.spoke(caller)
        if data == b"yes":
            self.entrance.welcome(caller)
        elif data == b"guess":
            self.entrance.refuse(caller, "guessed", guess=True)
        elif data == b"no":
            self.entrance.refuse(caller, "said no")
        elif data == b"":
            self.entrance.drop(caller)

    def turn(self) -> None:
        for key, _ in self.selector.select(min(5.0, self.entrance.patience + 0.01)):
            key.data()

    def come(self, word: bytes = b"") -> socket.socket:
        sock = socket.create_connection(self.where)
        self.turn()
        if word:
            sock.sendall(word)
            self.turn()
        return sock


@pytest.fixture
def world() -> Iterator[World]:
    here = World()
    yield here
    here.entrance.close()
    here.selector.close()


def test_a_member_stays_and_a_stranger_has_its_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.come(b"yes") as member, world.come() as stranger:
        assert 0 < world.entrance.patience <= strangers.AGE_S
        monkeypatch.setattr(world.entrance._strangers, "_age_s", 0.0)
        world.entrance.turn()
        assert stranger.recv(1) == b""
        [caller] = world.entrance
        assert world.entrance.send(caller, b"welcome")
        assert member.recv(7) == b"welcome"
        assert world.entrance.patience == float("inf")
    name = world.entrance.endpoint
    assert [line.partition(" from ")[0] for line in world.said] == [
        f"closed a connection to {name}"
    ]
    assert world.said[0].endswith(", which has not said in time what it is")


def test_refusals_of_strangers_are_counted_and_those_of_members_are_told(
    world: World,
) -> None:
    for _ in range(3):
        with world.come(b"no") as sock:
            assert sock.recv(1) == b""
    assert len(world.said) == 1
    for _ in range(2):
        with world.come(b"yes"):
            [caller] = world.entrance
            world.entrance.refuse(caller, "came twice", known=True)
    assert len(world.said) == 3


def test_what_was_closed_in_this_turn_is_not_read(world: World) -> None:
    with world.come() as sock:
        [caller] = world.entrance
        sock.sendall(b"late")
        world.entrance.drop(caller)
        world.entrance.drop(caller)
        world.read(caller)
    assert world.heard == [None]


def test_a_socket_can_be_left_to_somebody_else(world: World) -> None:
    with world.come(b"yes") as sock:
        [caller] = world.entrance
        assert world.entrance.forget(caller)
        assert not world.entrance.forget(caller)
        caller.sock.sendall(b"still open")
        assert sock.recv(10) == b"still open"
        caller.sock.close()


def test_a_crowd_makes_room_for_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "room", lambda members: 1 + members)
    monkeypatch.setattr(strangers, "_WORDLESS_S", 0.0)
    here = World(members=1)
    with here.come(b"hm") as spoke, here.come() as silent, here.come():
        assert silent.recv(1) == b""
        assert len(list(here.entrance)) == 2
        here.entrance.close()
        assert spoke.recv(1) == b""
    here.selector.close()
    assert "was closed to make room for others" in here.said[0]


def test_who_guesses_has_to_wait_and_others_do_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("impi.rank.doors.entrance.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(strangers, "_network", str)  # 127/8 is one address otherwise
    for _ in range(4):
        with world.come(b"guess"):
            pass
    with world.come(b"yes") as waiting:
        assert b"yes" not in world.heard, "nothing of it is read"
        assert 0 < world.entrance.patience <= 0.1
        world.entrance.turn()
        with socket.create_connection(
            world.where, source_address=("127.0.0.9", 0)
        ) as other:
            world.turn()
            other.sendall(b"yes")
            world.turn()
            assert world.heard.count(b"yes") == 1
            clock[0] += 0.2
            world.entrance.turn()
            world.turn()
            assert world.heard.count(b"yes") == 2
        waiting.close()


def test_a_paused_connection_can_be_dropped(world: World) -> None:
    for _ in range(4):
        with world.come(b"guess"):
            pass
    with world.come() as waiting:
        [caller] = list(world.entrance)
        world.entrance.drop(caller)
        assert waiting.recv(1) == b""
        assert world.entrance.patience == float("inf")


def test_what_a_paused_connection_has_said_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence is our doing: the silent go before it."""
    monkeypatch.setattr(strangers, "_WORDLESS_S", 0.0)
    for _ in range(4):
        with world.come(b"guess"):
            pass
    monkeypatch.setattr(world.entrance._strangers, "_most", 2)
    with world.come(b"yes") as paused, world.come() as silent, world.come():
        assert b"yes" not in world.heard
        assert silent.recv(1) == b""
        assert next(iter(world.entrance)).port == paused.getsockname()[1]


def test_there_is_room_before_a_connection_is_accepted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.entrance._strangers, "_most", 1)
    most: list[int] = []
    make = world.entrance._make
    monkeypatch.setattr(
        world.entrance,
        "_make",
        lambda *peer: most.append(len(list(world.entrance))) or make(*peer),
    )
    with world.come(), world.come(), world.come():
        assert most == [0, 0, 0]


def test_listeners_can_be_left_to_their_owner(world: World) -> None:
    [listener] = world.entrance.leave()
    world.entrance.close()
    with (
        listener,
        socket.create_connection(world.where) as late,
        listener.accept()[0] as ours,
    ):
        ours.sendall(b"later")
        assert late.recv(5) == b"later"
