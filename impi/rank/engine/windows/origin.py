"""The origin's side of a window: accesses that wait, travel, and are complete.

How it works: accesses between fences, and between Start and Complete, are queued; the call that
ends the epoch sends them, and the last one says so (Thakur, Gropp, Toonen: Minimizing
Synchronization Overhead in the Implementation of MPI One-Sided Communication, EuroPVM/MPI 2004).
Under a lock one access is held back: the next call sends it, or the one that completes it. So a
lock, a short access and an unlock are one message and its reply. No lock is awaited: its target
holds the accesses back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, TypeVar

from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.rank.engine.channels.entries import any_thread, entry
from impi.rank.engine.channels.payload import DirectTarget, OctetSource, Source
from impi.rank.engine.channels.payload import Target as Place
from impi.rank.engine.operations import (
    Compound,
    Operation,
    ReceiveOperation,
    SendOperation,
)
from impi.rank.engine.windows import access_header as wire

if TYPE_CHECKING:
    from impi.rank.engine.context import Context
    from impi.rank.engine.engine import Engine
    from impi.rank.engine.windows.target import WindowTarget

T = TypeVar("T")

INLINE: Final = 16 << 10
"""Most octets of data beside their header; they are copied once more at either end."""


class Access(Compound):
    """One access of this proc, as an operation of the engine; done when its buffers are free.

    Args:
        kind: of :mod:`impi.rank.engine.windows.access_header`.
        op: the name of the operation; NO_OP for Put and Get.
        where: datatype, octet and count at the target.
        source: the data; None: there is none.
        result: the place of the fetched elements; None: the access fetches nothing.
    """

    __slots__ = (
        "_kind",
        "_op",
        "_where",
        "cancelled",
        "data",
        "receiving",
        "result",
        "sending",
        "separate",
        "source",
    )

    def __init__(
        self,
        kind: int,
        op: str,
        where: tuple[TypeMap, int, int],
        source: Source | None,
        result: Place | None,
    ) -> None:
        self._kind, self._op, self._where = kind, op, where
        self.source, self.result = source, result
        self.data: bytes = b""
        """Short data in the form of the message; the program's buffer is free."""
        self.separate = False
        self.sending: SendOperation | None = None
        self.receiving: ReceiveOperation | None = None
        self.cancelled = False

    def header(self, flags: int) -> bytes:
        if self.separate:
            flags |= wire.SEPARATE

        return wire.encode(self._kind, flags, self._op, *self._where) + self.data

    @property
    def awaited(self) -> Operation | None:
        for operation in (self.receiving, self.sending):
            if operation is not None and not operation.done:
                return operation

        return None

    @property
    def done(self) -> bool:
        """Whether the buffers are free. Asked only of an access that was sent."""
        return (
            self.receiving is None or self.receiving.done
            if self.sending is None
            else self.awaited is None
        )

    def advance(self) -> bool:
        """Return :attr:`done`; the engine drives the messages."""
        return self.done


