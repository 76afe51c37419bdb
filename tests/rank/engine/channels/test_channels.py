"""A peer that writes header and data apart is acknowledged at once, and not after 40 ms."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator

import pytest
from router_world import packet
from transfer_world import make_job

from impi.protocol.transfer import Transfer
from impi.protocol.wire.packets import HEADER_SIZE, PacketType
from impi.rank.agent.router import Router
from impi.rank.agent.serve import _Loop
from impi.rank.engine.channels.channels import Channels
from impi.rank.engine.channels.waiting import Patience
from impi.rank.vendors.dial import quick_ack

JOB = make_job([[1], [1]])
TCPI_UNACKED = 24
"""Offset of that field in struct tcp_info."""


def unacked(sock: socket.socket) -> int:
    """Segments that were sent and not acknowledged."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("I", info, TCPI_UNACKED)[0])


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection that has had requests and answers: TCP delays acknowledgements."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with peer, ours:
        for _ in range(30):
            peer.send(b"request")
            ours.recv(100)
            ours.send(b"answer")
            peer.recv(100)
        yield peer, ours


def test_what_was_read_is_acknowledged(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    peer, ours = ends
    peer.send(bytes(HEADER_SIZE))
    ours.recv(1000)
    quick_ack(ours)
    assert unacked(peer) == 0
    ours.close()
    quick_ack(ours)  # a socket that is gone is the next read's matter


@pytest.mark.parametrize("cut", [HEADER_SIZE, HEADER_SIZE + 3, 40])
@pytest.mark.parametrize("short", [True, False])
def test_of_a_channel(
    short: bool, cut: int, ends: tuple[socket.socket, socket.socket]
) -> None:
    peer, ours = ends
    octets = packet(JOB, PacketType.DATA, 1, 0, b"12345678")
    arrived: list[object] = []
    channels = Channels(
        Transfer(JOB, 0),
        {1: ours},
        Patience(0.0),
        deliver=(lambda *_: False) if short else None,
        arrived=arrived.append,
        cancelled=arrived.append,
        foreign=True,
    )
    peer.send(octets[:cut])
    assert channels.poll(10.0)
    assert unacked(peer) == 0
    peer.send(octets[cut:])
    assert channels.poll(10.0)
    assert len(arrived) == 1
    channels.close()


def test_of_an_agent(ends: tuple[socket.socket, socket.socket]) -> None:
    peer, ours = ends
    router = Router(JOB, 0)
    link = router.hosts[1]
    assert router.foreign
    octets = packet(JOB, PacketType.DATA, 1, 0, b"12345678")
    with select.epoll() as epoll:
        loop = _Loop(router, {link: ours}, epoll)
        peer.send(octets[:HEADER_SIZE])
        loop._read(link)
    assert unacked(peer) == 0


def test_a_channel_that_broke_for_a_write_of_the_same_turn_is_not_read() -> None:
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    lost: list[int] = []
    told: list[int] = []
    with peer, ours:
        channels = Channels(
            Transfer(JOB, 0),
            {},
            Patience(0.0),
            deliver=None,
            arrived=lambda incoming: None,
            cancelled=lambda incoming: None,
        )
        channels.survive(lost.append)
        bell = os.eventfd(1)
        # Registered first, so that one turn serves it, and then hears of the channel's end.
        channels.add_poller(
            bell,
            lambda: told.append(channels.count_taken(1, BrokenPipeError(), 5)),
            others=False,
        )
        channels.admit(1, ours)
        peer.close()
        assert channels.poll(10.0)
        assert (lost, told) == ([1], [5])
        channels.close()
        os.close(bell)
