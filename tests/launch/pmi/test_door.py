"""The door of the process manager: who may come, what each gets, and 512 procs at once."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from impi.base.errors import JobError, PeerError
from impi.launch.net import parse_endpoint
from impi.launch.pmi.door import PmiDoor
from impi.rank.doors.strangers import Guesses

DEADLINE_S = 20.0


class Owner:
    """A loop with a door, as impirun's."""

    def __init__(self, nodes: list[int]) -> None:
        self.selector = selectors.DefaultSelector()
        self.said: list[str] = []
        self.procs: list[socket.socket] = []
        self.door = PmiDoor("127.0.0.1", nodes, self.selector, self.said.append)

    def turn(self, seconds: float = 0.0) -> None:
        for key, _ in self.selector.select(seconds):
            key.data()
        self.door.entrance.turn()
        self.door.check()

    def close(self) -> None:
        for sock in self.procs:
            sock.close()
        self.door.entrance.close()
        self.selector.close()


@pytest.fixture
def owner() -> Iterator[Owner]:
    one = Owner([2])
    yield one
    one.close()


class Proc:
    """One client of PMI."""

    def __init__(self, owner: Owner, first: object) -> None:
        self.owner = owner
        self.sock = socket.create_connection(
            parse_endpoint(owner.door.entrance.endpoint)
        )
        owner.procs.append(self.sock)
        self.sock.setblocking(False)
        self.say(first if isinstance(first, str) else f"cmd=initack pmiid={first}")

    def say(self, line: str) -> None:
        self.sock.send(f"{line}\n".encode())

    def hear(self, end: str = "\n") -> str:
        """Return the octets that came, once they end so; empty: the connection is closed."""
        text = b""
        deadline = time.monotonic() + DEADLINE_S
        while not text.endswith(end.encode()):
            assert time.monotonic() < deadline, text
            self.owner.turn(0.01)
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                break
            text += data
        return text.decode()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()


def member(owner: Owner, rank: int) -> Proc:
    proc = Proc(owner, owner.door.ids[rank])
    assert f"rank={rank}\n" in proc.hear("debug=0\n")
    return proc


def test_a_rank_is_known_by_its_number(owner: Owner) -> None:
    one, other = member(owner, 1), member(owner, 0)
    assert "rc=0" in one.ask("cmd=init pmi_version=1 pmi_subversion=1")
    one.ask("cmd=put key=a value=b")
    assert "value=b" in other.ask("cmd=get key=a")
    one.say("cmd=barrier_in")
    assert other.ask("cmd=barrier_in") == one.hear() == "cmd=barrier_out rc=0\n"
    assert owner.said == []


def test_queries_that_come_at_once_are_answered_at_once(owner: Owner) -> None:
    one = member(owner, 0)
    one.say("\n".join(f"cmd=put key=k{n} value={n}" for n in range(100)))
    owner.turn(1.0)
    assert one.sock.recv(1 << 16).count(b"\n") == 100


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("cmd=initack pmiid=0", "has no number of a proc"),
        ("cmd=get key=a", "has no number of a proc"),
        ("GET / HTTP/1.1", "speaks no PMI"),
        ("cmd=initack", "speaks no PMI"),
    ],
)
def test_a_stranger_gets_nothing(first: str, why: str, owner: Owner) -> None:
    assert Proc(owner, first).hear() == ""
    [said] = owner.said
    assert why in said


def test_nobody_else_can_be_a_rank_that_is_here(owner: Owner) -> None:
    one = member(owner, 0)
    assert Proc(owner, owner.door.ids[0]).hear() == ""
    assert "has the number of a proc that is here" in owner.said[0]
    one.ask("cmd=finalize")
    member(owner, 0)  # a library that begins again


