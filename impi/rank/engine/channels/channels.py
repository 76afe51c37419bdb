"""The sockets of a proc's channels: octets between TCP and the transfer machine.

Called by :class:`impi.rank.engine.engine.Engine` only. Outbound: :meth:`Channels.flush` writes what
:class:`impi.protocol.transfer.Transfer` has queued for a host, until TCP is full; then epoll waits
for EPOLLOUT. :class:`ShortSender` bypasses the queue: one packet, one ``send``. What TCP does not
take of it goes back to the head of the queue. Inbound: octets are read into the room that the
transfer machine offers. Its reader hands whole short messages to the engine (``deliver``), or to a
receive that waits for the next one and is handed down with each read (:class:`Standing`). The rest
is parsed into events, which become calls of ``arrived`` and ``cancelled``.

The sockets block, and every call passes MSG_DONTWAIT. The one exception is a proc with one thread,
one channel and nothing else to do: it waits in ``recv``, so a message costs one system call.

Invariant: a host is registered for EPOLLOUT exactly while it is in ``writing``.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import perf_counter
from typing import Final, Protocol

from impi.base.errors import JobError
from impi.protocol.transfer import Arrived, Cancelled, Deliver, Incoming, MakePacket, Read, Transfer
from impi.protocol.transfer.inbound import Acknowledge
from impi.protocol.wire.packets import HEADER_SIZE
from impi.rank.engine.channels.entries import checked_entry
from impi.rank.engine.channels.host_socket import HostSocket
from impi.rank.engine.channels.threads import Threads, is_single, longest_sleep
from impi.rank.engine.channels.waiting import Patience

_NOW: Final = socket.MSG_DONTWAIT
_READS: Final = 16  # Most reads from one channel before the next gets its turn
# Mask: turns of a spin on one channel, minus 1, before the other channels and the clock.
_TURNS: Final = 7
_FINE_S: Final = 1e-3  # epoll counts in milliseconds; shorter sleeps go through select
_SELECTABLE: Final = 1024  # FD_SETSIZE


class Standing(Protocol):
    """A receive that waits for one message of one process."""

    def take(self, world: int, cid: int, tag: int, count: int, octets: memoryview, /) -> bool:
        """Take a whole short message, or hand it on: see ``Deliver``."""

    def claim(self, incoming: Incoming, /) -> bool:
        """Accept a message still arriving; False: it is another one."""


class Channels:
    """Reads and writes the channels of one proc.

    Args:
        transfer: the machine that makes and parses the octets.
        sockets: connected sockets, by host.
        patience: learns how long waits last.
        deliver: see :meth:`impi.protocol.transfer.Transfer.short_reader`; None: every message is an
        event.
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
        self._deliver = deliver or _refuse
        self._foreign = foreign
        self._arrived = arrived
        self._cancelled = cancelled
        self._links: dict[int, HostSocket] = {}  # By host
        self._by_fd: dict[int, HostSocket] = {}
        self._encrypted: list[HostSocket] = []  # Those with TLS
        self.writing: set[int] = set()
        """Hosts whose sockets are awaited to become writable; read only."""
        self._epoll = select.epoll()
        for host, sock in sockets.items():
            self.admit(host, sock)
        self._alone = len(sockets) == 1
        self._pollers: dict[int, Callable[[], None]] = {}  # By descriptor, what else a wait serves
        self._push: Callable[[], None] = _nothing
        self._survivor: Callable[[int], None] | None = None

    def survive(self, ended: Callable[[int], None]) -> None:
        """Call ``ended`` with the host of a channel that ends without FINI, and go on without.

        What is written to it from then on is dropped.
        """
        self._survivor = ended

    def admit(self, host: int, sock: socket.socket) -> None:
        """Add a connected socket; the transfer machine has a channel with ``host``."""
        transfer = self._transfer
        self._alone = False
        read: Read = (
            partial(transfer.note, host)
            if self._deliver is _refuse
            else transfer.short_reader(host, self._deliver, self._acknowledger(host, sock))
        )
        link = HostSocket(host, sock, transfer, read, foreign=self._foreign)
        if link.is_encrypted:
            self._encrypted.append(link)
        self._links[host] = self._by_fd[sock.fileno()] = link
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def dismiss(self, host: int) -> None:
        """Close the socket of a host; both ends have said FINI (IMPI 3.8)."""
        link = self._links.pop(host)
        with suppress(OSError):  # its end was read: it is not registered any more
            self._epoll.unregister(link.sock.fileno())
        del self._by_fd[link.sock.fileno()]
        self.writing.discard(host)
        if link in self._encrypted:
            self._encrypted.remove(link)
        link.sock.close()

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
        self._epoll.unregister(fd)

    def close(self) -> None:
        self._epoll.close()
        for link in self._links.values():
            link.sock.close()

    def _acknowledger(self, host: int, sock: socket.socket) -> Acknowledge:
        """Return a function that sends a PROTOACK on the empty channel of ``host``."""
        write = sock.send

        def acknowledge(dest: int, packet: bytes) -> None:
            try:
                n = write(packet, _NOW)
            except OSError as error:
                n = self.taken(host, error, len(packet))
            if n != len(packet):
                self.requeue(host, dest, packet, n)

        return acknowledge

    def short_sender(self, host: int, dest: int, make: MakePacket, threads: Threads) -> ShortSender:
        """Return what sends short messages to world rank ``dest`` on a host's channel.

        ``make`` comes from :meth:`impi.protocol.transfer.Transfer.short_sender`.
        """
        return ShortSender(self, host, dest, make, self._links[host].sock, threads)

    def requeue(self, host: int, dest: int, packet: bytes | memoryview, n: int) -> None:
        self._transfer.requeue(dest, packet, n)
        self.flush(host)

    def flush(self, host: int) -> None:
        transfer, link = self._transfer, self._links.get(host)
        if link is None or link.cut or link.sock.fileno() < 0:
            return
        sock = link.sock
        while views := transfer.data_to_send(host):
            try:
                n = sock.send(views[0], _NOW) if len(views) == 1 else sock.sendmsg(views, (), _NOW)
            except BlockingIOError:
                transfer.sent(host, 0)
                self._want_write(link, True)
                return
            except OSError as error:
                if self._survivor is None:
                    raise _broken(host, error) from None
                self._give_up(host)
                return
            transfer.sent(host, n)
        self._want_write(link, False)

    def poll(self, timeout: float, standing: Standing | None = None) -> bool:
        """Sleep at most ``timeout`` seconds until an event; handle it. Whether there was one."""
        if self._encrypted and (pending := [link for link in self._encrypted if link.pending()]):
            for link in pending:  # what epoll does not tell of
                self._read(link, standing)
            return True
        if 0.0 < timeout < _FINE_S and (fd := self._epoll.fileno()) < _SELECTABLE:
            select.select((fd,), (), (), timeout)
            timeout = 0.0
        ready = self._epoll.poll(timeout)
        for fd, mask in ready:
            found = self._by_fd.get(fd)
            if found is None:
                self._pollers.get(fd, _nothing)()
                continue
            if mask & ~select.EPOLLOUT:
                self._read(found, standing)
            if mask & select.EPOLLOUT:
                self.flush(found.host)
        return bool(ready)

    def wait_on(self, host: int, spin_s: float, longest_s: float, standing: Standing | None = None) -> bool:
        """Wait for octets of ``host``; serve other channels meanwhile. Return at the first event.

        First spin for ``spin_s`` seconds, then block at most ``longest_s``. ``standing`` is asked
        for the messages that come meanwhile before all others. False: no event.
        """
        sole = self._alone and not self.writing  # nothing but one channel to wait for
        if self._must_sleep(host, spin_s):
            return self._slept(longest_s, standing)
        link = self._links[host]
        room = link.room()
        receive = link.receiver(room)
        flags = _NOW * bool(spin_s)
        begun, turns = perf_counter(), 0
        while True:
            try:
                n = receive(room, 0, flags)
            except BlockingIOError:
                turns += 1
                if turns & _TURNS:
                    continue
                if not sole and self._others_moved(standing):
                    return True
                if perf_counter() - begun < spin_s:
                    continue
                if not self._may_block():
                    return self._slept(longest_s, standing)
                begun, flags = perf_counter(), 0  # one system call waits and reads
                continue
            except OSError:
                n = 0  # eof() tells whether the end is lawful
            if not flags:
                self._patience.learn(perf_counter() - begun)
            if not (n and link.read(n, standing.take if standing else self._deliver)):
                self._consume(link, n, standing)
            return True

    def _must_sleep(self, host: int, spin_s: float) -> bool:
        """Whether a wait can neither spin nor block: in a lazy job there may be no channel yet."""
        return host not in self._links or not (spin_s or self._may_block())

    def _may_block(self) -> bool:
        """Whether a receive from one channel may block: nothing else can be awaited meanwhile."""
        return self._alone and not self.writing and is_single()

    def _others_moved(self, standing: Standing | None) -> bool:
        """Poll all channels and a vendor without a descriptor; whether anything happened."""
        self._push()
        return self.poll(0.0, standing)

    def doze(self, seconds: float) -> None:
        """Sleep until a channel is readable, at most ``seconds``; reads nothing. For any thread."""
        if any(link.pending() for link in self._encrypted):
            return
        try:
            fd = self._epoll.fileno()
            select.select((fd,) if fd < _SELECTABLE else (), (), (), seconds)
        except (OSError, ValueError):
            pass  # the channels were closed meanwhile

    def _slept(self, longest_s: float, standing: Standing | None) -> bool:
        begun = perf_counter()
        self._push()
        moved = self.poll(longest_sleep(longest_s), standing)
        if longest_s:  # else it was a look, not a sleep
            self._patience.learn(perf_counter() - begun)
        return moved

    def _read(self, link: HostSocket, standing: Standing | None) -> None:
        for turn in count():
            if turn >= _READS and not link.pending():
                return
            room = link.room()
            receive = link.receiver(room)
            try:
                n = receive(room, 0, _NOW)
            except BlockingIOError:
                return
            except OSError:
                n = 0  # a reset, too, is a lawful end once both FINIs are exchanged: eof() knows
            if not (n and link.read(n, standing.take if standing else self._deliver)):
                self._consume(link, n, standing)
            # A short read emptied the socket; epoll reports what comes later, and the end.
            if not isinstance(room, list) and n < len(room):
                return

    def _consume(self, link: HostSocket, n: int, standing: Standing | None = None) -> None:
        """Handle what the reader has left of ``n`` octets; 0 is the end of the stream."""
        transfer, host = self._transfer, link.host
        if n == 0:
            try:
                transfer.eof(host)
            except JobError:
                if self._survivor is None:
                    raise
                self._give_up(host)
                return
            self._epoll.unregister(link.sock.fileno())
            self.writing.discard(host)
            self._alone = False
            return
        for event in transfer.parse(host):
            match event:
                case Arrived(incoming) if not incoming.cancelled:  # else its CANCEL was read with it
                    if not (standing and standing.claim(incoming)):
                        self._arrived(incoming)
                case Cancelled(incoming):
                    self._cancelled(incoming)
        if host in transfer.hosts.busy:
            self.flush(host)
        if self._foreign:
            link.hurry()

    def taken(self, host: int, error: OSError, size: int) -> int:
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
        link = self._links.get(host)
        if link is None or link.cut:
            return
        link.cut = True
        with suppress(OSError):
            self._epoll.unregister(link.sock.fileno())
        self.writing.discard(host)
        self._alone = False
        self._transfer.hosts.abandon(host)
        if self._survivor is not None:
            self._survivor(host)

    def drain(self, host: int) -> None:
        """Read what has come from a host that is lost, to the end; then close its channel."""
        link = self._links.get(host)
        while link is not None and not link.cut:
            room = link.room()
            try:
                n = link.receiver(room)(room, 0, _NOW)
            except OSError:  # nothing more has come, or it broke
                n = 0
            if not n:
                self._give_up(host)
            elif not link.read(n, self._deliver):
                self._consume(link, n)
        if host in self._links:
            self.dismiss(host)

    def _want_write(self, link: HostSocket, wanted: bool) -> None:
        host = link.host
        if wanted == (host in self.writing):
            return
        mask = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(link.sock.fileno(), mask)
        (self.writing.add if wanted else self.writing.discard)(host)


