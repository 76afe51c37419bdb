"""The sockets of a proc's channels: octets between TCP and the transfer machine.

Called by :class:`impi.engine.engine.Engine` only. Outbound: :meth:`Channels.flush` writes what
:class:`impi.transfer.Transfer` has queued for a host, until TCP is full; then epoll waits for
EPOLLOUT. :meth:`Channels.short_sender` bypasses the queue: one packet, one ``send``. What TCP does
not take of it goes back to the head of the queue. Inbound: octets are read into the room that the
transfer machine offers. Its reader hands whole short messages to the engine (``deliver``); the rest
is parsed into events, which become calls of ``arrived`` and ``cancelled``.

The sockets block, and every call passes MSG_DONTWAIT. The one exception is a proc with one thread,
one channel and nothing else to do: it waits in ``recv``, so a message costs one system call.

Invariant: a host is registered for EPOLLOUT exactly while it is in ``_writing``.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from threading import get_ident
from time import perf_counter
from typing import Any, Final

from impi.engine.threads import Threads, is_single, longest_sleep
from impi.engine.waiting import Patience
from impi.errors import JobError
from impi.transfer import Arrived, Cancelled, Deliver, Incoming, ShortSender, Transfer
from impi.transfer.inbound import Acknowledge
from impi.vendors.dial import quick_ack

_NOW: Final = socket.MSG_DONTWAIT
_READS: Final = 16
"""Most reads from one channel before the next gets its turn."""
_TURNS: Final = 7
"""Mask: turns of a spin on one channel, minus 1, before the other channels and the clock."""
_FINE_S: Final = 1e-3
"""epoll counts in milliseconds; shorter sleeps go through select."""
_SELECTABLE: Final = 1024
"""FD_SETSIZE."""


class Channels:
    """Reads and writes the channels of one proc.

    Args:
        transfer: the machine that makes and parses the octets.
        sockets: connected sockets, by host.
        patience: learns how long waits last.
        deliver: see :meth:`impi.transfer.Transfer.short_reader`; None: every message is an event.
        arrived: called for every message that ``deliver`` has not taken.
        cancelled: called for every message whose sender cancelled it.
        foreign: whether a peer may be another implementation. It may write header and data apart;
            TCP then holds the data back until we acknowledge the header, which we do at once.
    """

    def __init__(
        self,
        transfer: Transfer,
        sockets: dict[int, socket.socket],
        patience: Patience,
        *,
        deliver: Deliver | None,
        arrived: Callable[[Incoming], None],
        cancelled: Callable[[Incoming], None],
        foreign: bool = False,
    ) -> None:
        self._transfer = transfer
        self._patience = patience
        self._deliver = deliver
        self._foreign = foreign
        self._arrived = arrived
        self._cancelled = cancelled
        self._sockets: dict[int, socket.socket] = {}
        self._readers: dict[int, Callable[[int], bool]] = {}
        self._rooms: dict[int, Callable[[], memoryview | list[memoryview]]] = {}
        self._receive: dict[int, Callable[[Any, int, int], int]] = {}
        self._hosts: dict[int, int] = {}
        """Descriptor to host."""
        self._pending: dict[int, Callable[[], int]] = {}
        """Of channels with TLS: octets that have come, and that epoll does not tell of."""
        self._encrypted: list[int] = []
        self._writing: set[int] = set()
        self._epoll = select.epoll()
        for host, sock in sockets.items():
            self.admit(host, sock)
        self._alone = len(sockets) == 1
        self._pollers: dict[int, Callable[[], None]] = {}
        """By descriptor, what else a wait serves."""
        self._push: Callable[[], None] = _nothing
        self._survivor: Callable[[int], None] | None = None
        self._cut: set[int] = set()

    def survive(self, ended: Callable[[int], None]) -> None:
        """Call ``ended`` with the host of a channel that ends without FINI, and go on without.

        What is written to it from then on is dropped.
        """
        self._survivor = ended

    def admit(self, host: int, sock: socket.socket) -> None:
        """Add a connected socket; the transfer machine has a channel with ``host``."""
        transfer = self._transfer
        self._alone = False
        self._sockets[host] = sock
        self._readers[host] = (
            partial(transfer.note, host)
            if self._deliver is None
            else transfer.short_reader(host, self._deliver, self._acknowledger(host))
        )
        if self._foreign:
            self._readers[host] = partial(self._read_and_hurry, host, self._readers[host])
        self._rooms[host] = transfer.buffers_of(host)
        self._receive[host] = sock.recv_into
        self._pending[host] = getattr(sock, "pending", int)
        if hasattr(sock, "pending"):
            self._encrypted.append(host)
        sock.setblocking(True)
        self._hosts[sock.fileno()] = host
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def dismiss(self, host: int) -> None:
        """Close the socket of a host; both ends have said FINI (IMPI 3.8)."""
        sock = self._sockets.pop(host)
        with suppress(OSError):  # its end was read: it is not registered any more
            self._epoll.unregister(sock.fileno())
        del self._hosts[sock.fileno()], self._readers[host], self._rooms[host], self._receive[host], self._pending[host]
        self._writing.discard(host)
        if host in self._encrypted:
            self._encrypted.remove(host)
        sock.close()

    def add_poller(self, fd: int | None, progress: Callable[[], None], *, others: bool) -> None:
        """Call ``progress`` when ``fd`` is readable; without ``fd``, between reads of the channels.

        ``others``: messages can come that way while the proc sleeps.
        """
        self._alone = self._alone and not others
        if fd is not None:
            self._pollers[fd] = progress
            self._epoll.register(fd, select.EPOLLIN)
        elif others:
            self._push = progress

    def fileno(self) -> int:
        """Return a descriptor that is readable when a channel, or the vendor's own, is."""
        return self._epoll.fileno()

    def remove_poller(self, fd: int) -> None:
        """Look no more at ``fd``."""
        self._epoll.unregister(fd)

    def close(self) -> None:
        """Close the sockets and epoll."""
        self._epoll.close()
        for sock in self._sockets.values():
            sock.close()

    @property
    def written(self) -> bool:
        """Whether no socket is awaited to become writable."""
        return not self._writing

    def _acknowledger(self, host: int) -> Acknowledge:
        """Return a function that sends a PROTOACK on the empty channel of ``host``."""
        write = self._sockets[host].send

        def acknowledge(dest: int, packet: bytes) -> None:
            try:
                n = write(packet, _NOW)
            except OSError as error:
                n = self._taken(host, error, len(packet))
            if n != len(packet):
                self._requeue(host, dest, packet, n)

        return acknowledge

    def short_sender(
        self, host: int, dest: int, make: ShortSender, threads: Threads
    ) -> Callable[[int, memoryview, int], bool]:
        """Return ``send(tag, octets, count) -> bool`` to world rank ``dest`` on a host's channel.

        ``make`` comes from :meth:`impi.transfer.Transfer.short_sender`. False: it made no packet.
        """
        write = self._sockets[host].send

        def send(tag: int, octets: memoryview, count: int) -> bool:
            if get_ident() != threads.owner:
                threads.enter()
            packet = make(tag, octets, count)
            if packet is None:
                return False
            try:
                n = write(packet, _NOW)
            except OSError as error:
                n = self._taken(host, error, len(packet))
            if n != len(packet):
                self._requeue(host, dest, packet, n)
            return True

        return send

    def _requeue(self, host: int, dest: int, packet: bytes | memoryview, n: int) -> None:
        """Queue the rest of a packet of which TCP took only ``n`` octets."""
        self._transfer.requeue(dest, packet, n)
        self.flush(host)

    def flush(self, host: int) -> None:
        """Write what is queued for ``host``, as far as TCP takes it."""
        transfer, sock = self._transfer, self._sockets.get(host)
        if sock is None or sock.fileno() < 0 or host in self._cut:
            return
        while views := transfer.data_to_send(host):
            try:
                n = sock.send(views[0], _NOW) if len(views) == 1 else sock.sendmsg(views, (), _NOW)
            except BlockingIOError:
                transfer.sent(host, 0)
                self._want_write(host, True)
                return
            except OSError as error:
                if self._survivor is None:
                    raise _broken(host, error) from None
                self._give_up(host)
                return
            transfer.sent(host, n)
        self._want_write(host, False)

    def poll(self, timeout: float) -> bool:
        """Sleep at most ``timeout`` seconds until an event; handle it. Whether there was one."""
        if self._encrypted and self._read_pending():
            return True
        if 0.0 < timeout < _FINE_S and (fd := self._epoll.fileno()) < _SELECTABLE:
            select.select((fd,), (), (), timeout)
            timeout = 0.0
        ready = self._epoll.poll(timeout)
        for fd, mask in ready:
            host = self._hosts.get(fd)
            if host is None:
                self._pollers.get(fd, _nothing)()
                continue
            if mask & ~select.EPOLLOUT:
                self._read(host)
            if mask & select.EPOLLOUT:
                self.flush(host)
        return bool(ready)

    def _read_pending(self) -> bool:
        """Read what has come on channels with TLS unknown to epoll; whether there was something."""
        hosts = [host for host in self._encrypted if self._pending[host]()]
        for host in hosts:
            self._read(host)
        return bool(hosts)

    def wait_on(self, host: int, spin_s: float, longest_s: float) -> bool:
        """Wait for octets of ``host``; serve other channels meanwhile. Return at the first event.

        First spin for ``spin_s`` seconds, then block at most ``longest_s``. False: no event.
        """
        sole = self._alone and not self._writing  # nothing but one channel to wait for
        if self._must_sleep(host, spin_s):
            return self._slept(longest_s)
        room = self._rooms[host]()
        receive = self._receiver(host, room)
        reader = self._readers[host]
        flags = _NOW * bool(spin_s)
        begun, turns = perf_counter(), 0
        while True:
            try:
                n = receive(room, 0, flags)
            except BlockingIOError:
                turns += 1
                if turns & _TURNS:
                    continue
                if not sole and self._others_moved():
                    return True
                if perf_counter() - begun < spin_s:
                    continue
                if not self._may_block():
                    return self._slept(longest_s)
                begun, flags = perf_counter(), 0  # one system call waits and reads
                continue
            except OSError:
                n = 0  # eof() tells whether the end is lawful
            if not flags:
                self._patience.learn(perf_counter() - begun)
            if not (n and reader(n)):
                self._consume(host, n)
            return True

    def _must_sleep(self, host: int, spin_s: float) -> bool:
        """Whether a wait can neither spin nor block: in a lazy job there may be no channel yet."""
        return host not in self._rooms or not (spin_s or self._may_block())

    def _may_block(self) -> bool:
        """Whether a receive from one channel may block: nothing else can be awaited meanwhile."""
        return self._alone and not self._writing and is_single()

    def _others_moved(self) -> bool:
        """Poll all channels and a vendor without a descriptor; whether anything happened."""
        self._push()
        return self.poll(0.0)

    def doze(self, seconds: float) -> None:
        """Sleep until a channel is readable, at most ``seconds``; reads nothing. For any thread."""
        if any(self._pending[host]() for host in self._encrypted):
            return
        try:
            fd = self._epoll.fileno()
            select.select((fd,) if fd < _SELECTABLE else (), (), (), seconds)
        except (OSError, ValueError):
            pass  # the channels were closed meanwhile

    def _slept(self, longest_s: float) -> bool:
        begun = perf_counter()
        self._push()
        moved = self.poll(longest_sleep(longest_s))
        if longest_s:  # else it was a look, not a sleep
            self._patience.learn(perf_counter() - begun)
        return moved

    def _receiver(self, host: int, room: memoryview | list[memoryview]) -> Callable[[Any, int, int], int]:
        """Return a function that reads octets into ``room``, which may be several places."""
        if not isinstance(room, list):
            return self._receive[host]
        receive = self._sockets[host].recvmsg_into
        return lambda views, ancillary, flags: receive(views, ancillary, flags)[0]

    def _read(self, host: int) -> None:
        for turn in count():
            if turn >= _READS and not self._pending[host]():
                return
            room = self._rooms[host]()
            receive = self._receiver(host, room)
            try:
                n = receive(room, 0, _NOW)
            except BlockingIOError:
                return
            except OSError:
                n = 0  # a reset, too, is a lawful end once both FINIs are exchanged: eof() knows
            if not (n and self._readers[host](n)):
                self._consume(host, n)
            # A short read emptied the socket; epoll reports what comes later, and the end.
            if not isinstance(room, list) and n < len(room):
                return

    def _read_and_hurry(self, host: int, read: Callable[[int], bool], n: int) -> bool:
        done = read(n)
        if done:
            self._hurry(host)
        return done

    def _hurry(self, host: int) -> None:
        """Acknowledge what was read if the rest of a packet may wait for that."""
        if self._transfer.inside(host):
            quick_ack(self._sockets[host])

    def _consume(self, host: int, n: int) -> None:
        """Handle what the reader has left of ``n`` octets; 0 is the end of the stream."""
        transfer = self._transfer
        if n == 0:
            try:
                transfer.eof(host)
            except JobError:
                if self._survivor is None:
                    raise
                self._give_up(host)
                return
            self._epoll.unregister(self._sockets[host].fileno())
            self._writing.discard(host)
            self._alone = False
            return
        for event in transfer.parse(host):
            match event:
                case Arrived(incoming) if not incoming.cancelled:  # else its CANCEL was read with it
                    self._arrived(incoming)
                case Cancelled(incoming):
                    self._cancelled(incoming)
        if host in transfer.busy:
            self.flush(host)
        if self._foreign:
            self._hurry(host)

    def _taken(self, host: int, error: OSError, size: int) -> int:
        """Return how many of ``size`` octets count as taken after a failed write.

        Raises:
            JobError: the channel broke, and the job does not go on without.
        """
        if isinstance(error, BlockingIOError):
            return 0
        if self._survivor is None:
            raise _broken(host, error) from None
        self._give_up(host)
        return size

    def _give_up(self, host: int) -> None:
        """Go on without a channel that has ended; whoever knows will say why."""
        if host in self._cut or host not in self._sockets:
            return
        self._cut.add(host)
        with suppress(OSError):
            self._epoll.unregister(self._sockets[host].fileno())
        self._writing.discard(host)
        self._alone = False
        self._transfer.abandon(host)
        if self._survivor is not None:
            self._survivor(host)

    def drain(self, host: int) -> None:
        """Read what has come from a host that is lost, to the end; then close its channel."""
        sock = self._sockets.get(host)
        while sock is not None and host not in self._cut:
            room = self._rooms[host]()
            try:
                n = self._receiver(host, room)(room, 0, _NOW)
            except OSError:  # nothing more has come, or it broke
                n = 0
            if not n:
                self._give_up(host)
            elif not self._readers[host](n):
                self._consume(host, n)
        if host in self._sockets:
            self.dismiss(host)

    def _want_write(self, host: int, wanted: bool) -> None:
        if wanted == (host in self._writing):
            return
        mask = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(self._sockets[host].fileno(), mask)
        (self._writing.add if wanted else self._writing.discard)(host)


def _nothing() -> None:
    """Nobody to serve: the descriptor was removed in this turn."""


def _broken(host: int, error: OSError) -> JobError:
    return JobError(f"the channel to host {host} broke: {error.strerror}", clause="3.8")
