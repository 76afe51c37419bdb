"""The control socket: who is let in, and what is answered."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from threading import Thread
from typing import Any

import pytest

from impi.base.errors import PeerError
from impi.launch.client import control as module
from impi.launch.client.control import Control
from impi.rank.doors.introduce import introduce
from impi.rank.vendors.meeting import CONTROL_HEAD
from impi.rank.vendors.secure_socket import open_session

WAIT_S = 10.0


class World:
    def __init__(self, size: int, agents: int = 0, *, tls: bool = False) -> None:
        self.selector = selectors.DefaultSelector()
        self.warnings: list[str] = []
        self.control = Control(
            "127.0.0.1",
            size,
            self.selector,
            self.warnings.append,
            agents=agents,
            tls=tls,
        )
        self.socks: list[socket.socket] = []

    def connect(self) -> socket.socket:
        host, _, port = self.control.endpoint.rpartition(":")
        sock = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self.socks.append(sock)
        return sock

    def enter(self) -> socket.socket:
        """A connection that has proved that it knows the token."""
        sock = self.connect()
        known: list[bool] = []
        secret = bytes.fromhex(self.control.token)
        thread = Thread(
            target=lambda: known.append(
                introduce(sock, CONTROL_HEAD, secret, CONTROL_HEAD)
            )
        )
        thread.start()
        self.until(lambda: known)
        thread.join()
        return sock

    def say(self, **fields: object) -> socket.socket:
        sock = self.enter()
        sock.sendall(json.dumps(fields).encode() + b"\n")
        return sock

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline
            self.turn(0.05)

    def turn(self, seconds: float) -> None:
        for key, _ in self.selector.select(seconds):
            key.data()
        self.control.entrance.turn()

    def close(self) -> None:
        self.control.close()
        self.selector.close()
        for sock in self.socks:
            sock.close()


def closed(sock: socket.socket) -> bool:
    """Whether the other end closes; a reset is a close, too."""
    try:
        while sock.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True


def _has_ended(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1000)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.fixture
def world() -> Iterator[World]:
    with closing(World(3)) as world:
        yield world


def test_rank0_is_answered_on_its_connection(world: World) -> None:
    sock = world.say(role="rank0", procs=[{"pid": 1}], tag_ub=7)
    world.until(lambda: world.control.rank0)
    assert world.control.rank0 is not None
    assert world.control.rank0["procs"] == [{"pid": 1}]
    world.control.answer({"job": {"x": 1}})
    assert json.loads(sock.makefile("rb").readline()) == {"job": {"x": 1}}


def test_pure_procs_learn_of_each_other_once_all_are_there(world: World) -> None:
    socks = {
        rank: world.say(role="pure", rank=rank, address=["a", rank]) for rank in (2, 0)
    }
    world.until(lambda: world.control.joined == {0, 2})
    socks[0].settimeout(0.1)
    with pytest.raises(TimeoutError):
        socks[0].recv(1)
    socks[0].settimeout(WAIT_S)
    socks[1] = world.say(role="pure", rank=1, address=["a", 1])
    world.until(lambda: len(world.control.joined) == 3)
    for sock in socks.values():
        assert json.loads(sock.makefile("rb").readline()) == {
            "peers": [["a", 0], ["a", 1], ["a", 2]]
        }


def test_joining_procs_are_counted_by_name(world: World) -> None:
    for pid in (1, 2, 2):
        world.say(role="joining", pid=pid, node="n")
    world.until(lambda: len(world.control.joined) == 2)
    assert world.warnings == []


def test_a_line_may_come_in_pieces(world: World) -> None:
    sock = world.enter()
    for octet in json.dumps({"role": "joining", "pid": 1}).encode() + b"\n":
        sock.sendall(bytes([octet]))
    world.until(lambda: world.control.joined)


@pytest.mark.parametrize(
    ("octets", "proved", "why"),
    [
        (
            b"GET / HTTP/1.0\r\nHost: x\r\nAccept: */*\r\n\r\n",
            False,
            "is not a process of a job",
        ),
        (b"[" * 200_000, False, "is not a process of a job"),
        (CONTROL_HEAD + bytes(64), False, "does not know this job's token"),
        (b"[]\n", True, "sent no JSON object"),
        (b"\xff\xfe\n", True, "sent no JSON object"),
        (b"[" * 200_000 + b"\n", True, "sent no JSON object"),
    ],
)
def test_strangers_are_closed_and_reported(
    octets: bytes, proved: bool, why: str, world: World
) -> None:
    sock = world.enter() if proved else world.connect()
    with suppress(ConnectionResetError, BrokenPipeError):
        sock.sendall(octets)
    world.until(lambda: world.warnings)
    assert closed(sock)
    [warning] = world.warnings
    assert why in warning
    assert "127.0.0.1:" in warning
    assert world.control.rank0 is None
    assert not world.control.joined


def test_who_guesses_tokens_waits_and_a_proc_still_comes(world: World) -> None:
    for _ in range(5):
        sock = world.connect()
        sock.sendall(CONTROL_HEAD + bytes(64))
        sock.setblocking(False)
        world.until(partial(_has_ended, sock))
    world.say(role="joining", pid=1, node="n")
    world.until(lambda: world.control.joined)
    assert "does not know this job's token" in world.warnings[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "other"},
        {"role": "pure", "rank": 3, "address": 1},
        {"role": "pure", "rank": -1, "address": 1},
        {"role": "pure", "rank": "0", "address": 1},
        {"role": "joining", "node": "n", "pid": {}},
        {"role": "joining", "node": ["n"], "pid": 7},
        {"role": "joining", "node": "n"},
        {},
    ],
)
def test_a_role_that_is_not_awaited(fields: dict[str, Any], world: World) -> None:
    sock = world.say(**fields)
    world.until(lambda: world.warnings)
    assert closed(sock)
    assert "where none was awaited" in world.warnings[0]


def test_what_a_proc_says_is_shown_and_not_obeyed(world: World) -> None:
    world.say(role="pure", rank="\x1b[2J\n")
    world.until(lambda: world.warnings)
    assert "rank '\\x1b[2J\\n', where none" in world.warnings[0]


@pytest.mark.parametrize(
    "fields", [{"role": "rank0", "procs": [], "tag_ub": 1}, {"role": "pure", "rank": 0}]
)
def test_nobody_comes_twice(fields: dict[str, Any], world: World) -> None:
    world.say(**fields)
    world.until(lambda: world.control.rank0 or world.control.joined)
    again = world.say(**fields)
    world.until(lambda: world.warnings)
    assert closed(again)


def test_an_endless_line_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_LINE", 1000)
    world.enter().sendall(b"x" * 2000)
    world.until(lambda: world.warnings)
    assert "no end of line" in world.warnings[0]


def test_a_proc_that_ends_is_no_stranger(world: World) -> None:
    world.say(role="joining", pid=1).close()
    world.connect().close()
    world.until(lambda: world.control.joined)
    other = world.say(role="joining", pid=2)
    world.until(lambda: len(world.control.joined) == 2)
    assert world.warnings == []
    other.close()


def in_session(world: World, key: bytes) -> list[Any]:
    """The TLS session of a process that knows the token, or what ended it."""
    sock = world.enter()
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(
                open_session(
                    sock, key, accepts=False, deadline=time.monotonic() + WAIT_S
                )
            )
        except (OSError, PeerError) as error:
            found.append(error)

    thread = Thread(target=run)
    thread.start()
    world.until(lambda: found)
    thread.join()
    return found


def test_a_process_may_go_on_in_a_tls_session(world: World) -> None:
    [session] = in_session(world, bytes.fromhex(world.control.token))
    with session:
        session.settimeout(WAIT_S)
        session.sendall(json.dumps({"role": "rank0", "procs": []}).encode() + b"\n")
        world.until(lambda: world.control.rank0)
        world.control.answer({"job": "secret"})
        with session.makefile("rb") as lines:
            assert json.loads(lines.readline()) == {"job": "secret"}
    assert world.warnings == []


def test_a_session_with_somebody_between_is_refused(world: World) -> None:
    [error] = in_session(world, b"not the token of this impirun")
    assert isinstance(error, (OSError, PeerError))
    world.until(lambda: world.warnings)
    assert (
        "holds another TLS session: the connection was intercepted" in world.warnings[0]
    )


def test_what_only_begins_like_a_session_is_refused(world: World) -> None:
    world.enter().sendall(b"\x16 this is not a handshake of TLS at all")
    world.until(lambda: world.warnings)
    assert "has broken its TLS session" in world.warnings[0]


def test_the_first_proc_without_a_last_word_is_the_lost_one(world: World) -> None:
    socks = [world.say(role="joining", pid=pid, node="n") for pid in (1, 2, 3)]
    world.until(lambda: len(world.control.joined) == 3)
    socks[0].sendall(b"finalized")
    socks[0].close()
    socks[1].close()
    world.until(lambda: world.control.losses.first)
    socks[2].close()
    world.until(lambda: not world.control.joined - {("n", 1), ("n", 2), ("n", 3)})
    lost = world.control.losses.first
    assert lost is not None
    assert (lost.node, lost.pid, lost.word) == ("n", 2, "")
    assert world.control.finalized_ranks == set(), "rank 0 has not named the procs yet"
    world.control.rank0 = {"procs": [{"pid": 3}, {"pid": 1}]}
    world.until(lambda: world.control.finalized_ranks == {1})


def test_the_proc_that_aborts_goes_before_those_that_are_ended_by_it(
    world: World,
) -> None:
    socks = [world.say(role="joining", pid=pid, node="n") for pid in (1, 2)]
    world.until(lambda: len(world.control.joined) == 2)
    socks[0].close()
    world.until(lambda: world.control.losses.first)
    socks[1].sendall(b"MPI_Abort with exit code 9")
    socks[1].close()
    world.until(
        lambda: (
            world.control.losses.first is not None
            and world.control.losses.first.pid == 2
        )
    )


def test_the_proc_that_ends_with_a_code_goes_before_those_that_end_with_none(
    world: World,
) -> None:
    for pid, word in ((1, b""), (2, b"exit 0"), (3, b"exit 3"), (4, b"exit 4")):
        sock = world.say(role="joining", pid=pid, node="n")
        world.until(lambda pid=pid: ("n", pid) in world.control.joined)  # type: ignore[misc]
        sock.sendall(word)
        sock.close()
        world.until(lambda pid=pid: world.control.losses.first is not None)  # type: ignore[misc]
    world.until(
        lambda: (
            world.control.losses.first is not None
            and world.control.losses.first.pid == 3
        )
    )
    world.turn(0)
    lost = world.control.losses.first
    assert lost is not None
    assert (lost.pid, lost.word, lost.code) == (3, "", 3)
    assert world.control.lost_proc == (
        "a process of this client on n (process 3) ended with exit code 3, without MPI_Finalize"
    )


def test_a_proc_that_is_lost_may_end_after_its_mpiexec(world: World) -> None:
    world.control.await_lost(world.turn)  # there is no proc to wait for
    killed, sock = (world.say(role="joining", pid=pid, node="n") for pid in (1, 2))
    world.until(lambda: len(world.control.joined) == 2)
    turns: list[float] = []

    def turn(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 1:
            killed.close()
        if len(turns) == 3:
            sock.sendall(b"MPI_Abort with exit code 9")
            sock.close()
        world.turn(seconds)

    world.control.await_lost(turn)
    assert world.control.losses.first is not None
    assert world.control.losses.first.word == "MPI_Abort with exit code 9"


def test_a_proc_that_does_not_end_is_not_waited_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOST_S", 0.05)
    world.say(role="joining", pid=1, node="n")
    world.until(lambda: world.control.joined)
    world.control.await_lost(world.turn)
    assert world.control.losses.first is None


def test_a_last_word_is_kept_and_bounded(world: World) -> None:
    sock = world.say(role="joining", pid=1, node="n")
    world.until(lambda: world.control.joined)
    sock.sendall(b"x" * 1000 + b"\n MPI_Abort with exit code 9")
    sock.close()
    world.until(lambda: world.control.losses.first)
    lost = world.control.losses.first
    assert lost is not None
    assert lost.word.endswith("x MPI_Abort with exit code 9")
    assert len(lost.word) < 2000


def test_ipv6() -> None:
    selector = selectors.DefaultSelector()
    try:
        control = Control("::1", 1, selector, lambda _: None)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert control.endpoint.startswith("[::1]:")
    control.close()
    selector.close()


def test_host_agents_are_awaited_and_answered() -> None:
    with closing(World(1, agents=2)) as world:
        world.say(role="rank0", procs=[], tag_ub=1)
        second = world.say(role="host", number=1, port=7)
        world.until(lambda: world.control.rank0 and world.control.agents)
        assert not world.control.complete
        world.say(role="host", number=0, port=6)
        world.until(lambda: world.control.complete)
        assert [world.control.agents[number]["port"] for number in (0, 1)] == [6, 7]
        world.control.answer_agent(1, {"host": None})
        assert json.loads(second.makefile("rb").readline()) == {"host": None}
        for number in (1, 2, "0"):
            again = world.say(role="host", number=number)
            world.until(lambda: world.warnings)
            assert "where none was awaited" in world.warnings.pop()
            assert closed(again)


@pytest.mark.clause("2.2.4")
def test_who_passes_the_proofs_on_and_then_speaks_in_plain_is_refused() -> None:
    with closing(World(3, tls=True)) as world:
        sock = world.say(role="rank0", procs=[{"pid": 1}], tag_ub=7)
        world.until(lambda: world.warnings)
        assert "speaks without TLS: somebody is between" in world.warnings[0]
        assert closed(sock)
        assert world.control.rank0 is None