class Origin:
    """One window at a proc that accesses it.

    Args:
        engine: of this proc.
        context: of this window alone.
        target: the same proc's other side.
    """

    def __init__(self, engine: Engine, context: Context, target: WindowTarget) -> None:
        self._engine, self._context, self._target = engine, context, target
        self.threads = engine.threads
        self._peers = [_Peer(rank) for rank in range(len(context.members))]
        # The target under a lock whose last access waits for the next call. Only one: any other
        # call of the window lets it go.
        self._held: _Peer | None = None
        self._is_locked = False  # Whether this proc has the lock of its own memory

    @entry
    def here(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``, which accesses this proc's own memory."""
        self._let_go()
        return call()

    # ---- accesses --------------------------------------------------------------------------------

    @entry
    def issue(self, rank: int, access: Access, *, passive: bool) -> None:
        """Queue an access of another rank; ``passive``: under a lock, where only the last waits."""

        peer = self._peers[rank]
        # Short data is copied now: the program's buffer is free, and the access can be sent at any
        # time later without a look at user memory.
        if access.source is not None:
            octets = access.source.octets(
                external=self._engine.is_external(self._context, rank)
            )

            access.separate = len(octets) > INLINE
            if not access.separate:
                access.data, access.source = bytes(octets), None

        peer.queue.append(access)
        if passive:
            if self._held is not None and self._held is not peer:
                self._let_go()

            self._held = peer
            # The last access is held back, as an unlock or a flush may travel with it. The one
            # before it cannot be the last any more.
            if len(peer.queue) > 1:
                self._send(peer, peer.queue.pop(0), 0)

    def _let_go(self, other: _Peer | None = None) -> None:
        """Send the access that waits, unless it is for ``other``.

        A program may wait by loads for the effect of its access. MPI lets it expect that after any
        call of the window, such as Sync.
        """
        held, self._held = self._held, None
        if held is not None and held is not other:
            self._close(held, 0)

    @entry
    def send_now(self, rank: int) -> None:
        self._close(self._peers[rank], 0)

    @any_thread
    def targets(self) -> list[int]:
        """Return for each rank 1 if an access of it is queued, else 0."""
        return [int(bool(peer.queue)) for peer in self._peers]

    def _send(self, peer: _Peer, access: Access, flags: int) -> None:
        engine, context, rank = self._engine, self._context, peer.rank
        # The lock is asked for by the first access itself: its target queues the access until the
        # lock is there, so MPI_Win_lock costs no round trip.
        flags |= peer.lock

        # Asked for once. From now on an unlock has to give it back, whether or not it was granted
        # yet.
        peer.is_locked, peer.lock = peer.is_locked or bool(peer.lock), 0
        if access.result is not None:
            flags &= ~wire.ACKNOWLEDGE  # the reply is one

        place = DirectTarget(_NO_ROOM) if flags & wire.ACKNOWLEDGE else access.result
        # The receive is posted before the header goes out, so the reply finds its place.
        if place is not None:
            access.receiving = engine.receive(context, rank, wire.REPLY_TAG, place)

        engine.send(context, rank, wire.HEADER_TAG, OctetSource(access.header(flags)))
        # On the same context, so MPI's order puts the data behind its header. Its receive is posted
        # by the target once the header is served.
        if access.separate and access.source is not None:
            access.sending = engine.send(context, rank, wire.DATA_TAG, access.source)

        # A reply says that all accesses before it are complete, too: targets serve in order.
        peer.is_dirty = place is None
        if not access.done:
            peer.pending = [each for each in peer.pending if not each.done]
            peer.pending.append(access)

    def _close(self, peer: _Peer, flags: int) -> None:
        """Send the queued accesses; the last one carries the flags."""
        # Flags travel with the last access. Without one a header of its own carries them.
        queue, peer.queue = peer.queue, []
        if flags and not queue:
            queue = [Access(wire.SYNC, "NO_OP", (NAMED["BYTE"], 0, 0), None, None)]

        for position, access in enumerate(queue, 1):
            self._send(peer, access, flags if position == len(queue) else 0)

    def _await(self, peers: Collection[_Peer]) -> None:
        # One at a time: where an operation is the only one that is awaited, the wait may block in
        # its channel.
        for peer in peers:
            for access in peer.pending:
                while (operation := access.awaited) is not None:
                    self._engine.turns.wait_for(operation)

            # Other threads add to it
            peer.pending = [each for each in peer.pending if not each.done]

    @any_thread
    def check(self) -> None:
        if self._target.faults:
            # A call raises one failure: the first. Others that came before it was raised are
            # dropped.
            failure = self._target.faults[0]
            self._target.faults.clear()
            raise failure

    # ---- active target ---------------------------------------------------------------------------

    @entry
    def fence(self, count: int) -> None:
        """End the epoch: ``count`` ranks access this one's memory in it."""

        busy = [peer for peer in self._peers if peer.queue]
        for peer in busy:
            self._close(peer, wire.FENCED)
            peer.is_dirty = False  # its fence waits for them

        # The program may use the buffers of these accesses after the fence.
        self._await(busy)

        # No barrier: the reduction before (spread.py) has told how many ranks access this memory,
        # and each marks its last access. So a fence waits for accesses, not for procs.
        target = self._target
        if target.fenced < count:
            self._engine.turns.wait(lambda: target.fenced >= count)

        target.fenced -= count
        if self._target.faults:
            self.check()

    @entry
    def post(self, ranks: Collection[int]) -> None:
        """Let ranks know that they may access this proc's memory."""
        for rank in ranks:
            self._engine.send(
                self._context,
                rank,
                wire.HEADER_TAG,
                OctetSource(wire.bare(wire.POST, 0)),
            )

    @entry
    def complete(self, ranks: Collection[int], *, posted: bool) -> None:
        """End the epoch of Start; ``posted``: the Posts of these ranks have told so."""

        # MPI_Win_start need not wait for the Posts, and it does not: MPI_Win_complete does (MPI
        # 4.1, 12.5.2).
        posts = self._target.posts
        if posted:
            self._engine.turns.wait(lambda: all(posts[rank] for rank in ranks))
            for rank in ranks:
                posts[rank] -= 1

        peers = [self._peers[rank] for rank in ranks]
        for peer in peers:
            self._close(peer, wire.COMPLETED)
            peer.is_dirty = False  # its Wait waits for them

        self._await(peers)
        if self._target.faults:
            self.check()

    @entry
    def completed(self, ranks: Collection[int]) -> bool:
        """Return whether ranks have called Complete; serve their accesses first."""
        counts = self._target.completed
        # MPI_Win_test in a loop must make progress by itself.
        self._engine.turns.progress()

        return all(counts[rank] for rank in ranks)

    @entry
    def await_completed(self, ranks: Collection[int]) -> None:
        counts = self._target.completed
        self._engine.turns.wait(lambda: all(counts[rank] for rank in ranks))

    @entry
    def forget_completed(self, ranks: Collection[int]) -> None:
        for rank in ranks:
            self._target.completed[rank] -= 1

    # ---- passive target --------------------------------------------------------------------------

    @entry
    def lock(self, ranks: Collection[int], *, exclusive: bool) -> None:
        """Lock ranks: this proc's memory at once, others with the first access."""
        # Our own memory is the exception: loads and stores of the program make no call that could
        # wait for the lock, so it must be here when MPI_Win_lock returns.
        for rank in ranks:
            self._peers[rank].lock = (
                wire.LOCK_EXCLUSIVE if exclusive else wire.LOCK_SHARED
            )

        if self._context.rank in ranks:
            self._peers[self._context.rank].lock = 0
            self._target.lock(exclusive=exclusive, granted=self._locked)
            self._engine.turns.wait(lambda: self._is_locked)

    def _locked(self) -> None:
        self._is_locked = True

    @entry
    def unlock(self, ranks: Collection[int]) -> None:
        peers = [self._peers[rank] for rank in ranks]

        # The held access of the one target that is unlocked travels with the unlock. One of any
        # other target must not wait longer.
        self._let_go(peers[0] if len(peers) == 1 else None)
        for peer in peers:
            flags = wire.ACKNOWLEDGE if peer.queue or peer.is_dirty else 0
            if not peer.queue:
                # No access has needed the lock, so it was never asked for
                peer.lock = 0

            if peer.is_locked or peer.lock:
                flags |= wire.UNLOCK

            self._close(peer, flags)
            peer.lock, peer.is_locked = 0, False

        if self._is_locked and self._context.rank in ranks:
            self._is_locked = False
            self._target.unlock()

        self._await(peers)
        if self._target.faults:
            self.check()

    @entry
    def flush(self, ranks: Collection[int]) -> None:
        peers = [self._peers[rank] for rank in ranks]

        self._let_go(peers[0] if len(peers) == 1 else None)
        # A reply is asked for only where none is known to cover the last access.
        for peer in peers:
            self._close(peer, wire.ACKNOWLEDGE if peer.queue or peer.is_dirty else 0)

        self._await(peers)
        if self._target.faults:
            self.check()

    @entry
    def flush_local(self, ranks: Collection[int]) -> None:
        """Complete all accesses of ranks here: their buffers are free."""

        peers = [self._peers[rank] for rank in ranks]

        # No reply is asked for: a short access was copied when it was issued, and the send of a
        # long one tells when its buffer is free. MPI_Win_flush_local promises no more.
        self._let_go()
        for peer in peers:
            self._close(peer, 0)

        self._await(peers)
        if self._target.faults:
            self.check()

    @entry
    def progress(self) -> None:
        self._let_go()
        self._engine.turns.progress()


_NO_ROOM: Final = memoryview(bytearray())


class _Peer:
    """An origin's record of one target."""

    __slots__ = ("is_dirty", "is_locked", "lock", "pending", "queue", "rank")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.queue: list[Access] = []
        """Accesses that are not sent."""
        self.pending: list[Access] = []
        """Accesses whose buffers are not free."""
        self.is_dirty = False
        """Whether no reply is under way that tells that all accesses are complete."""
        self.lock = 0
        """The flag of a lock to ask for with the next access."""
        self.is_locked = False
        """Whether the lock was asked for."""