def test_who_guesses_numbers_waits_and_the_job_goes_on(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause_s(self: Guesses, address: str) -> float:
        pauses.append(real(self, address))
        return min(pauses[-1], 0.001)

    real = Guesses.pause_s
    monkeypatch.setattr(Guesses, "pause_s", pause_s)
    for _ in range(200):
        assert Proc(owner, 0).hear() == ""
    assert (pauses[0], pauses[-1]) == (0.0, 2.0)
    member(owner, 0)


def test_a_rank_that_breaks_pmi_is_named(owner: Owner) -> None:
    one = member(owner, 1)
    one.say("cmd=nonsense")
    with pytest.raises(
        PeerError, match="'nonsense' is not a command of PMI-1"
    ) as caught:
        one.hear()
    assert str(caught.value).startswith("rank 1 of this client: ")


def test_a_rank_that_vanishes_ends_the_job(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impi.launch.pmi.door._LOST_S", 0.01)
    one = member(owner, 1)
    one.ask("cmd=init pmi_version=1 pmi_subversion=1")
    assert owner.door.never_came({0}) == 0
    one.sock.close()
    deadline = time.monotonic() + DEADLINE_S
    with pytest.raises(
        JobError,
        match="rank 1 of this client ended its connection to PMI without 'finalize'",
    ):
        while time.monotonic() < deadline:
            owner.turn(0.02)


def test_a_rank_may_leave_after_impis_finalize_or_with_all_others(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impi.launch.pmi.door._LEFT_S", 0.0)
    one = member(owner, 1)
    one.ask("cmd=init pmi_version=1 pmi_subversion=1")
    one.sock.close()
    until = time.monotonic() + DEADLINE_S
    while not owner.door._lost and time.monotonic() < until:
        owner.turn(0.02)
    owner.door.check({1}, {1})
    owner.door.check({0, 1})
    with pytest.raises(
        JobError,
        match="rank 1 of this client ended with exit code 0, but without MPI_Finalize",
    ):
        owner.door.check({1}, {0})


def test_512_procs_put_fence_and_get() -> None:
    """The measure of docs/how-it-works/process-management.md, with much room for a busy machine."""
    assert seconds_of(512) < DEADLINE_S


def seconds_of(size: int) -> float:
    """Time in which that number of procs come, put, fence, and get of their neighbour."""
    owner = Owner([size])
    failed: list[BaseException] = []
    try:
        began = time.monotonic()
        procs = threading.Thread(
            target=lambda: _all_of_them(
                owner.door.entrance.endpoint, owner.door.ids, failed
            ),
            daemon=True,
        )
        procs.start()
        while procs.is_alive():
            owner.turn(0.05)
        assert not failed, failed
        assert len(owner.door.manager.finalized) == size
        return time.monotonic() - began
    finally:
        owner.close()


def _all_of_them(
    endpoint: str, ids: tuple[int, ...], failed: list[BaseException]
) -> None:
    """Take all procs through their steps, each step of all before the next one of any."""
    try:
        socks = [socket.create_connection(parse_endpoint(endpoint)) for _ in ids]
        size = len(socks)
        steps = [
            *(
                [
                    lambda rank: f"cmd=initack pmiid={ids[rank]}",
                    lambda _: "cmd=init pmi_version=1 pmi_subversion=1",
                ]
            ),
            *([lambda _: "cmd=get_maxes", lambda _: "cmd=get_my_kvsname"]),
            *(
                [
                    lambda rank: f"cmd=put key=P{rank}-card value={'c' * 200}{rank}",
                    lambda _: "cmd=barrier_in",
                ]
            ),
            *(
                [
                    lambda rank: f"cmd=get key=P{(rank + 1) % size}-card",
                    lambda _: "cmd=finalize",
                ]
            ),
        ]
        for number, step in enumerate(steps):
            for rank, sock in enumerate(socks):
                sock.sendall(step(rank).encode() + b"\n")
            for rank, sock in enumerate(socks):
                text = b""
                while not text.endswith(b"debug=0\n" if number == 0 else b"\n"):
                    text += sock.recv(1 << 16)
                if b"get_result" in text:
                    assert text.endswith(f"c{(rank + 1) % size}\n".encode()), text
        for sock in socks:
            sock.close()
    except BaseException as error:
        failed.append(error)
