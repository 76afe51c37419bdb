"""The socket of one channel, and the room for octets that are read from it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from impi.protocol.transfer import Deliver, Read, Transfer
from impi.rank.vendors.dial import quick_ack


class HostSocket:
    """A connected socket to a host; :class:`impi.rank.engine.channels.channels.Channels` reads and
    writes it.

    Args:
        host: global index of the host.
        sock: it blocks from now on; every call passes MSG_DONTWAIT or means to wait.
        transfer: has a channel with the host.
        read: handles octets that were read into :attr:`room`; see ``Inbound.short_reader``.
        foreign: whether the peer may be another implementation (:class:`Channels`).
    """

    __slots__ = (
        "_receive",
        "_transfer",
        "cut",
        "host",
        "pending",
        "read",
        "room",
        "sock",
    )

    def __init__(
        self,
        host: int,
        sock: socket.socket,
        transfer: Transfer,
        read: Read,
        *,
        foreign: bool,
    ) -> None:
        self.host = host
        self.sock = sock
        self._transfer = transfer
        self.read: Read = partial(self._read_and_hurry, read) if foreign else read
        self.room: Callable[[], memoryview | list[memoryview]] = transfer.buffers_of(
            host
        )
        """Returns the place of the next octets, or several places."""
        self._receive: Callable[[Any, int, int], int] = sock.recv_into
        self.pending: Callable[[], int] = getattr(sock, "pending", int)
        """Returns the number of octets that TLS holds, unknown to epoll; 0 without TLS."""
        self.cut = False
        """Whether the channel has ended, and the job goes on without."""
        sock.setblocking(True)

    @property
    def is_encrypted(self) -> bool:
        return hasattr(self.sock, "pending")

    def receiver(
        self, room: memoryview | list[memoryview]
    ) -> Callable[[Any, int, int], int]:
        """Return a function that reads octets into ``room``, which may be several places."""
        if not isinstance(room, list):
            return self._receive

        # Several places are those of a derived datatype: one call fills them all, without a copy in
        # between (docs/decisions/derived-types-in-place.md).
        receive = self.sock.recvmsg_into

        return lambda views, ancillary, flags: receive(views, ancillary, flags)[0]

    def hurry(self) -> None:
        """Acknowledge what was read if the rest of a packet may wait for that."""
        # A peer that writes header and data apart meets Nagle's algorithm: its TCP keeps the data
        # until we acknowledge the header, and ours would delay that by 40 ms.
        if self._transfer.inside(self.host):
            quick_ack(self.sock)

    def _read_and_hurry(self, read: Read, n: int, take: Deliver) -> bool:
        done = read(n, take)
        if done:
            self.hurry()

        return done
