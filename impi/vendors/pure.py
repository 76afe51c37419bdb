"""The vendor without an MPI library: sockets only. Complete and correct; the tests run on it.

Messages up to 64 KiB are sent at once. Longer and synchronous ones are offered first; the receive
then moves them directly from the sender's buffer into the receiver's.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from impi.errors import JobError, LocalProtocolError
from impi.vendors._mesh import Completion, Frame, Link
from impi.vendors.base import LocalCollectives, LocalComm, NativeComm, Vendor
from impi.vendors.meeting import Door, exchange, open_control
from impi.vendors.presence import FINALIZED, last_word

_EAGER_MAX: Final = 64 * 1024
_TAG_UB: Final = 2**31 - 1

_EAGER: Final = 1
_OFFER: Final = 2
_ASK: Final = 3
_BULK: Final = 4
_BYE: Final = 5

# IMPI context ids end before these (4.3.1: at 2^64 - 16).
_WORLD_CID: Final = 2**64 - 1
_GATHER_CID: Final = 2**64 - 2


def describe() -> dict[str, str]:
    """Return the interpreter in place of a library."""
    return {
        "library": "impi pure",
        "version": sys.version.split(maxsplit=1)[0],
        "file": os.path.realpath(sys.executable),
    }


def connect(join: Mapping[str, Any]) -> Vendor:
    """Connect to the other procs of this client.

    Args:
        join: ``rank`` and ``size``; for several procs also ``control`` and ``token``
            (docs/how-it-works/start-up.md).

    Raises:
        StartupError, JobError: a proc or impirun is missing.
    """
    rank, size = int(join["rank"]), int(join["size"])
    if size == 1:
        return PureVendor(rank, size, {})
    token = str(join["token"])
    address, tls = str(join["control"]), bool(join.get("tls"))
    # The address that reaches impirun is reachable for the other nodes, too.
    with open_control(address, token, tls=tls) as control, Door(str(control.getsockname()[0]), size) as door:
        hello = {"role": "pure", "rank": rank, "address": door.address}
        links = door.meet(rank, exchange(control, hello), token)
    return PureVendor(rank, size, links)


class _Arrival:
    """A message at its receiver: octets in our memory, or an offer whose octets the sender has."""

    __slots__ = ("_data", "_ident", "_own_send", "_vendor", "_world", "nbytes", "source", "tag")

    def __init__(
        self,
        vendor: PureVendor,
        world: int,
        frame: Frame,
        data: memoryview | None,
        own_send: Completion | None = None,
    ) -> None:
        self._vendor = vendor
        self._world = world
        self._ident = frame.ident
        self._data = data
        self._own_send = own_send
        self.source = -1
        self.tag = frame.tag
        self.nbytes = frame.nbytes

    @property
    def is_here(self) -> bool:
        """Whether its octets are in our memory."""
        return self._data is not None or not self.nbytes

    @property
    def world(self) -> int:
        """Rank of the sender in the client."""
        return self._world

    def receive(self, buffer: memoryview) -> Completion:
        """Receive into ``buffer``; see :class:`impi.vendors.base.Arrival`."""
        if buffer.nbytes < self.nbytes:
            raise LocalProtocolError(f"a message of {self.nbytes} octets cannot be received into {buffer.nbytes}")
        place = buffer[: self.nbytes]
        if self._data is None:
            return self._vendor.ask(self._world, self._ident, place)
        place[:] = self._data
        self._data = None
        if self._own_send is not None:
            self._own_send.done = True
            self._vendor.ring()
        return self._vendor.completion(done=True)


class _Comm:
    """A communicator: some procs of the client and a context."""

    collectives: LocalCollectives | None = None
    native: NativeComm | None = None

    __slots__ = ("_arrivals", "_cid", "_ranks", "_vendor", "_world", "rank", "size")

    def __init__(self, vendor: PureVendor, world: Sequence[int], cid: int) -> None:
        self._vendor = vendor
        self._world = tuple(world)
        self._ranks = {world_rank: rank for rank, world_rank in enumerate(self._world)}
        self._cid = cid
        self._arrivals = vendor.arrivals(cid)
        self.rank = self._ranks[vendor.rank]
        self.size = len(self._world)

    def isend(self, dest: int, tag: int, data: memoryview, *, sync: bool) -> Completion:
        """See :class:`impi.vendors.base.LocalComm`."""
        if not 0 <= tag <= _TAG_UB:
            raise LocalProtocolError(f"tag {tag} is not within 0 to {_TAG_UB}")
        self._vendor.messages += 1
        return self._vendor.send(self._world[dest], self._cid, tag, data, sync=sync)

    def improbe(self) -> _Arrival | None:
        """See :class:`impi.vendors.base.LocalComm`."""
        if not self._arrivals:
            self._vendor.drive()
            if not self._arrivals:
                return None
        arrival = self._arrivals.popleft()
        arrival.source = self._ranks[arrival.world]
        return arrival

    def subset(self, ranks: Sequence[int], cid: int) -> _Comm:
        """See :class:`impi.vendors.base.LocalComm`."""
        return _Comm(self._vendor, [self._world[rank] for rank in ranks], cid)

    def duplicate(self, cid: int) -> tuple[_Comm, Completion]:
        """See :class:`impi.vendors.base.LocalComm`."""
        return self.subset(range(self.size), cid), self._vendor.completion(done=True)

    def free(self) -> None:
        """See :class:`impi.vendors.base.LocalComm`."""
        self._vendor.forget(self._cid)


class PureVendor:
    """One proc of a client without an MPI library.

    Args:
        rank: of this proc in the client.
        size: number of procs of the client.
        links: connected, authenticated sockets with all others, by rank.
    """

    def __init__(self, rank: int, size: int, links: Mapping[int, socket.socket]) -> None:
        self.name = "pure"
        self.rank = rank
        self.size = size
        self.tag_ub = _TAG_UB
        self.messages = 0
        self._epoll = select.epoll()
        # Set when progress was made outside of progress(): a caller could else sleep on fileno()
        # although a message waits.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung = False
        self._epoll.register(self._bell, select.EPOLLIN)
        self._links = {other: Link(other, sock, self._watch) for other, sock in links.items()}
        self._by_fd = {link.sock.fileno(): link for link in self._links.values()}
        self._masks: dict[int, int] = {}
        for link in self._links.values():
            self._watch(link)
        self._survives = False
        self._news = 0
        self._idents = 0
        self._offers: dict[tuple[int, int], tuple[memoryview, Completion]] = {}
        self._places: dict[tuple[int, int], tuple[memoryview, Completion]] = {}
        self._queues: dict[int, deque[_Arrival]] = {}
        self._gathers = 0
        self._gathered: list[_Arrival] = []
        self.world: LocalComm = _Comm(self, range(size), _WORLD_CID)
        self._gathering = _Comm(self, range(size), _GATHER_CID)

    # ---- Vendor ----

    def allgather(self, data: bytes) -> list[bytes]:
        """Return every proc's octets in rank order; blocks."""
        number = self._gathers & _TAG_UB
        self._gathers += 1
        comm = self._gathering
        view = memoryview(data)
        sends = [
            self.send(other, _GATHER_CID, number, view, sync=False) for other in range(self.size) if other != self.rank
        ]
        pieces = [data] * self.size
        receipts: list[tuple[int, bytearray, Completion]] = []
        while len(receipts) < self.size - 1:
            while (arrival := comm.improbe()) is not None:
                self._gathered.append(arrival)
            mine = [arrival for arrival in self._gathered if arrival.tag == number]
            # A fast proc may be one call ahead.
            self._gathered = [arrival for arrival in self._gathered if arrival.tag != number]
            for arrival in mine:
                piece = bytearray(arrival.nbytes)
                receipts.append((arrival.source, piece, arrival.receive(memoryview(piece))))
            if len(receipts) < self.size - 1:
                self._sleep()
        for completion in [*sends, *(receipt[2] for receipt in receipts)]:
            while not completion.test():
                self._sleep()
        for source, piece, _ in receipts:
            pieces[source] = bytes(piece)
        self.ring()  # other frames that came meanwhile
        return pieces

    def fileno(self) -> int | None:
        """Return an epoll of all links and of the bell."""
        return self._epoll.fileno()

    def progress(self) -> None:
        """Read and write what is possible now.

        Raises:
            JobError: another proc of this client was lost.
        """
        if self._rung:
            os.eventfd_read(self._bell)
            self._rung = False
        self._turn()

    def survive(self) -> None:
        """Go on without procs that are lost: what goes to them is dropped."""
        self._survives = True

    def describe(self) -> dict[str, str]:
        """Return the interpreter in place of a library."""
        return describe()

    def abort(self, code: int) -> NoReturn:
        """End this proc; its closed connections end the others, and impirun sees its status."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"impi: MPI_Abort of rank {self.world.rank} of this client with exit code {code}\n")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # nobody reads it; the exit must not fail
        last_word(f"MPI_Abort with exit code {code}".encode())
        os._exit(code & 0xFF or 1)

    def finalize(self) -> None:
        """Return when every proc is here and has all its messages (collective).

        Raises:
            JobError: another proc was lost before.
        """
        try:
            for rank in list(self._links):
                self._tell(rank, Frame(_BYE))
            while not all(link.bye and link.drained for link in self._links.values()):
                self._sleep()
                self.progress()
        finally:
            self.close()
        last_word(FINALIZED)

    def close(self) -> None:
        """Close the sockets without a farewell: others see a lost proc, if not finalized."""
        if self._epoll.closed:
            return
        for link in self._links.values():
            link.sock.close()
        self._links.clear()
        self._epoll.close()
        os.close(self._bell)

    # ---- for communicators and arrivals ----

    def completion(self, *, done: bool = False) -> Completion:
        """Return a new operation."""
        return Completion(self.drive, done=done)

    def drive(self) -> None:
        """Make progress for another call."""
        if self._turn():
            self.ring()

    def ring(self) -> None:
        """Make ``fileno()`` readable until the next :meth:`progress`."""
        if not self._rung:
            os.eventfd_write(self._bell, 1)
            self._rung = True

    def arrivals(self, cid: int) -> deque[_Arrival]:
        """Return the queue of a context; messages may precede the communicator."""
        return self._queues.setdefault(cid, deque())

    def forget(self, cid: int) -> None:
        """Drop a context."""
        self._queues.pop(cid, None)

    def send(self, dest: int, cid: int, tag: int, data: memoryview, *, sync: bool) -> Completion:
        """Send to proc ``dest`` of the client in context ``cid``."""
        eager = data.nbytes <= _EAGER_MAX and not sync
        completion = self.completion()
        self._idents += 1
        frame = Frame(_EAGER if eager else _OFFER, tag, cid, data.nbytes, self._idents)
        if dest == self.rank:
            kept = memoryview(bytes(data)) if eager else data
            completion.done = eager
            self.arrivals(cid).append(_Arrival(self, dest, frame, kept, completion))
            self.ring()
        elif eager:
            self._tell(dest, frame, data, completion)
        else:
            self._offers[dest, self._idents] = data, completion
            self._tell(dest, frame)
        return completion

    def ask(self, source: int, ident: int, place: memoryview) -> Completion:
        """Accept an offer of proc ``source``."""
        completion = self.completion(done=not place.nbytes)
        if place.nbytes:
            self._places[source, ident] = place, completion
        self._tell(source, Frame(_ASK, ident=ident))
        return completion

    # ---- Sink ----

    def body_place(self, rank: int, frame: Frame) -> memoryview | None:
        """Return where a body goes: into the receive buffer, if the receive is known."""
        if frame.kind == _EAGER:
            return memoryview(bytearray(frame.nbytes))
        if frame.kind == _BULK:
            place = self._places.get((rank, frame.ident))
            if place is None or place[0].nbytes != frame.nbytes:
                raise JobError(f"proc {rank} of this client sends {frame.nbytes} octets that nobody asked for")
            return place[0]
        return None

    def take_frame(self, rank: int, frame: Frame, body: memoryview | None) -> None:
        """Handle a frame."""
        self._news += 1
        if frame.kind in (_EAGER, _OFFER):
            self.arrivals(frame.cid).append(_Arrival(self, rank, frame, body))
        elif frame.kind == _ASK:
            data, completion = self._offers.pop((rank, frame.ident))
            if data.nbytes:
                self._tell(rank, Frame(_BULK, nbytes=data.nbytes, ident=frame.ident), data, completion)
            else:
                completion.done = True
        elif frame.kind == _BULK:
            self._places.pop((rank, frame.ident))[1].done = True
        elif frame.kind == _BYE:
            self._links[rank].bye = True
            self._watch(self._links[rank])
        else:
            raise JobError(f"proc {rank} of this client sends a frame of unknown kind {frame.kind}")

    # ---- internals ----

    def _turn(self) -> bool:
        self._news = 0
        for fd, mask in self._epoll.poll(0):
            link = self._by_fd.get(fd)
            if link is None:
                continue
            try:
                if mask & select.EPOLLOUT:
                    self._news += link.write()
                if mask & ~select.EPOLLOUT:
                    link.read(self)
            except JobError as error:
                self._give_up(link, error)
        return self._news > 0

    def _give_up(self, link: Link, error: JobError) -> None:
        """Drop the link to a proc that is lost; raise the error where the job does not survive."""
        if not self._survives:
            raise error
        if self._masks.pop(link.sock.fileno(), 0):
            self._epoll.unregister(link.sock.fileno())
        self._by_fd.pop(link.sock.fileno(), None)
        self._links.pop(link.rank, None)
        link.sock.close()
        link.drop()

    def _tell(self, rank: int, frame: Frame, body: memoryview | None = None, done: Completion | None = None) -> None:
        """Send a frame, unless that proc is lost."""
        link = self._links.get(rank)
        if link is None:
            if done is not None:
                done.done = True
            return
        try:
            link.send(frame, body, done)
        except JobError as error:
            self._give_up(link, error)

    def _sleep(self) -> None:
        """Sleep until an event, after all known work."""
        if self._rung:
            os.eventfd_read(self._bell)
            self._rung = False
        self._epoll.poll()

    def _watch(self, link: Link) -> None:
        """Register a link with epoll for the events that matter now."""
        fd = link.sock.fileno()
        mask = (0 if link.bye else select.EPOLLIN) | (select.EPOLLOUT if link.waits else 0)
        before = self._masks.get(fd, 0)
        self._masks[fd] = mask
        if mask and before:
            self._epoll.modify(fd, mask)
        elif mask:
            self._epoll.register(fd, mask)
        elif before:
            # A farewell is followed by a hang-up, which cannot be masked and would wake us forever.
            self._epoll.unregister(fd)