class ShortSender:
    """Sends messages of one packet to one process by one system call each, past the queues.

    Args:
        channels: of this proc.
        host: whose channel leads to the process.
        dest: its rank in MPI_COMM_WORLD.
        make: makes the packet of a message, if it may go past the queues.
        sock: of the channel.
        threads: of this proc.
    """

    __slots__ = ("_channels", "_dest", "_host", "_make", "_write", "_write_parts", "threads")

    def __init__(
        self,
        channels: Channels,
        host: int,
        dest: int,
        make: MakePacket,
        sock: socket.socket,
        threads: Threads,
    ) -> None:
        self._channels = channels
        self._host = host
        self._dest = dest
        self._make = make
        self._write = sock.send
        self._write_parts = sock.sendmsg
        self.threads = threads

    @checked_entry
    def send(self, tag: int, octets: memoryview, count: int) -> bool:
        """Send a message of ``count`` elements. False: nothing was done; queue it instead.

        What TCP does not take is copied and queued; :attr:`Channels.writing` has the host then.

        Raises:
            JobError: the channel broke, and the job does not go on without.
        """
        with self.threads.lock:
            packet = self._make(tag, octets, count)
            if packet is None:
                return False
            size = HEADER_SIZE + len(octets)
            try:
                n = self._write_parts(packet, (), _NOW) if isinstance(packet, list) else self._write(packet, _NOW)
            except OSError as error:
                n = self._channels.taken(self._host, error, size)
            if n != size:
                whole = b"".join(packet) if isinstance(packet, list) else packet
                self._channels.requeue(self._host, self._dest, whole, n)
            return True


def _refuse(world: int, cid: int, tag: int, count: int, octets: memoryview) -> bool:
    """Take no message: each is an event."""
    return False


def _nothing() -> None:
    """Nobody to serve: the descriptor was removed in this turn."""


def _broken(host: int, error: OSError) -> JobError:
    return JobError(f"the channel to host {host} broke: {error.strerror}", clause="3.8")
