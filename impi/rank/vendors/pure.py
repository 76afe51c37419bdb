"""The vendor without an MPI library: sockets only. Complete and correct; the tests run on it.

How it works: messages up to 64 KiB are sent at once (_EAGER). Longer and synchronous ones are
offered first (_OFFER); the receive asks for them (_ASK), and the octets (_BULK) go directly from
the sender's buffer into the receiver's. So a message that no receive awaits costs its receiver at
most 64 KiB, and a synchronous send is done only after a receive has asked.

A sender may want an offer back (_RETURN). Only its receiver knows whether a receive has matched it.
Then the answer is _ASK, which may be on its way already; otherwise it is _RETURNED.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from impi.base.errors import JobError, LocalProtocolError
from impi.rank.vendors.base import (
    Arrival,
    LocalCollectives,
    LocalComm,
    NativeComm,
    Vendor,
)
from impi.rank.vendors.meeting import Door, exchange, open_control
from impi.rank.vendors.mesh import Completion, Frame, Mesh
from impi.rank.vendors.presence import FINALIZED, last_word

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation
    from impi.rank.vendors.secure_socket import SecureSocket

_EAGER_MAX: Final = 64 * 1024
_TAG_UB: Final = 2**31 - 1

_EAGER: Final = 1
_OFFER: Final = 2
_ASK: Final = 3
_BULK: Final = 4
_BYE: Final = 5
_RETURN: Final = 6
_RETURNED: Final = 7

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


def connect(join: Invitation) -> Vendor:
    """Connect to the other procs of this client.

    Args:
        join: ``rank`` and ``size``; for several procs also ``control`` and ``token``
            (docs/how-it-works/start-up.md).

    Raises:
        StartupError, JobError: a proc or impirun is missing.
    """

    rank, size = join["rank"], join["size"]
    if size == 1:
        return PureVendor(rank, size, {})

    token, address, tls = join["token"], join["control"], join.get("tls", False)
    # The address that reaches impirun is reachable for the other nodes, too.
    with (
        open_control(address, token, tls=tls) as control,
        Door(str(control.getsockname()[0]), size) as door,
    ):
        hello = {"role": "pure", "rank": rank, "address": door.address}
        links = door.meet(rank, exchange(control, hello), token, tls=tls)

    return PureVendor(rank, size, links)


class _PureSending(Completion):
    """A send that its sender may want back."""

    __slots__ = ("_vendor", "cancelled")

    def __init__(self, vendor: PureVendor) -> None:
        self._vendor = vendor
        self._drive = vendor.drive
        self.done = self.cancelled = False

    def cancel(self) -> None:
        self._vendor.offers.take_back(self)

    def returned(self) -> None:
        """Complete it without its message."""
        self.done = self.cancelled = True


class _PureArrival:
    """A message at its receiver: octets in our memory, or an offer whose octets the sender has."""

    __slots__ = (
        "_data",
        "_ident",
        "_own_send",
        "_vendor",
        "nbytes",
        "octets",
        "source",
        "tag",
        "world",
    )

    def __init__(
        self,
        vendor: PureVendor,
        world: int,
        frame: Frame,
        data: memoryview | None,
        own_send: _PureSending | None = None,
    ) -> None:
        self._vendor = vendor
        self.world = world
        self._ident = frame.ident
        self._data = data
        self._own_send = own_send
        self.source = -1
        self.tag = frame.tag
        self.nbytes = frame.nbytes
        # A message to itself needs receive(): that tells its send.
        self.octets = data if own_send is None else None

    @property
    def is_here(self) -> bool:
        return self._data is not None or not self.nbytes

    def is_of(self, sending: _PureSending) -> bool:
        """Return whether this proc has sent it to itself by ``sending``."""
        return self._own_send is sending

    def receive(self, buffer: memoryview) -> Completion:
        if buffer.nbytes < self.nbytes:
            raise LocalProtocolError(
                f"a message of {self.nbytes} octets cannot be received into {buffer.nbytes}"
            )

        place = buffer[: self.nbytes]
        if self._data is None:  # an offer: the sender still has the octets
            return self._vendor.ask(self.world, self._ident, place)

        place[:] = self._data

        self._data = None
        if self._own_send is not None:
            self._vendor.offers.here.pop((self.world, self._ident), None)
            self._own_send.done = True
            self._vendor.mesh.ring()

        return self._vendor.completion(done=True)


class _Offers:
    """Messages whose octets were not asked for, by proc and number, and their return.

    Args:
        vendor: this proc's.
    """

    def __init__(self, vendor: PureVendor) -> None:
        self.sent: dict[tuple[int, int], tuple[memoryview, _PureSending]] = {}
        """Those of this proc."""
        self.here: dict[tuple[int, int], _PureArrival] = {}
        """Those that their senders can have back."""
        self.closed = False
        """Whether this proc has said farewell."""
        self._vendor = vendor
        self._wanted: set[tuple[int, int]] = set()

    def take(self, rank: int, ident: int) -> tuple[memoryview, _PureSending]:
        """Return octets and send of an offer that was asked for."""
        self._wanted.discard((rank, ident))
        return self.sent.pop((rank, ident))

    def take_back(self, sending: _PureSending) -> None:
        """Ask for the return of a message; the answer completes its send."""

        mesh = self._vendor.mesh
        for rank, ident in [
            key for key, arrival in self.here.items() if arrival.is_of(sending)
        ]:
            if self._give_back(rank, ident):
                sending.returned()
                mesh.ring()

        # Nothing is found of a send whose octets were asked for: a receive has matched it.
        for rank, ident in [
            key for key, offer in self.sent.items() if offer[1] is sending
        ]:
            # Who has said farewell asks for nothing any more.
            if mesh.has_left(rank):
                self.returned(rank, ident)
            else:
                self._wanted.add((rank, ident))
                mesh.tell(rank, Frame(_RETURN, ident=ident))

    def answer(self, rank: int, ident: int) -> None:
        """Return a message that its sender wants back, unless a receive has matched it."""
        # After a farewell nothing may follow; it answers for all messages.
        if not self.closed and self._give_back(rank, ident):
            self._vendor.mesh.tell(rank, Frame(_RETURNED, ident=ident))

    def returned(self, rank: int, ident: int) -> None:
        """Complete a send whose message has come back."""
        self.take(rank, ident)[1].returned()

    def parted(self, rank: int) -> None:
        """Complete what is wanted back of a proc that has said farewell."""
        for other, ident in tuple(self._wanted):
            if other == rank:
                self.returned(rank, ident)

    def _give_back(self, rank: int, ident: int) -> bool:
        arrival = self.here.get((rank, ident))
        if arrival is None or not (
            self._vendor.unqueued(arrival) or self._vendor.withdraw(arrival)
        ):
            return False

        del self.here[rank, ident]

        return True


class _PureComm:
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

    def isend(
        self, dest: int, tag: int, data: memoryview, *, sync: bool
    ) -> _PureSending:
        if not 0 <= tag <= _TAG_UB:
            raise LocalProtocolError(f"tag {tag} is not within 0 to {_TAG_UB}")

        self._vendor.messages += 1
        return self._vendor.send(self._world[dest], self._cid, tag, data, sync=sync)

    def improbe(self) -> _PureArrival | None:
        if not self._arrivals:
            return None

        arrival = self._arrivals.popleft()
        # Only now: a message may come before its communicator, which alone knows the ranks.
        arrival.source = self._ranks[arrival.world]

        return arrival

    def subset(self, ranks: Sequence[int], cid: int) -> _PureComm:
        return _PureComm(self._vendor, [self._world[rank] for rank in ranks], cid)

    def duplicate(self, cid: int) -> tuple[_PureComm, Completion]:
        return self.subset(range(self.size), cid), self._vendor.completion(done=True)

    def free(self) -> None:
        self._vendor.forget(self._cid)


class PureVendor:
    """One proc of a client without an MPI library.

    Args:
        rank: of this proc in the client.
        size: number of procs of the client.
        links: connected, authenticated sockets with all others, by rank.
    """

    def __init__(
        self, rank: int, size: int, links: Mapping[int, socket.socket | SecureSocket]
    ) -> None:
        self.name = "pure"
        self.rank = rank
        self.size = size
        self.tag_ub = _TAG_UB
        self.messages = 0
        self.withdraw: Callable[[Arrival], bool] = lambda arrival: False
        self.mesh = Mesh(links)
        self._idents = 0
        self.offers = _Offers(self)
        # By proc and number: places of octets that were asked for
        self._places: dict[tuple[int, int], tuple[memoryview, Completion]] = {}
        self._queues: dict[int, deque[_PureArrival]] = {}
        self._gathers = 0
        self._gathered: list[_PureArrival] = []
        self.world: LocalComm = _PureComm(self, range(size), _WORLD_CID)
        self._gathering = _PureComm(self, range(size), _GATHER_CID)

    # ---- Vendor ----

    def allgather(self, data: bytes) -> list[bytes]:
        # For start-up, before an engine exists: it blocks, and it has a context of its own. The
        # number of the call is the tag, so that two calls cannot mix.
        number = self._gathers & _TAG_UB
        self._gathers += 1
        comm = self._gathering
        view = memoryview(data)
        sends = [
            self.send(other, _GATHER_CID, number, view, sync=False)
            for other in range(self.size)
            if other != self.rank
        ]
        pieces = [data] * self.size

        receipts: list[tuple[int, bytearray, Completion]] = []
        while len(receipts) < self.size - 1:
            self.mesh.turn(self)
            while (arrival := comm.improbe()) is not None:
                self._gathered.append(arrival)

            mine = [arrival for arrival in self._gathered if arrival.tag == number]

            # A fast proc may be one call ahead: its piece is kept for the next allgather.
            self._gathered = [
                arrival for arrival in self._gathered if arrival.tag != number
            ]
            for arrival in mine:
                piece = bytearray(arrival.nbytes)
                receipts.append(
                    (arrival.source, piece, arrival.receive(memoryview(piece)))
                )

            if len(receipts) < self.size - 1:
                self.mesh.sleep()

        for completion in [*sends, *(receipt[2] for receipt in receipts)]:
            while not completion.test():
                self.mesh.sleep()

        for source, piece, _ in receipts:
            pieces[source] = bytes(piece)

        # Frames of other communicators may have come meanwhile, and epoll will not tell of them
        # again: the bell does.
        self.mesh.ring()

        return pieces

    def fileno(self) -> int | None:
        return self.mesh.fileno()

    def progress(self) -> None:
        """Read and write as much as possible now.

        Raises:
            JobError: another proc of this client was lost.
        """
        self.mesh.turn(self, hush=True)

    def survive(self) -> None:
        self.mesh.survives = True

    def describe(self) -> dict[str, str]:
        return describe()

    def abort(self, code: int) -> NoReturn:
        """End this proc; its closed connections end the others, and impirun sees its status."""

        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(
                f"impi: MPI_Abort of rank {self.world.rank} of this client with exit code {code}\n"
            )

        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                # The stream's reader is gone, or there is none; the exit must not fail
                pass

        last_word(f"MPI_Abort with exit code {code}".encode())
        # With 0 the launcher would take this for a proper end.
        os._exit(code & 0xFF or 1)

    def finalize(self) -> None:
        """Return when every proc is here and has all its messages (collective).

        Raises:
            JobError: another proc was lost before.
        """
        try:
            # BYE is the last frame of each proc. Without it the end of a connection is a loss, and
            # a proc that left early would end the client.
            self.offers.closed = True
            for rank in self.mesh.ranks:
                self.mesh.tell(rank, Frame(_BYE))

            # Others may still need octets of ours, and we theirs: a BYE only says that nothing new
            # follows.
            while not self.mesh.ended:
                self.mesh.sleep()
                self.progress()
        finally:
            self.close()

        last_word(FINALIZED)

    def close(self) -> None:
        """Close the sockets without a farewell: others see a lost proc, if not finalized."""
        self.mesh.close()

    # ---- for communicators and arrivals ----

    def completion(self, *, done: bool = False) -> Completion:
        return Completion(self.drive, done=done)

    def drive(self) -> None:
        # A test of one operation may complete others, whose owner may sleep on fileno().
        if self.mesh.turn(self):
            self.mesh.ring()

    def arrivals(self, cid: int) -> deque[_PureArrival]:
        """Return the queue of a context; messages may precede the communicator."""
        return self._queues.setdefault(cid, deque())

    def forget(self, cid: int) -> None:
        self._queues.pop(cid, None)

    def unqueued(self, arrival: _PureArrival) -> bool:
        """Take a message out of the queue of its context; False: it is in none."""

        queue = next((q for q in self._queues.values() if arrival in q), None)
        if queue is not None:
            queue.remove(arrival)

        return queue is not None

    def send(
        self, dest: int, cid: int, tag: int, data: memoryview, *, sync: bool
    ) -> _PureSending:
        eager = data.nbytes <= _EAGER_MAX and not sync
        completion = _PureSending(self)
        self._idents += 1

        frame = Frame(_EAGER if eager else _OFFER, tag, cid, data.nbytes, self._idents)
        # To itself: no socket. A synchronous message lends its octets, and is done when received.
        if dest == self.rank:
            kept = memoryview(bytes(data)) if eager else data
            completion.done = eager
            arrival = _PureArrival(self, dest, frame, kept, completion)
            self.arrivals(cid).append(arrival)
            if not eager:
                self.offers.here[dest, self._idents] = arrival

            self.mesh.ring()
        elif eager:
            self.mesh.tell(dest, frame, data, completion)
        else:
            self.offers.sent[dest, self._idents] = data, completion
            self.mesh.tell(dest, frame)

        return completion

    def ask(self, source: int, ident: int, place: memoryview) -> Completion:
        """Accept an offer of proc ``source``."""

        completion = self.completion(done=not place.nbytes)
        if place.nbytes:
            self._places[source, ident] = place, completion

        self.offers.here.pop((source, ident), None)
        self.mesh.tell(source, Frame(_ASK, ident=ident))

        return completion

    # ---- Sink ----

    def body_place(self, rank: int, frame: Frame) -> memoryview | None:
        """Return the place of a body: the receive buffer, if the receive is known."""
        if frame.kind == _EAGER:
            return memoryview(bytearray(frame.nbytes))

        if frame.kind == _BULK:
            # For octets without a place the other proc would choose how much memory is allocated
            # here. Only octets that were asked for are taken, in their exact number.
            place = self._places.get((rank, frame.ident))
            if place is None or place[0].nbytes != frame.nbytes:
                raise JobError(
                    f"proc {rank} of this client sends {frame.nbytes} octets that no receive expects"
                )

            return place[0]

        return None

    def take_frame(self, rank: int, frame: Frame, body: memoryview | None) -> None:
        self.mesh.news += 1
        if frame.kind in (_EAGER, _OFFER):
            arrival = _PureArrival(self, rank, frame, body)
            self.arrivals(frame.cid).append(arrival)
            if frame.kind == _OFFER:
                self.offers.here[rank, frame.ident] = arrival
        elif frame.kind == _ASK:
            data, completion = self.offers.take(rank, frame.ident)
            # Offers without octets are synchronous messages: to be asked for is all that they wait
            # for.
            if data.nbytes:
                self.mesh.tell(
                    rank,
                    Frame(_BULK, nbytes=data.nbytes, ident=frame.ident),
                    data,
                    completion,
                )
            else:
                completion.done = True
        elif frame.kind == _BULK:
            self._places.pop((rank, frame.ident))[1].done = True
        else:
            self._take_word(rank, frame)

    def _take_word(self, rank: int, frame: Frame) -> None:
        """Take a frame about a message that is not received, or about the end."""

        if frame.kind == _RETURN:
            self.offers.answer(rank, frame.ident)
        elif frame.kind == _RETURNED:
            self.offers.returned(rank, frame.ident)
        elif frame.kind == _BYE:
            self.mesh.farewell(rank)
            self.offers.parted(rank)
        else:
            raise JobError(
                f"proc {rank} of this client sends a frame of unknown kind {frame.kind}"
            )
