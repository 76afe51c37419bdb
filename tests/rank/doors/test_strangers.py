"""Accounts of connections that have not proved what they are."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.rank.doors.strangers import MOST, Guesses, Refusals, Strangers, room


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as sock:
        sock.setblocking(False)
        yield sock


def account(*, most: int = 3, age_s: float = 100.0) -> Strangers[str]:
    return Strangers(most=most, age_s=age_s)


def test_nobody_goes_while_there_is_room() -> None:
    with closing(account()) as there:
        for key in "abc":
            assert there.surplus() is None
            there.add(key, "10.0.0.1")
        assert there.full
        assert there.surplus() == "a"


@pytest.mark.parametrize(("members", "first"), [(2, "early"), (0, "a rank")])
def test_as_many_connections_as_members_are_no_crowd(members: int, first: str) -> None:
    """Else ranks of an honest node, which come together, would go before strangers of many."""
    with closing(Strangers[str](members, most=0)) as there:
        there.add("early", "10.0.0.9")
        for rank in ("a rank", "another"):
            there.add(rank, "10.0.0.1")
        assert there.surplus() == first


def test_all_of_loopback_and_of_a_network_of_ipv6_are_one_crowd() -> None:
    with closing(account(most=0)) as there:
        there.add("early", "10.0.0.9")
        for key, address in (
            ("a", "127.0.0.1"),
            ("b", "127.9.0.1"),
            ("c", "2001:db8::1"),
            ("d", "2001:db8::2"),
        ):
            there.add(key, address)
        gone = []
        while (surplus := there.surplus()) is not None:
            gone.append(surplus)
            there.discard(surplus)
        assert gone == ["a", "c", "early", "b", "d"]


def test_there_are_as_many_as_this_process_may_open_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    for limit, members, expected in (
        (1 << 20, 8, MOST + 8),
        (open_now + 100, 8, 50),
        (open_now, 8, 16),
    ):
        monkeypatch.setattr(
            "impi.rank.doors.strangers.os.sysconf", lambda _, limit=limit: limit
        )
        assert abs(room(members) - expected) <= 1
    monkeypatch.undo()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 60, hard))
    try:
        assert abs(room(8) - 30) <= 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_silent_go_first_then_the_largest_crowd_then_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("impi.rank.doors.strangers._WORDLESS_S", 0.0)
    with closing(account(most=0)) as there:
        for key, address in (
            ("old", "10.0.0.1"),
            ("crowd 1", "10.0.0.2"),
            ("crowd 2", "10.0.0.2"),
            ("new", "10.0.0.3"),
        ):
            there.add(key, address)
        there.add("honest", "10.0.0.2")
        there.spoke("honest")
        gone = []
        while (surplus := there.surplus()) is not None:
            gone.append(surplus)
            there.discard(surplus)
        assert gone == ["crowd 1", "crowd 2", "old", "new", "honest"]


def test_who_has_just_come_is_not_silent_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would go at once where all others have spoken, before its first octets are read."""
    now = 50.0
    monkeypatch.setattr("impi.rank.doors.strangers.time.monotonic", lambda: now)
    with closing(account(most=2)) as there:
        there.add("spoke", "10.0.0.1")
        there.spoke("spoke")
        there.add("came", "10.0.0.2")
        assert there.surplus() == "spoke"
        now += 1.5
        assert there.surplus() == "came"


def test_members_and_closed_ones_do_not_count() -> None:
    with closing(account(most=1)) as there:
        there.add("member", "10.0.0.1")
        there.discard("member")
        there.discard("never there")
        there.spoke("never there")
        assert there.surplus() is None
        there.add("other", "10.0.0.1")
        assert len(there) == 1


def test_each_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr("impi.rank.doors.strangers.time.monotonic", lambda: now)
    with closing(account(age_s=10.0)) as there:
        assert there.patience == float("inf")
        there.add("first", "10.0.0.1")
        now = 54.0
        there.add("second", "10.0.0.1")
        assert there.patience == 6.0
        assert there.overdue() == []
        now = 60.0
        assert there.overdue() == ["first"]
        assert there.patience == 0.0
        there.discard("first")
        assert there.patience == 4.0


def test_a_listener_gives_connections_that_do_not_block(
    listener: socket.socket,
) -> None:
    with closing(account()) as there:
        assert there.accept(listener) is None
        with socket.create_connection(listener.getsockname()) as ours:
            accepted = there.accept(listener)
            assert accepted is not None
            sock, address, port = accepted
            with sock:
                assert (address, port) == ours.getsockname()
                with pytest.raises(BlockingIOError):
                    sock.recv(1)


