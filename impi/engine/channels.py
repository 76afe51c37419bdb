"""The sockets of a proc's channels: octets between them and the transfer machine, and what a proc sleeps on.

The sockets block, and every call says MSG_DONTWAIT but the one in which a proc that has nothing else to do waits for
its only channel: so that costs one system call a message, as it would without us.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

from impi.engine.waiting import Patience
from impi.errors import JobError
from impi.transfer import Arrived, Cancelled, Deliver, Incoming, ShortSender, Transfer
from impi.transfer.inbound import FOR_THE_REST, NOT_NOTED, NOTHING_YET, Acknowledge

__all__ = ["Channels", "See"]

_NOW: Final = socket.MSG_DONTWAIT
_READS: Final = 16
"""Most reads from one channel before the next gets its turn."""
_TURNS: Final = 7
"""One less than the turns, a power of two, after which who spins on one channel looks at the others, and the clock."""
_FINE_S: Final = 1e-3
"""epoll counts in milliseconds; shorter sleeps go through select."""
_SELECTABLE: Final = 1024
"""FD_SETSIZE."""


class See(Protocol):
    """Finds the octets in what somebody wants to send."""

    def __call__(self, spec: Any, /, *, readonly: bool) -> memoryview | None:
        """None: they are not there as they are to be sent."""
        ...


class Channels:
    """Reads and writes the channels of one proc.

    Args:
        transfer: whose octets they are.
        sockets: connected ones, by host.
        patience: how long :meth:`attend` spins.
        deliver: see :meth:`impi.transfer.Transfer.taker`.
        arrived: called for every message that ``deliver`` has not taken.
        cancelled: called for every message that its sender took back.
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
    ) -> None:
        self._transfer = transfer
        self._sockets = sockets
        self._patience = patience
        self._takers = {
            host: partial(transfer.read, host)
            if deliver is None
            else transfer.taker(host, deliver, self._acknowledger(host))
            for host in sockets
        }
        self._arrived = arrived
        self._cancelled = cancelled
        for sock in sockets.values():
            sock.setblocking(True)
        self._hosts = {sock.fileno(): host for host, sock in sockets.items()}
        self._writing: set[int] = set()
        self._epoll = select.epoll()
        for fd in self._hosts:
            self._epoll.register(fd, select.EPOLLIN)
        self._alone = len(sockets) == 1
        self._progress: Callable[[], None] = _nothing
        self._push: Callable[[], None] = _nothing

    def beside(self, fd: int | None, progress: Callable[[], None], *, others: bool) -> None:
        """What else a proc must drive: ``progress`` when ``fd`` is readable, or without one now and then.

        ``others``: something can come that way while the proc sleeps.
        """
        self._alone = self._alone and not others
        if fd is not None:
            self._progress = progress
            self._epoll.register(fd, select.EPOLLIN)
        elif others:
            self._push = progress

    def close(self) -> None:
        """Close all."""
        self._epoll.close()
        for sock in self._sockets.values():
            sock.close()

    @property
    def written(self) -> bool:
        """Whether nothing waits for a socket to become writable."""
        return not self._writing

    def _acknowledger(self, host: int) -> Acknowledge:
        """A function that sends a PROTOACK on the channel of ``host``, in whose queue there is nothing."""
        write = self._sockets[host].send

        def acknowledge(dest: int, packet: bytes) -> None:
            try:
                n = write(packet, _NOW)
            except BlockingIOError:
                n = 0
            except OSError as error:
                raise _broken(host, error) from None
            if n != len(packet):
                self._transfer.detain(dest, packet, n)
                self.flush(host)

        return acknowledge

    def sender(self, host: int, dest: int, make: ShortSender) -> Callable[[int, memoryview, int], bool]:
        """A function that sends what ``make`` (of :meth:`impi.transfer.Transfer.sender`, for ``dest``) makes of tag,
        octets and count, on the channel of ``host``; False if that is nothing.
        """
        send = self.sender_of(host, dest, make, lambda octets, *, readonly: octets)
        return lambda tag, octets, count: send(octets, tag, count)

    def sender_of(self, host: int, dest: int, make: ShortSender, see: See) -> Callable[..., bool]:
        """The same for what ``see`` finds in its first argument (None: nothing is sent); then the tag, and the count,
        unless it is the number of octets.
        """
        write = self._sockets[host].send

        def send(spec: Any, tag: int, count: int | None = None) -> bool:
            octets = see(spec, readonly=True)
            if octets is None:
                return False
            packet = make(tag, octets, len(octets) if count is None else count)
            if packet is None:
                return False
            try:
                n = write(packet, _NOW)
            except BlockingIOError:
                n = 0
            except OSError as error:
                raise _broken(host, error) from None
            if n != len(packet):
                self._transfer.detain(dest, packet, n)
                self.flush(host)
            return True

        return send

    def receiver(self, host: int, source: int, cid: int, busy: Callable[[], bool]) -> Callable[[int, memoryview], int]:
        """A function that waits for octets of ``host``, as :meth:`attend`, which are a message of rank ``source`` of
        MPI_COMM_WORLD on context ``cid``, of a tag, and puts it where it belongs.

        It returns how many octets the message has; less than 0: something has happened, or nothing in the time to spin,
        that the long way must look at; or it is ``busy``.
        """
        receive, buffer, take_all = self._sockets[host].recv_into, self._transfer.buffer_of(host), self._takers[host]
        patience, take = self._patience, self._transfer.single(source, cid, self._acknowledger(host))

        def wait(tag: int, place: memoryview) -> int:
            spin_s, begun, turns = patience.spin_s, 0.0, 0
            if busy() or not (spin_s or (self._alone and not self._writing)):
                return NOT_NOTED
            flags: int = _NOW if spin_s else 0
            room = buffer()
            while True:
                try:
                    n = receive(room, 0, flags)
                except BlockingIOError:
                    turns += 1
                    if turns & _TURNS:
                        continue
                    if not self._alone or self._writing:
                        self._push()
                        if self.poll(0.0):
                            return NOT_NOTED
                        room = buffer()
                    now = perf_counter()
                    begun = begun or now
                    if now - begun > spin_s:
                        return NOT_NOTED
                except OSError:
                    self._took(host, 0)
                    return NOT_NOTED
                else:
                    length = take(n, tag, place)
                    if length == NOTHING_YET:
                        room = buffer()
                        continue
                    if length == FOR_THE_REST or (length == NOT_NOTED and (n == 0 or not take_all(n))):
                        self._took(host, n)
                    return length

        return wait

    def flush(self, host: int) -> None:
        """Write what there is for ``host``, as far as TCP takes it."""
        transfer, sock = self._transfer, self._sockets[host]
        if sock.fileno() < 0:
            return
        while views := transfer.data_to_send(host):
            try:
                n = sock.send(views[0], _NOW) if len(views) == 1 else sock.sendmsg(views, (), _NOW)
            except BlockingIOError:
                transfer.sent(host, 0)
                self._want_write(host, True)
                return
            except OSError as error:
                raise _broken(host, error) from None
            transfer.sent(host, n)
        self._want_write(host, False)

    def poll(self, timeout: float) -> bool:
        """Sleep until anything happens, at most so many seconds, and carry it out. Whether anything has."""
        if 0.0 < timeout < _FINE_S and (fd := self._epoll.fileno()) < _SELECTABLE:
            select.select((fd,), (), (), timeout)
            timeout = 0.0
        ready = self._epoll.poll(timeout)
        for fd, mask in ready:
            host = self._hosts.get(fd)
            if host is None:
                self._progress()
                continue
            if mask & ~select.EPOLLOUT:
                self._read(host)
            if mask & select.EPOLLOUT:
                self.flush(host)
        return bool(ready)

    def attend(self, host: int, spin_s: float, longest_s: float) -> bool:
        """Wait for octets of ``host``, serving the others meanwhile: spin, then block for at most ``longest_s``.

        Returns as soon as anything has happened, be it another's doing; False if nothing has.
        """
        return (spin_s > 0.0 and self._spin(host, spin_s)) or self._block(host, longest_s)

    def _spin(self, host: int, spin_s: float) -> bool:
        receive, room, take = *self._where_to(host), self._takers[host]
        begun = 0.0
        turns = 0
        while True:
            try:
                n = receive(room, 0, _NOW)
            except BlockingIOError:
                turns += 1
                if turns & _TURNS:
                    continue
                if not self._alone or self._writing:
                    self._push()
                    if self.poll(0.0):
                        return True
                now = perf_counter()
                begun = begun or now
                if now - begun > spin_s:
                    return False
            except OSError:
                self._took(host, 0)
                return True
            else:
                if n == 0 or not take(n):
                    self._took(host, n)
                return True

    def _block(self, host: int, longest_s: float) -> bool:
        adapts = self._patience.adapts
        begun = perf_counter() if adapts else 0.0
        moved = True
        if self._alone and not self._writing:
            receive, room = self._where_to(host)
            try:
                n = receive(room, 0, 0)
            except OSError:
                n = 0
            if n == 0 or not self._takers[host](n):
                self._took(host, n)
        else:
            self._push()
            moved = self.poll(longest_s)
        if adapts:
            self._patience.learn(perf_counter() - begun)
        return moved

    def _where_to(self, host: int) -> tuple[Callable[[Any, int, int], int], memoryview | list[memoryview]]:
        """How the next octets are read, and where to: all places at once, where they go to several."""
        sock, room = self._sockets[host], self._transfer.get_buffers(host)
        if isinstance(room, list):
            return lambda views, ancillary, flags: sock.recvmsg_into(views, ancillary, flags)[0], room
        return sock.recv_into, room

    def _read(self, host: int) -> None:
        take = self._takers[host]
        for _ in range(_READS):
            receive, room = self._where_to(host)
            try:
                n = receive(room, 0, _NOW)
            except BlockingIOError:
                return
            except OSError:
                n = 0  # a reset, too, is a lawful end once both FINIs are exchanged: eof() knows
            if n == 0 or not take(n):
                self._took(host, n)
            # No more was there; what comes from now on, the end included, makes epoll say so again.
            if not isinstance(room, list) and n < len(room):
                return

    def _took(self, host: int, n: int) -> None:
        """``n`` octets were read, and the taker has left something; 0 is the end."""
        transfer = self._transfer
        if n == 0:
            transfer.eof(host)
            self._epoll.unregister(self._sockets[host].fileno())
            self._writing.discard(host)
            self._alone = False
            return
        for event in transfer.rest(host):
            match event:
                case Arrived(incoming) if not incoming.cancelled:  # else its CANCEL was read with it
                    self._arrived(incoming)
                case Cancelled(incoming):
                    self._cancelled(incoming)
        if host in transfer.busy:
            self.flush(host)

    def _want_write(self, host: int, wanted: bool) -> None:
        if wanted == (host in self._writing):
            return
        mask = select.EPOLLIN | select.EPOLLOUT if wanted else select.EPOLLIN
        self._epoll.modify(self._sockets[host].fileno(), mask)
        (self._writing.add if wanted else self._writing.discard)(host)


def _nothing() -> None:
    """Nothing is beside the channels."""


def _broken(host: int, error: OSError) -> JobError:
    return JobError(f"the channel to host {host} broke: {error.strerror}", clause="3.8")
