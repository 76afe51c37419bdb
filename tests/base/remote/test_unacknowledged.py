"""Connections of this machine whose octets nobody acknowledges, as two ways of the kernel tell."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from impi.base.remote import unacknowledged as asked
from impi.base.remote.unacknowledged import (
    Connections,
    Ends,
    again,
    by_netlink,
    by_tables,
    listed,
    sockets,
)

SO_ATTACH_FILTER = 26
SEEN_S = 20.0


class Pair(NamedTuple):
    """A connection, by the socket that has connected."""

    sock: socket.socket
    ends: Ends
    port: int
    cut: Callable[[], None]


def dropping(sock: socket.socket) -> None:
    """Let the kernel drop all that comes for a socket, as a cut link would: BPF's 'return 0'."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
    sock.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("HxxxxxxP", 1, ctypes.addressof(program)),
    )


@pytest.fixture(
    params=[("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")]
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    listens, connects = request.param
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family))
        try:
            listener.bind((listens, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        port = listener.getsockname()[1]
        sock = stack.enter_context(socket.create_connection((connects, port)))
        other = stack.enter_context(listener.accept()[0])
        ends = (connects, sock.getsockname()[1]), (connects, port)
        yield Pair(sock, ends, port, lambda: dropping(other))


def wait_for(
    told: Callable[[], list[tuple[int, Ends]]], entry: tuple[int, Ends]
) -> None:
    until = time.monotonic() + SEEN_S
    while entry not in told():
        assert time.monotonic() < until, (entry, told())
        time.sleep(0.02)


def entry_of(pair: Pair) -> tuple[int, Ends]:
    return os.fstat(pair.sock.fileno()).st_ino, pair.ends


@pytest.mark.parametrize("idle", [False, True], ids=["octets", "probes"])
def test_both_ways_see_a_cut_connection(pair: Pair, idle: bool) -> None:
    entry = entry_of(pair)
    pair.cut()
    if idle:
        for option, value in (
            (socket.TCP_KEEPIDLE, 1),
            (socket.TCP_KEEPINTVL, 1),
            (socket.TCP_KEEPCNT, 100),
        ):
            pair.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        pair.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    else:
        pair.sock.send(b"x")
    known = listed({pair.port})
    wait_for(lambda: list(by_netlink(again(known))), entry)
    wait_for(lambda: list(by_tables()), entry)
    # By either end's port, among few others or too many for a filter.
    for ports in ({pair.ends[0][1]}, {1, pair.port, 65535}, set(range(1, 200))):
        assert entry in list(by_netlink(listed(ports)))
    assert entry not in list(by_netlink(listed({1, 2})))
    assert entry[0] in sockets([os.getpid()])
    assert entry[0] not in sockets([os.getppid()])


def test_a_connection_that_answers_is_not_listed(pair: Pair) -> None:
    pair.sock.send(b"x")
    inode, _ = entry_of(pair)
    for found in (by_netlink(listed({pair.port})), by_tables()):
        assert inode not in dict(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("_SOCK_DIAG", 255), ("_GETSOCK", 17)],
    ids=["no protocol", "an error"],
)
def test_a_kernel_that_refuses_has_tables(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(asked, name, value)
    with pytest.raises(OSError):
        listed({8080})
    monkeypatch.setattr(asked, "by_tables", lambda: [(77, (HERE, THERE))])
    assert Connections().unacknowledged({8080}) == [(77, (HERE, THERE))]


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """The lists that the kernel has been asked for."""
    found: list[set[int]] = []

    def noted(ports: set[int]) -> list[bytes]:
        found.append(ports)
        return listed(ports)

    monkeypatch.setattr(asked, "listed", noted)
    return found


def counters(path: Path, active: int, passive: int) -> None:
    path.write_text(
        "Ip: Forwarding\nIp: 1\nTcp: MaxConn ActiveOpens PassiveOpens InSegs\n"
        f"Tcp: -1 {active} {passive} 12\n",
        "ascii",
    )


def test_a_list_is_asked_for_only_after_a_connection_has_been_opened(
    pair: Pair,
    lists: list[set[int]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A list costs 1.5 ms of the kernel's time, a question about one connection some us."""
    path, connections, ports = tmp_path / "snmp", Connections(), {pair.port}
    monkeypatch.setattr(asked, "_COUNTERS", str(path))
    counters(path, 5, 6)
    for _ in range(3):
        assert entry_of(pair) not in connections.unacknowledged(ports)

    assert lists == [ports]

    # Without a new list a change is seen, and an ended connection is left out.
    pair.cut()
    pair.sock.send(b"x")
    wait_for(lambda: connections.unacknowledged(ports), entry_of(pair))
    pair.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.sock.close()
    assert connections.unacknowledged(ports) == []
    assert lists == [ports]

    for made in ((6, 6), (6, 7)):
        counters(path, *made)
        connections.unacknowledged(ports)

    connections.unacknowledged({1, *ports})
    assert lists == [ports, ports, ports, {1, *ports}]


@pytest.mark.parametrize("text", ["", "Tcp: MaxConn\n", None])
def test_without_counters_each_look_asks_for_a_list(
    lists: list[set[int]],
    text: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path, connections = tmp_path / "snmp", Connections()
    monkeypatch.setattr(asked, "_COUNTERS", str(path))
    if text is not None:
        path.write_text(text, "ascii")

    for _ in range(3):
        connections.unacknowledged({1})

    assert lists == [{1}] * 3


def test_a_connection_that_is_being_made_is_known(pair: Pair) -> None:
    """It may be established without a change of the counters."""
    with socket.socket() as sock, socket.socket() as full:
        # The kernel drops what comes for a full backlog, so a further connect stays in SYN_SENT.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.connect(("127.0.0.1", port))

            known = listed({port})
            states = {message[17] for message in known}
            assert states == {1, 2}, "established at both ends, and SYN_SENT"
            assert len(again(known)) == len(known)
            assert list(by_netlink(known)) == []


# The tables, line by line

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
HERE, THERE = ("10.0.0.1", 8080), ("10.0.0.2", 50000)
PLAIN = "0100000A:1F90", "0200000A:C350"
MAPPED = (
    "0000000000000000FFFF00000100000A:1F90",
    "0000000000000000FFFF00000200000A:C350",
)


def line(
    ends: tuple[str, str],
    state: str = "01",
    timer: str = "01",
    repeated: int = 0,
    probes: int = 0,
) -> str:
    """A line of /proc/net/tcp about the socket of inode 77."""
    own, other = ends
    queues = f"00000010:00000000 {timer}:00000014 {repeated:08X}"
    return f"   1: {own} {other} {state} {queues}  1000 {probes:8d} 77 2 0 20\n"


def read(folder: Path, text: str) -> list[tuple[int, Ends]]:
    table = folder / "tcp"
    table.write_text(HEAD + text, "ascii")
    return list(by_tables([str(table), str(folder / "none")]))


@pytest.mark.parametrize("ends", [PLAIN, MAPPED])
@pytest.mark.parametrize("counter", ["repeated", "probes"])
def test_a_line_with_a_counter_is_listed(
    tmp_path: Path, ends: tuple[str, str], counter: str
) -> None:
    text = line(ends, **{counter: 3})  # type: ignore[arg-type]
    assert read(tmp_path, text) == [(77, (HERE, THERE))]


@pytest.mark.parametrize(
    "text",
    [
        line(PLAIN),
        line(PLAIN, repeated=3, state="02"),  # it has not begun
        line(PLAIN, repeated=3, timer="00"),
    ],
)
def test_other_lines_are_not(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []
