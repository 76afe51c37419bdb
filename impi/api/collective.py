"""Collectives of Comm on buffers (``Bcast``, ``Allreduce``), as in mpi4py, over the algorithms of IMPI chapter 4.

Data movement packs once, moves external32 octets, and unpacks once: the typed and the packed phases of chapter 4
have the same octets on the wire. Reductions run on arrays of native elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from impi import collectives
from impi.api import reductions, runtime, transport
from impi.api.buffers import Message, VectorMessage, simple, vector
from impi.api.constants import IN_PLACE
from impi.api.op import SUM, Op
from impi.api.request import Request
from impi.collectives import Fixed, Sized, is_short
from impi.engine.collective import Codec, CollectiveOperation, OctetCodec
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.collectives import Layout
    from impi.engine.context import Context

__all__ = ["BufferCollectives"]


class BufferCollectives:
    """The methods; :class:`impi.api.comm.Comm` brings context and layout."""

    _layout: Layout

    if TYPE_CHECKING:

        def _live(self) -> Context: ...
        def _rooted(self, root: int) -> int: ...
        def _complete(self, algorithm: Any) -> Any: ...

    def Barrier(self) -> None:
        """Wait for all."""
        self._begin(collectives.barrier(self._layout, self._live().rank, maxlinear=_maxlinear())).Wait()

    # ---- data movement ---------------------------------------------------------------------------------

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The root's buffer, everywhere."""
        rank = self._rooted(root)
        message = simple(buf, readonly=rank == root)
        octets = transport.packed(message) if rank == root else None
        algorithm = collectives.bcast(self._layout, rank, root, octets, maxlinear=_maxlinear())
        self._begin(algorithm, lambda result: None if rank == root else transport.unpack(message, result)).Wait()

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, one after the other, at the root."""
        rank = self._rooted(root)
        size = self._layout.size
        into = simple(recvbuf, readonly=False, blocks=size) if rank == root else None
        piece = self._contribution(sendbuf, lambda: None if into is None else into.block(rank))
        algorithm = collectives.gather(
            self._layout,
            rank,
            root,
            piece,
            Fixed(len(piece)),
            maxlinear=_maxlinear(),
            short=is_short(len(piece), runtime.engine().job.xsize),
        )
        self._begin(algorithm, lambda pieces: _place(into, pieces, skip=rank if _in_place(sendbuf) else None)).Wait()

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, each of its own length and at its own place, at the root."""
        rank = self._rooted(root)
        into = vector(recvbuf, readonly=False, blocks=self._layout.size) if rank == root else None
        piece = self._contribution(sendbuf, lambda: None if into is None else into.block(rank))
        algorithm = collectives.gatherv(self._layout, rank, root, piece)
        self._begin(algorithm, lambda pieces: _place(into, pieces, skip=rank if _in_place(sendbuf) else None)).Wait()

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One block of the root's buffer for everybody."""
        rank = self._rooted(root)
        pieces = None
        if rank == root:
            message = simple(sendbuf, readonly=True, blocks=self._layout.size)
            pieces = [transport.packed(message.block(r)) for r in range(self._layout.size)]
        self._receive_piece(collectives.scatter(self._layout, rank, root, pieces), recvbuf)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One part of the root's buffer for everybody, each of its own length and from its own place."""
        rank = self._rooted(root)
        pieces = None
        if rank == root:
            message = vector(sendbuf, readonly=True, blocks=self._layout.size)
            pieces = [transport.packed(message.block(r)) for r in range(self._layout.size)]
        self._receive_piece(collectives.scatterv(self._layout, rank, root, pieces), recvbuf)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, one after the other, everywhere."""
        rank, size = self._live().rank, self._layout.size
        into = simple(recvbuf, readonly=False, blocks=size)
        piece = self._contribution(sendbuf, lambda: into.block(rank))
        algorithm = collectives.allgather(
            self._layout,
            rank,
            piece,
            Fixed(len(piece)),
            maxlinear=_maxlinear(),
            short=is_short(len(piece), runtime.engine().job.xsize),
        )
        self._begin(algorithm, lambda pieces: _place(into, pieces, skip=rank if _in_place(sendbuf) else None)).Wait()

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, each of its own length and at its own place, everywhere."""
        rank, size = self._live().rank, self._layout.size
        into = vector(recvbuf, readonly=False, blocks=size)
        piece = self._contribution(sendbuf, lambda: into.block(rank))
        sizes = [transport.packed_size(into.block(r)) for r in range(size)]
        algorithm = collectives.allgatherv(self._layout, rank, piece, Sized(sizes), maxlinear=_maxlinear())
        self._begin(algorithm, lambda pieces: _place(into, pieces, skip=rank if _in_place(sendbuf) else None)).Wait()

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """One block from everybody for everybody."""
        rank, size = self._live().rank, self._layout.size
        into = simple(recvbuf, readonly=False, blocks=size)
        message = into if _in_place(sendbuf) else simple(sendbuf, readonly=True, blocks=size)
        pieces = [transport.snapshot(message.block(r), into) for r in range(size)]
        self._begin(collectives.alltoall(self._layout, rank, pieces), lambda result: _place(into, result)).Wait()

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """One part from everybody for everybody, each of its own length and place."""
        rank, size = self._live().rank, self._layout.size
        into = vector(recvbuf, readonly=False, blocks=size)
        message = into if _in_place(sendbuf) else vector(sendbuf, readonly=True, blocks=size)
        pieces = [transport.snapshot(message.block(r), into.block(r)) for r in range(size)]
        self._begin(collectives.alltoallv(self._layout, rank, pieces), lambda result: _place(into, result)).Wait()

    # ---- reductions ------------------------------------------------------------------------------------

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """All buffers combined element by element, at the root."""
        rank = self._rooted(root)
        into = simple(recvbuf, readonly=False) if rank == root else None
        message = self._operand(sendbuf, into)
        plan = reductions.plan(message, op)
        algorithm = collectives.reduce(self._layout, rank, root, plan.value, plan.reduction, maxlinear=_maxlinear())
        self._begin(algorithm, lambda result: reductions.store(into, result), plan.codec).Wait()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, everywhere."""
        into = simple(recvbuf, readonly=False)
        plan = reductions.plan(self._operand(sendbuf, into), op)
        algorithm = collectives.allreduce(
            self._layout, self._live().rank, plan.value, plan.reduction, maxlinear=_maxlinear()
        )
        self._begin(algorithm, lambda result: reductions.store(into, result), plan.codec).Wait()

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in equal blocks."""
        size = self._layout.size
        if _in_place(sendbuf):
            into = message = simple(recvbuf, readonly=False, blocks=size)
        else:
            into = simple(recvbuf, readonly=False)
            message = simple(sendbuf, readonly=True, blocks=size)
        whole = transport.resized(message, message.count * size)
        self._reduce_scatter(whole, transport.resized(into, message.count), [message.count] * size, op)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in blocks of ``recvcounts`` elements."""
        rank, size = self._live().rank, self._layout.size
        into = simple(recvbuf, readonly=False)
        if recvcounts is None:
            if _in_place(sendbuf):
                raise ValueError("message: cannot infer recvcounts with IN_PLACE")
            counts = self._allgather_int(into.count)
        else:
            counts = [int(count) for count in recvcounts]
        if len(counts) != size:
            raise ValueError(f"message: expecting {size} counts, got {len(counts)}")
        message = into if _in_place(sendbuf) else simple(sendbuf, readonly=True)
        if message.count < sum(counts):
            raise ValueError(f"message: {message.count} elements are fewer than the sum of recvcounts, {sum(counts)}")
        self._reduce_scatter(transport.resized(message, sum(counts)), transport.resized(into, counts[rank]), counts, op)

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """The buffers of ranks 0 to the caller's, combined element by element."""
        into = simple(recvbuf, readonly=False)
        plan = reductions.plan(self._operand(sendbuf, into), op)
        algorithm = collectives.scan(self._layout, self._live().rank, plan.value, plan.reduction)
        self._begin(algorithm, lambda result: reductions.store(into, result), plan.codec).Wait()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """The buffers of the ranks below the caller's, combined element by element; nothing happens at rank 0."""
        into = simple(recvbuf, readonly=False)
        plan = reductions.plan(self._operand(sendbuf, into), op)
        algorithm = collectives.exscan(self._layout, self._live().rank, plan.value, plan.reduction)
        self._begin(algorithm, lambda result: reductions.store(into, result), plan.codec).Wait()

    # ---- inside ----------------------------------------------------------------------------------------

    def _reduce_scatter(self, message: Message, into: Message, counts: list[int], op: Op) -> None:
        plan = reductions.plan(message, op)
        ends = list(accumulate(counts))

        def divide(value: Any) -> list[Any]:
            return [value[end - count : end] for end, count in zip(ends, counts, strict=True)]

        algorithm = collectives.reduce_scatter(
            self._layout, self._live().rank, plan.value, plan.reduction, divide, maxlinear=_maxlinear()
        )
        self._begin(algorithm, lambda result: reductions.store(into, result), plan.codec).Wait()

    def _allgather_int(self, value: int) -> list[int]:
        """Everybody's number, in rank order."""
        mine = value.to_bytes(8, "big")
        short = is_short(len(mine), runtime.engine().job.xsize)
        algorithm = collectives.allgather(
            self._layout, self._live().rank, mine, Fixed(len(mine)), maxlinear=_maxlinear(), short=short
        )
        return [int.from_bytes(piece, "big") for piece in self._complete(algorithm)]

    def _begin(
        self, algorithm: Any, finish: Callable[[Any], object] | None = None, codec: Codec | None = None
    ) -> Request:
        engine = runtime.engine()
        operation = CollectiveOperation(engine, self._live(), algorithm, codec or OctetCodec())
        if not operation.done:
            engine.track(operation)
        return Request._of(operation, None if finish is None else lambda: finish(operation.result))

    def _contribution(self, sendbuf: Any, in_place: Callable[[], Message | None]) -> memoryview:
        if not _in_place(sendbuf):
            return transport.packed(simple(sendbuf, readonly=True))
        message = in_place()
        if message is None:
            raise error("ERR_BUFFER", "IN_PLACE is allowed at the root only")
        return transport.packed(message)

    def _operand(self, sendbuf: Any, into: Message | None) -> Message:
        if not _in_place(sendbuf):
            return simple(sendbuf, readonly=True)
        if into is None:
            raise error("ERR_BUFFER", "IN_PLACE is allowed at the root only")
        return into

    def _receive_piece(self, algorithm: Any, recvbuf: Any) -> None:
        if _in_place(recvbuf):
            self._begin(algorithm).Wait()
        else:
            into = simple(recvbuf, readonly=False)
            self._begin(algorithm, lambda piece: transport.unpack(into, piece)).Wait()


def _in_place(spec: Any) -> bool:
    """mpi4py takes None for IN_PLACE in collectives."""
    return spec is None or spec is IN_PLACE


def _maxlinear() -> int:
    return runtime.engine().job.maxlinear


def _place(into: Message | VectorMessage | None, pieces: list[Any] | None, *, skip: int | None = None) -> None:
    if into is not None and pieces is not None:
        for rank, piece in enumerate(pieces):
            if rank != skip:
                transport.unpack(into.block(rank), piece)
