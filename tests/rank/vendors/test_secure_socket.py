"""A connection with TLS that looks like a plain socket."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tls_pair import KEY, both

from impi.base.errors import PeerError
from impi.rank.vendors.secure_socket import SecureSocket, encrypt

NOW = socket.MSG_DONTWAIT


@pytest.fixture
def ends() -> Iterator[tuple[SecureSocket, SecureSocket]]:
    one, other = both(*socket.socketpair())
    yield one, other
    one.close()
    other.close()


def read(sock: SecureSocket, size: int) -> bytes:
    got = bytearray(size)
    view, at = memoryview(got), 0
    while at < size:
        at += sock.recv_into(view[at:], 0, 0)
    return bytes(got)


def test_octets_go_both_ways_and_the_wire_has_none_of_them() -> None:
    (one, near), (far, other) = socket.socketpair(), socket.socketpair()
    passed = bytearray()

    def relay() -> None:
        while True:
            for sock in select.select([near, far], [], [])[0]:
                octets = sock.recv(1 << 16)
                if not octets:
                    return
                passed.extend(octets)
                (far if sock is near else near).sendall(octets)

    thread = threading.Thread(target=relay)
    thread.start()
    here, there = both(one, other)
    there.setblocking(True)
    here.setblocking(True)
    secret = b"nobody else may read this " * 100
    assert here.sendmsg([secret, b"end"]) == len(secret) + 3
    assert read(there, len(secret) + 3) == secret + b"end"
    there.send(secret)
    assert read(here, len(secret)) == secret
    assert b"nobody else" not in passed
    assert len(passed) > 2 * len(secret)
    here.close()
    there.close()
    thread.join()
    near.close()
    far.close()


def test_somebody_between_with_a_session_for_each_end_is_seen() -> None:
    (one, near), (far, other) = socket.socketpair(), socket.socketpair()
    thieves: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: thieves.append(both_sessions(near, accepts=True))
        ),
        threading.Thread(
            target=lambda: thieves.append(both_sessions(far, accepts=False))
        ),
    ]
    for thread in threads:
        thread.start()
    here, there = both(one, other)
    for thread in threads:
        thread.join()
    near.close()
    far.close()
    assert any(
        isinstance(error, PeerError) and "the connection was intercepted" in str(error)
        for error in (here, there)
    )
    assert not any(isinstance(end, SecureSocket) for end in (here, there))


def both_sessions(sock: socket.socket, *, accepts: bool) -> object:
    """Encrypt with a key that is not that of the ends: whoever is between does not know it."""
    try:
        return encrypt(
            sock, b"another key", accepts=accepts, deadline=time.monotonic() + 20
        )
    except Exception as error:
        return error


def test_another_key_is_another_job() -> None:
    here, there = both(*socket.socketpair(), key=b"of another job")
    assert isinstance(here, PeerError)
    assert not isinstance(there, SecureSocket)


def test_an_end_that_says_nothing_is_left_in_time() -> None:
    one, other = socket.socketpair()
    with other, pytest.raises(TimeoutError):
        encrypt(one, KEY, accepts=False, deadline=time.monotonic() + 0.05)


def test_nothing_there_is_told_at_once(ends) -> None:
    one, _ = ends
    with pytest.raises(BlockingIOError):
        one.recv_into(memoryview(bytearray(9)), 0, NOW)
    one.setblocking(True)
    with pytest.raises(BlockingIOError):
        one.recv_into(memoryview(bytearray(9)), 0, NOW)
    with pytest.raises(BlockingIOError):
        one.recvmsg_into([memoryview(bytearray(9))], 0, NOW)


def test_a_record_that_was_read_in_part_is_pending(ends) -> None:
    one, other = ends
    other.setblocking(True)
    one.send(b"0123456789")
    assert read(other, 4) == b"0123"
    assert other.pending() == 6
    assert select.select([other], [], [], 0) == ([], [], [])
    assert read(other, 6) == b"456789"
    assert other.pending() == 0


def test_the_end_is_no_octets(ends) -> None:
    one, other = ends
    other.setblocking(True)
    one.send(b"last")
    one.close()
    assert read(other, 4) == b"last"
    assert other.recv_into(memoryview(bytearray(4))) == 0


def test_several_places_are_filled_in_order(ends) -> None:
    one, other = ends
    other.setblocking(True)
    one.sendmsg([b"abc", b"defgh"])
    places = [bytearray(2), bytearray(3), bytearray(9)]
    assert other.recvmsg_into([memoryview(place) for place in places])[0] == 8
    assert b"".join(places).startswith(b"abcdefgh")
    one.send(b"xy")
    assert other.recvmsg_into([memoryview(place) for place in places])[0] == 2


class Queue:
    """Packets to be sent, as channels have them: urgent ones go before those not begun."""

    def __init__(self) -> None:
        self.packets: list[list[memoryview]] = []
        self.sent = bytearray()
        self._begun = False

    def add(self, mark: int, *sizes: int, urgent: bool = False) -> None:
        packet = [memoryview(bytes([mark]) * size) for size in sizes]
        self.packets.insert(int(self._begun) if urgent else len(self.packets), packet)

    def write(self, sock: SecureSocket) -> None:
        views = [view for packet in self.packets for view in packet][:64]
        try:
            n = (
                sock.send(views[0], NOW)
                if len(views) == 1
                else sock.sendmsg(views, (), NOW)
            )
        except BlockingIOError:
            return
        while n:
            packet = self.packets[0]
            piece, packet[0] = packet[0][:n], packet[0][n:]
            self.sent += piece
            n -= len(piece)
            packet[:] = [view for view in packet if view]
            self._begun = bool(packet)
            if not packet:
                self.packets.pop(0)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=25,
)
@given(
    st.lists(
        st.sampled_from((1, 2, 31, 100, 4000, 16_319, 16_320, 16_321, 40_000)),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.sampled_from((1, 7, 1000, 16_384, 100_000)), min_size=1, max_size=6),
)
def test_packets_arrive_in_order_whatever_the_kernel_takes(
    payloads: list[int], rooms: list[int]
) -> None:
    plain = socket.socketpair()
    for sock in plain:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    one, other = both(*plain)
    queue = Queue()
    for number, size in enumerate(payloads):
        queue.add(number, 32, size)
    got, total, turn = bytearray(), sum(payloads) + 32 * 2 * len(payloads), 0
    while len(got) < total:
        if turn < len(payloads):
            queue.add(200 + turn, 32, urgent=True)
        turn += 1
        if queue.packets:
            queue.write(one)
        room = bytearray(rooms[turn % len(rooms)])
        try:
            got += room[: other.recv_into(memoryview(room), 0, NOW)]
        except BlockingIOError:
            continue
    assert got == queue.sent
    one.close()
    other.close()
