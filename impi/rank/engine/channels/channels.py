"""The sockets of a proc's channels: octets between TCP and the transfer machine.

How it works. Outbound: :meth:`Channels.flush` writes the octets that
:class:`impi.protocol.transfer.Transfer` has queued for a host, until TCP is full; then epoll waits
for EPOLLOUT. :class:`ShortSender` bypasses the queue: one packet, one ``send``. Octets that TCP
does not take go back to the head of the queue. Inbound: octets are read into the room that the
transfer machine offers. Its reader hands whole short messages to the engine (``deliver``), or to a
receive that waits for the next one and is handed down with each read (:class:`Standing`). The rest
is parsed into events, which become calls of ``arrived`` and ``cancelled``.

The sockets block, and every call passes MSG_DONTWAIT. The one exception is a proc with one thread,
one channel and nothing else to do: it waits in ``recv``, so a message costs one system call. That
is why this is selectors and not asyncio: a turn of epoll costs 0.3 us, a task switch of asyncio
tens of us (docs/decisions/selectors-not-asyncio.md).

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
from impi.protocol.transfer import (
    Arrived,
    Cancelled,
    Deliver,
    Incoming,
    MakePacket,
    Read,
    Transfer,
)
from impi.protocol.transfer.inbound import Acknowledge
from impi.protocol.wire.packets import HEADER_SIZE
from impi.rank.engine.channels.entries import checked_entry
from impi.rank.engine.channels.host_socket import HostSocket
from impi.rank.engine.channels.threads import Threads, is_single, longest_sleep
from impi.rank.engine.channels.waiting import Patience

# A C program has SIGPIPE's default, and a peer that has closed first must not end it.
_NOW: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_READS: Final = 16  # Most reads from one channel before the next gets its turn
# Mask: a spin on one channel looks at the other channels and the clock in every eighth turn only.
_TURNS: Final = 7
_FINE_S: Final = 1e-3  # epoll counts in milliseconds; shorter sleeps go through select
_SELECTABLE: Final = 1024  # FD_SETSIZE


class Standing(Protocol):
    """A receive that waits for one message of one process."""

    def take(
        self, world: int, cid: int, tag: int, count: int, octets: memoryview, /
    ) -> bool:
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

        # One epoll descriptor for all channels: a turn costs one system call, however many there
        # are.
        self._epoll = select.epoll()
        for host, sock in sockets.items():
            self.admit(host, sock)

        # Whether a blocking read of the one channel misses nothing. Once false it stays false: a
        # channel that comes or goes later is news that only epoll tells.
        self._alone = len(sockets) == 1
        # By descriptor, what else a wait serves
        self._pollers: dict[int, Callable[[], None]] = {}
        self._push: Callable[[], None] = _nothing
        self._survivor: Callable[[int], None] | None = None

    def survive(self, ended: Callable[[int], None]) -> None:
        """Call ``ended`` with the host of a channel that ends without FINI, and go on without.

        Octets that are written to it from then on are dropped.
        """
        self._survivor = ended

    def admit(self, host: int, sock: socket.socket) -> None:
        """Add a connected socket; the transfer machine has a channel with ``host``."""

        transfer = self._transfer
        self._alone = False
        # Where no message may be taken past the matchers (_refuse), octets are only noted, and
        # parse() makes events of all packets.
        read: Read = (
            partial(transfer.note, host)
            if self._deliver is _refuse
            else transfer.short_reader(
                host, self._deliver, self._acknowledger(host, sock)
            )
        )

        link = HostSocket(host, sock, transfer, read, foreign=self._foreign)
        # Octets may lie in the TLS layer, where epoll sees none. So these links are asked before
        # each sleep.
        if link.is_encrypted:
            self._encrypted.append(link)

        self._links[host] = self._by_fd[sock.fileno()] = link
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def dismiss(self, host: int) -> None:
        """Close the socket of a host; both ends have said FINI (IMPI 3.8)."""

        link = self._links.pop(host)
        with suppress(OSError):  # its end was read: it is not registered any more
            self._epoll.unregister(link.sock.fileno())

        # The kernel gives the number of a closed descriptor to the next one that is opened.
        del self._by_fd[link.sock.fileno()]

        self.writing.discard(host)
        if link in self._encrypted:
            self._encrypted.remove(link)

        link.sock.close()

    def add_poller(
        self, fd: int | None, progress: Callable[[], None], *, others: bool
    ) -> None:
        """Call ``progress`` when ``fd`` is readable; without ``fd``, between reads of the channels.

        ``others``: messages can come that way while the proc sleeps.
        """
        # MPICH and Open MPI have no descriptor. They are called between reads instead, and only if
        # another proc can send to us: else each wait would pay for nothing.
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
        # IMPI 3.6: a PROTOACK takes no credit and is to be expedited. If nothing is queued it goes
        # out from within the read that has made it due.
        write = sock.send

        def acknowledge(dest: int, packet: bytes) -> None:
            try:
                n = write(packet, _NOW)
            except OSError as error:
                n = self.count_taken(host, error, len(packet))

            # Cut short by TCP. The stream has no marks to find the next packet by, so the rest must
            # come before all other octets: it goes to the head of the queue.
            if n != len(packet):
                self.requeue(host, dest, packet, n)

        return acknowledge

    def short_sender(
        self, host: int, dest: int, make: MakePacket, threads: Threads
    ) -> ShortSender:
        """Return a sender of short messages to world rank ``dest`` on a host's channel.

        ``make`` comes from :meth:`impi.protocol.transfer.Transfer.short_sender`.
        """
        return ShortSender(self, host, dest, make, self._links[host].sock, threads)

    def requeue(self, host: int, dest: int, packet: bytes | memoryview, n: int) -> None:
        self._transfer.requeue(dest, packet, n)
        # At once: if TCP is still full, this is what registers the socket for EPOLLOUT.
        self.flush(host)

    def flush(self, host: int) -> None:
        # Also after an event whose handling has closed the channel: then there is nothing to do.
        transfer, link = self._transfer, self._links.get(host)
        if link is None or link.cut or link.sock.fileno() < 0:
            return

        sock = link.sock
        # A partial write is not an error: sent() counts it, and the next views begin behind it.
        while views := transfer.data_to_send(host):
            try:
                n = (
                    sock.send(views[0], _NOW)
                    if len(views) == 1
                    else sock.sendmsg(views, (), _NOW)
                )
            except BlockingIOError:  # TCP is full: epoll tells when there is room again
                transfer.sent(host, 0)
                self._want_write(link, True)
                return
            except OSError as error:
                if self._survivor is None:
                    raise _broken(host, error) from None

                self._give_up(host)
                return

            transfer.sent(host, n)

        # Nothing is left. A socket is nearly always writable, so with EPOLLOUT every sleep would
        # end at once.
        self._want_write(link, False)

    def poll(self, timeout: float, standing: Standing | None = None) -> bool:
        """Sleep at most ``timeout`` seconds until an event; handle it. Whether there was one."""

        if self._encrypted and (
            pending := [link for link in self._encrypted if link.pending()]
        ):
            # A TLS record was read in part: the kernel has nothing to tell
            for link in pending:
                self._read(link, standing)

            return True

        # The epoll descriptor is readable when it has events, so select() can sleep on it for
        # microseconds, and the poll below only looks. It takes no descriptor above FD_SETSIZE.
        if 0.0 < timeout < _FINE_S and (fd := self._epoll.fileno()) < _SELECTABLE:
            select.select((fd,), (), (), timeout)
            timeout = 0.0

        ready = self._epoll.poll(timeout)
        for fd, mask in ready:
            found = self._by_fd.get(fd)
            # No channel: the library, the helper of a lazy job, news from impirun. Or a channel
            # that an earlier event of this turn has closed.
            if found is None:
                self._pollers.get(fd, _nothing)()
                continue

            # Hang-up and error count as readable: the read tells which end it was, and octets that
            # came before it are still there.
            if mask & ~select.EPOLLOUT:
                self._read(found, standing)

            if mask & select.EPOLLOUT:
                self.flush(found.host)

        return bool(ready)

    def wait_on(
        self,
        host: int,
        spin_s: float,
        longest_s: float,
        standing: Standing | None = None,
    ) -> bool:
        """Wait for octets of ``host``; serve other channels meanwhile. Return at the first event.

        First spin for ``spin_s`` seconds, then block at most ``longest_s``. ``standing`` is asked
        for the messages that come meanwhile before all others. False: no event.
        """

        sole = self._alone and not self.writing  # nothing but one channel to wait for
        if self._must_sleep(host, spin_s):
            return self._sleep_until_ready(longest_s, standing)

        # The room is asked for once, not in each turn: octets of another channel cannot change
        # where this one's go, and after any event this function returns.
        link = self._links[host]
        room = link.room()
        receive = link.receiver(room)
        # Without a spin the first receive may block: _must_sleep() has made sure that nothing else
        # can be missed meanwhile.
        flags = _NOW * bool(spin_s)

        pause = self._patience.pause
        begun, turns = perf_counter(), 0
        while True:
            try:
                n = receive(room, 0, flags)
            except BlockingIOError:
                turns += 1
                pause()
                if turns & _TURNS:
                    continue

                # Any event counts, also of another channel or of the library: it may have ended
                # what the caller waits for, who looks after each event.
                if not sole and self._others_moved(standing):
                    return True

                if perf_counter() - begun < spin_s:
                    continue

                # A blocking receive would miss other channels, room to write, or a thread that
                # wants in. epoll sees the first two, and its sleep is short for the third.
                if not self._may_block():
                    return self._sleep_until_ready(longest_s, standing)

                begun, flags = perf_counter(), 0  # one system call waits and reads
                continue
            except OSError:
                n = 0  # eof() tells whether the end is lawful

            # Only a wait that blocked tells whether a longer spin would have caught it.
            if not flags:
                self._patience.learn(perf_counter() - begun)

            # A short message whose receive waits never becomes an object. All else is parsed.
            if not (n and link.read(n, standing.take if standing else self._deliver)):
                self._consume(link, n, standing)

            return True

    def _must_sleep(self, host: int, spin_s: float) -> bool:
        """Whether a wait can neither spin nor block: in a lazy job there may be no channel yet."""
        return host not in self._links or not (spin_s or self._may_block())

    def _may_block(self) -> bool:
        """Whether a receive from one channel may block: nothing else can be awaited meanwhile."""
        # With something to write only epoll tells of room in TCP; a second thread could come into
        # MPI and would find this one inside for as long as the message takes.
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
            # An epoll descriptor is readable when it has events. select takes microseconds, and
            # takes no event from the thread whose turn is next.
            fd = self._epoll.fileno()
            select.select((fd,) if fd < _SELECTABLE else (), (), (), seconds)
        except (OSError, ValueError):
            pass  # the channels were closed meanwhile

    def _sleep_until_ready(self, longest_s: float, standing: Standing | None) -> bool:
        begun = perf_counter()
        # A library without a descriptor cannot end the sleep, so it is asked before.
        self._push()

        moved = self.poll(longest_sleep(longest_s), standing)
        if longest_s:  # else it was a look, not a sleep
            self._patience.learn(perf_counter() - begun)

        return moved

    def _read(self, link: HostSocket, standing: Standing | None) -> None:
        # Level-triggered epoll reports the rest again, so a limit loses nothing. Only octets
        # that the TLS layer holds would be forgotten.
        for turn in count():
            # Given up by an earlier event of this turn, or by a write of the last round.
            if link.cut or (turn >= _READS and not link.pending()):
                return

            room = link.room()

            receive = link.receiver(room)
            try:
                n = receive(room, 0, _NOW)
            except BlockingIOError:
                return
            except OSError:
                # A reset, too, is a lawful end once both FINIs are exchanged: eof() knows
                n = 0

            if not (n and link.read(n, standing.take if standing else self._deliver)):
                self._consume(link, n, standing)

            # A short read has emptied the socket; epoll reports later octets, and the end.
            if not isinstance(room, list) and n < len(room):
                return

    def _consume(
        self, link: HostSocket, n: int, standing: Standing | None = None
    ) -> None:
        """Handle what the reader has left of ``n`` octets; 0 is the end of the stream."""

        transfer, host = self._transfer, link.host
        if n == 0:
            try:
                # IMPI 3.8: an end before both FINIs are exchanged is abnormal.
                transfer.eof(host)
            except JobError:
                if self._survivor is None:
                    raise

                self._give_up(host)
                return

            # A lawful end (3.8). It stays readable for ever, so epoll must not report it again.
            self._epoll.unregister(link.sock.fileno())
            self.writing.discard(host)
            self._alone = False

            return

        for event in transfer.parse(host):
            match event:
                case Arrived(incoming) if not incoming.cancelled:
                    # Else its CANCEL was read with it
                    if not (standing and standing.claim(incoming)):
                        self._arrived(incoming)
                case Cancelled(incoming):
                    self._cancelled(incoming)

        # PROTOACKs and SYNCACKs at once: the peer may be waiting at hiwater (3.6).
        if host in transfer.hosts.busy:
            self.flush(host)

        if self._foreign:
            link.hurry()

    def count_taken(self, host: int, error: OSError, size: int) -> int:
        """Return the number of octets, up to ``size``, that count as taken after a failed write.

        Raises:
            JobError: the channel broke, and the job does not go on without.
        """

        if isinstance(error, BlockingIOError):
            return 0

        if self._survivor is None:
            raise _broken(host, error) from None

        # A send to a lost proc counts as done here. Its failure comes with the news of the loss,
        # which only the server can give.
        self._give_up(host)

        return size

    def _give_up(self, host: int) -> None:
        """Go on without a channel that has ended; impirun's news will say which proc is lost."""

        link = self._links.get(host)
        if link is None or link.cut:
            return

        # The mark first: the calls below may lead to a flush, which must leave the channel alone.
        link.cut = True
        with suppress(OSError):
            self._epoll.unregister(link.sock.fileno())

        self.writing.discard(host)
        self._alone = False

        self._transfer.hosts.abandon(host)
        if self._survivor is not None:
            self._survivor(host)

    def drain(self, host: int) -> None:
        """Read the octets of a host that is lost, to the end; then close its channel."""
        # MPI lets the program receive messages that a lost proc has sent before, so they must not
        # be thrown away with the socket.
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
        # epoll_ctl is a system call: only if something changes (the invariant of this module).
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

    __slots__ = (
        "_channels",
        "_dest",
        "_host",
        "_make",
        "_write",
        "_write_parts",
        "threads",
    )

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

        Octets that TCP does not take are copied and queued; :attr:`Channels.writing` has the host
        then.

        Raises:
            JobError: the channel broke, and the job does not go on without.
        """
        with self.threads.lock:
            # None if the message is too long, if there is no credit (3.6), or if something is
            # queued: a message must not overtake another one of its pair.
            packet = self._make(tag, octets, count)
            if packet is None:
                return False

            # make() has counted the packet and given it a request id. From here on it must leave,
            # in whole.
            size = HEADER_SIZE + len(octets)
            try:
                n = (
                    self._write_parts(packet, (), _NOW)
                    if isinstance(packet, list)
                    else self._write(packet, _NOW)
                )
            except OSError as error:
                n = self._channels.count_taken(self._host, error, size)

            # The rest must follow before any other packet, so it goes to the head of the queue.
            if n != size:
                whole = b"".join(packet) if isinstance(packet, list) else packet
                self._channels.requeue(self._host, self._dest, whole, n)

            return True


def _refuse(world: int, cid: int, tag: int, count: int, octets: memoryview) -> bool:
    """Take no message: each is an event."""
    return False


def _nothing() -> None:
    """Do nothing: the descriptor was removed in this turn."""


def _broken(host: int, error: OSError) -> JobError:
    return JobError(f"the channel to host {host} broke: {error.strerror}", clause="3.8")