@contextmanager
def no_descriptor(highest: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    full = []
    try:
        while True:
            try:
                full.append(socket.socket())
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for sock in full:
            sock.close()


def test_without_descriptors_a_stranger_goes_and_the_next_one_waits(
    listener: socket.socket,
) -> None:
    with closing(account(most=100)) as there:
        there.add("silent", "10.0.0.1")
        with socket.create_connection(listener.getsockname()) as honest:
            with no_descriptor(honest.fileno()):
                assert there.surplus() is None
                assert there.accept(listener) is None
                assert there.surplus() == "silent"
                assert there.surplus() is None
            accepted = there.accept(listener)
            assert accepted is not None
            with accepted[0] as ours:
                ours.sendall(b"in")
                assert honest.recv(2) == b"in"


def test_without_descriptors_and_strangers_connections_are_closed(
    listener: socket.socket,
) -> None:
    """Else the listener would stay ready, and its owner would turn for ever."""
    with closing(account(most=100)) as there:
        visitors = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        with no_descriptor(max(sock.fileno() for sock in visitors)):
            for _ in visitors:
                assert there.accept(listener) is None
        assert there.accept(listener) is None
        for sock in visitors:
            sock.settimeout(10)
            assert sock.recv(1) == b""
            sock.close()


def test_a_reason_is_told_once_for_an_address_and_then_counted() -> None:
    said: list[str] = []
    refusals = Refusals(said.append)
    for port in range(5):
        refusals.tell("10.0.0.1", "a wrong key", f"10.0.0.1:{port} had a wrong key")
    refusals.tell("10.0.0.2", "a wrong key", "10.0.0.2:7 had a wrong key")
    refusals.tell("10.0.0.2", "a wrong key", "10.0.0.2:8 had a wrong key")
    assert said == ["10.0.0.1:0 had a wrong key", "10.0.0.2:7 had a wrong key"]
    refusals.summary()
    assert said[2:] == [
        "closed 4 more connections of 10.0.0.1: a wrong key",
        "closed 1 more connection of 10.0.0.2: a wrong key",
    ]
    refusals.summary()
    assert len(said) == 4


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=300))
def test_what_is_said_is_bounded_and_nothing_is_forgotten(
    found: list[tuple[int, int]],
) -> None:
    said: list[str] = []
    refusals = Refusals(said.append)
    for address, kind in found:
        refusals.tell(f"10.0.0.{address}", f"kind {kind}", "closed one")
    told = len(said)
    assert told <= 32
    refusals.summary()
    assert len(said) <= 65
    assert told + sum(int(line.split()[1]) for line in said[told:]) == len(found)


def test_each_wrong_secret_after_some_makes_the_pause_longer() -> None:
    guesses = Guesses()
    pauses = []
    for _ in range(12):
        pauses.append(guesses.pause_s("10.0.0.1"))
        guesses.add("10.0.0.1")
    assert pauses == [0, 0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert guesses.pause_s("10.0.0.2") == 0


def test_a_network_of_ipv6_is_one_address() -> None:
    guesses = Guesses()
    for host in range(4):
        guesses.add(f"2001:db8::{host}")
    assert guesses.pause_s("2001:db8::ffff:1%eth0") == 0.1
    assert guesses.pause_s("2001:db8:0:1::1") == 0


def test_addresses_are_forgotten_before_they_are_too_many() -> None:
    guesses = Guesses()
    for _ in range(5):
        guesses.add("10.9.9.9")
    for number in range(3000):
        guesses.add(f"10.0.{number >> 8}.{number & 255}")
    assert len(guesses._wrong) == 1024
    assert guesses.pause_s("10.9.9.9") > 0


def test_who_goes_is_not_looked_for_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door with many strangers asks that with each connection that it accepts."""
    looks = 0

    class Counted(dict[int, object]):
        def __getitem__(self, key: int) -> object:
            nonlocal looks
            looks += 1
            return super().__getitem__(key)

    with closing(Strangers[int](most=0)) as there:
        for key in range(1000):
            there.add(key, f"127.0.1.{key % 200}")
            if key % 2:
                there.spoke(key)
        monkeypatch.setattr(there, "_there", Counted(there._there))
        there.surplus()
    assert looks <= 2
