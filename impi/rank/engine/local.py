"""Local phases of collectives: collectives of the client's own MPI library.

How it works: a step :class:`~impi.protocol.collectives.steps.Local` names a collective. It is
started on the shadow, in its *non-blocking* form: a proc that blocks in the library serves no
channel, and the master of another client may wait for it. The engine polls it like any operation.
All members must start the same phases in one order, which the order of collectives in a
communicator gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

from impi.protocol.collectives.steps import Local
from impi.protocol.semantics.errors import MPIException
from impi.rank.engine.context import Context
from impi.rank.engine.library_call import abandon
from impi.rank.vendors.base import LocalCollectives, Pending


class Room(Protocol):
    """A codec's view of the values of local phases."""

    def view(self, value: Any) -> memoryview:
        """Return the octets of a value, in native form; writable for a value of :meth:`fresh`."""

    def fresh(self, like: Any) -> Any:
        """Return a value of the size of ``like``, whose octets will be written."""

    def size_of(self, like: Any) -> int:
        """Return the octets of a value of the size of ``like``."""

    def value_in(self, octets: bytearray | memoryview) -> Any:
        """Return the value that lies in octets of native form."""


class LocalOperation:
    """A local phase under way.

    Args:
        context: of the communicator.
        step: the collective, its root and its values.
        room: makes and reads its values.
        place: the memory of the operation's result, if the value may arrive there.
    """

    __slots__ = (
        "_failure",
        "_keep",
        "_pending",
        "_value",
        "cancelled",
        "done",
        "landing",
    )

    def __init__(
        self, context: Context, step: Local, room: Room, place: memoryview | None = None
    ) -> None:
        shadow = context.shadow.comm
        assert shadow is not None and shadow.collectives is not None, (
            "this client's library has no collectives here"
        )
        # A barrier's step names rank 0, which may be a proc of another client.
        root = context.shadow.rank_of.get(step.root, 0)
        start = _Start(
            shadow.collectives, step, room, root, rank=shadow.rank, size=shadow.size
        )
        start.place = place
        self._pending: Pending = getattr(start, step.what)()
        self._keep: Any = start.keep
        self._value = start.value
        self.landing = start.landing
        """Whether the whole result of the operation arrives in its place."""
        self._failure: MPIException | None = None
        self.done = False
        self.cancelled = False

    def advance(self) -> bool:
        if not self.done:
            try:
                self.done = self._pending.test()
            except MPIException as failure:
                # The wait raises: the engine's current driver need not have started this.
                self._failure = failure
                self.abandon()

            if self.done:
                self._keep = None

        return self.done

    def abandon(self) -> None:
        """End the wait for a phase that not all procs enter; the library may still write."""
        # MPI has no cancel for a collective (MPI 4.1, 6.12), so its memory stays for good.
        if not self.done:
            abandon(self._pending.test, self._keep)
            self.done = True

    @property
    def value(self) -> Any:
        """Return the result of a finished phase (:class:`Local`); raise the library's failure."""
        if self._failure is not None:
            raise self._failure

        return self._value()


class _Start:
    """Starts a phase, one method a kind; ``keep`` lives until its end; ``value`` is its result."""

    def __init__(
        self,
        collectives: LocalCollectives,
        step: Local,
        room: Room,
        root: int,
        *,
        rank: int,
        size: int,
    ) -> None:
        self._collectives = collectives
        self._step = step
        self._room = room
        self._root = root
        self._rank = rank
        self._is_root = root == rank
        self._size = size
        self.keep: Any = None
        self.value: Callable[[], Any] = _nothing
        self.place: memoryview | None = None
        self.landing = False

    def barrier(self) -> Pending:
        return self._collectives.barrier()

    def bcast(self) -> Pending:
        value = self._step.value if self._is_root else self._broadcast()
        self.value = lambda: value
        return self._collectives.bcast(self._view(value), self._root)

    def _broadcast(self) -> Any:
        """Return the room for a broadcast: the place of the result, if it has the same size."""

        like = self._step.like
        if self.place is None or self._room.size_of(like) != len(self.place):
            return self._room.fresh(like)

        self.landing = True

        return self._room.value_in(self.place)

    def scatter(self) -> Pending:
        # The library takes the pieces of all procs from one row of memory, in rank order.
        pieces = self._view(b"".join(self._step.value)) if self._is_root else None
        return self._collectives.scatter(
            pieces, self._view(self._result(self._step.like)), self._root
        )

    def gather(self) -> Pending:
        piece = self._view(self._step.value)
        return self._collectives.gather(
            piece, self._pieces(piece.nbytes) if self._is_root else None, self._root
        )

    def allgather(self) -> Pending:
        # Pieces of different sizes are possible only where all procs know all of them: the library
        # wants them at each.
        piece, sizes = self._view(self._step.value), self._step.like
        if sizes is None:
            return self._collectives.allgather(piece, self._pieces(piece.nbytes))

        view = memoryview(bytearray(sum(sizes)))
        ends = list(accumulate(sizes))
        self.value = lambda: [
            view[end - size : end] for size, end in zip(sizes, ends, strict=True)
        ]

        return self._collectives.allgatherv(piece, view, sizes)

    def alltoall(self) -> Pending:
        pieces = self._view(b"".join(self._step.value))
        return self._collectives.alltoall(
            pieces, self._pieces(pieces.nbytes // self._size)
        )

    def reduce(self) -> Pending:
        element, op = self._names()
        into = self._view(self._result(self._step.value)) if self._is_root else None
        return self._collectives.reduce(
            self._view(self._step.value), into, element, op, self._root
        )

    def allreduce(self) -> Pending:
        element, op = self._names()
        into = self._view(self._result(self._step.value))
        return self._collectives.allreduce(
            self._view(self._step.value), into, element, op
        )

    def reduce_scatter(self) -> Pending:
        element, op = self._names()
        sizes = self._step.like
        into = self._view(self._result(range(sizes[self._rank])))

        return self._collectives.reduce_scatter(
            self._view(self._step.value), into, sizes, element, op
        )

    def _names(self) -> tuple[str, str]:
        reduction = self._step.reduction
        assert reduction is not None and reduction.library is not None, (
            "this client's library has no such reduction"
        )
        return reduction.library[1], reduction.library[0]

    def _result(self, like: Any) -> Any:
        value = self._room.fresh(like)
        self.value = lambda: value
        return value

    def _pieces(self, nbytes: int) -> memoryview:
        view = memoryview(bytearray(nbytes * self._size))
        self.value = lambda: _split(view, nbytes, self._size)
        return view

    def _view(self, value: Any) -> memoryview:
        # The library has only addresses. Its call is over before the phase is, so the memory must
        # be held here.
        view = self._room.view(value)
        self.keep = (self.keep, view)
        return view


def _split(view: memoryview, nbytes: int, n: int) -> Sequence[memoryview]:
    return [view[i * nbytes : (i + 1) * nbytes] for i in range(n)]


def _nothing() -> None:
    return
