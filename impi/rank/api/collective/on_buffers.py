"""Collectives on buffers, as in mpi4py, with the algorithms of chapter 4 (or ours between groups).

Data movement packs once, moves octets in wire form, and unpacks once: the typed and the packed
phases of chapter 4 have equal octets on the wire. Reductions run on arrays of native elements.

How it works: every operation is one method that reads the caller's buffers and returns a starter:
called once for ``Bcast`` and ``Ibcast``, any number of times for ``Bcast_init``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from impi.protocol.collectives import Fixed, Octets, Sized
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.collective import reduction_plan
from impi.rank.api.constants import IN_PLACE
from impi.rank.api.handles.integers import row
from impi.rank.api.p2p.request import Request
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import UserBlocks, UserBuffer, kept_blocks, kept_buffer
from impi.rank.api.types.memory import overlap
from impi.rank.api.types.ops import Op
from impi.rank.engine.collective import Codec, CollectiveOperation, OctetCodec

if TYPE_CHECKING:
    from impi.rank.api.collective.algorithms import Algorithms
    from impi.rank.api.types.specs import BufferSpec
    from impi.rank.engine.context import Context


# Elements of the longest result that is copied. To ask for the place of a short one costs as much
# as its copy.
_COPIED: Final = 512

Start: TypeAlias = Callable[..., Request]
"""Starts an operation whose buffers are read; with ``blocking=True`` the caller waits at once."""


OVER: Final = Request()
"""The null request: a blocking call has nothing to wait for."""


class BufferOperations:
    """A method for each operation; ValueError or TypeError: bad buffer, ERR_ROOT: bad root."""

    _state: Any

    if TYPE_CHECKING:

        def _live(self) -> Context: ...
        @property
        def _algorithms(self) -> Algorithms: ...
        def _complete(self, algorithm: Any) -> Any: ...

    def _barrier(self) -> Start:
        do = self._algorithms
        return lambda blocking=False: self._begin(do.barrier(), blocking=blocking)

    # ---- data movement ---------------------------------------------------------------------------

    def _bcast(self, buf: BufferSpec, root: int) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        # Kept: the operation may outlive the program's handle of the datatype.
        message = (
            kept_buffer(buf, readonly=role.is_root)
            if role.is_root or role.is_leaf
            else None
        )
        finish = (
            None if role.is_root or message is None else _unpacker(message, do.external)
        )

        def start(blocking: bool = False) -> Request:
            if message is None:
                return self._begin(do.bcast(root, None), blocking=blocking)

            octets = marshalling.packed(message, do.external) if role.is_root else None
            algorithm = do.bcast(
                root, octets, marshalling.packed_size(message, do.external)
            )

            return self._begin(
                algorithm,
                finish,
                blocking=blocking,
                into=None if role.is_root else message,
            )

        return start

    def _gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        into = (
            kept_buffer(recvbuf, readonly=False, blocks=do.peers)
            if role.is_root
            else None
        )
        mine = self._contribution(
            sendbuf, lambda: None if into is None else into.block(do.rank), role.is_leaf
        )
        # In place, the caller's own block is there already.
        finish = _placer(into, do.external, skip=self._own(sendbuf))

        def start(blocking: bool = False) -> Request:
            piece = _octets(mine, do.external)
            # 4.12 chooses between short and long by the packed size of one contribution, which MPI
            # makes equal at all procs.
            return self._begin(
                do.gather(root, piece, Fixed(len(piece)), len(piece)),
                finish,
                blocking=blocking,
            )

        return start

    def _gatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        into = (
            kept_blocks(recvbuf, readonly=False, blocks=do.peers)
            if role.is_root
            else None
        )
        mine = self._contribution(
            sendbuf, lambda: None if into is None else into.block(do.rank), role.is_leaf
        )
        finish = _placer(into, do.external, skip=self._own(sendbuf))

        return lambda blocking=False: self._begin(
            do.gatherv(root, _octets(mine, do.external)), finish, blocking=blocking
        )

    def _scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        message = (
            kept_buffer(sendbuf, readonly=True, blocks=do.peers)
            if role.is_root
            else None
        )
        into = self._piece_room(recvbuf, role.is_leaf)
        finish = None if into is None else _unpacker(into, do.external)
        # The root knows the size of a piece by its send buffer, the others by their receive buffer.
        one = into if message is None else message
        packing = (
            None if one is None else Fixed(marshalling.packed_size(one, do.external))
        )

        return lambda blocking=False: self._begin(
            do.scatter(root, _blocks(message, do.peers, do.external), packing),
            finish,
            blocking=blocking,
            into=into,
        )

    def _scatterv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        message = (
            kept_blocks(sendbuf, readonly=True, blocks=do.peers)
            if role.is_root
            else None
        )
        into = self._piece_room(recvbuf, role.is_leaf)
        finish = None if into is None else _unpacker(into, do.external)

        return lambda blocking=False: self._begin(
            do.scatterv(root, _blocks(message, do.peers, do.external)),
            finish,
            blocking=blocking,
        )

    def _allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        do = self._algorithms
        into = kept_buffer(recvbuf, readonly=False, blocks=do.peers)
        in_place = self._in_place(sendbuf)
        mine = into.block(do.rank) if in_place else kept_buffer(sendbuf, readonly=True)
        finish = _placer(into, do.external, skip=do.rank if in_place else None)

        def start(blocking: bool = False) -> Request:
            piece = marshalling.packed(mine, do.external)
            algorithm = do.allgather(piece, Fixed(len(piece)), len(piece))
            return self._begin(
                algorithm,
                finish,
                blocking=blocking,
                into=_as_one_buffer(into, do.peers),
                length=len(piece) * do.peers,
            )

        return start

    def _allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        do = self._algorithms
        into = kept_blocks(recvbuf, readonly=False, blocks=do.peers)
        mine = self._contribution(sendbuf, lambda: into.block(do.rank))
        sizes = Sized(
            [
                marshalling.packed_size(into.block(r), do.external)
                for r in range(do.peers)
            ]
        )
        finish = _placer(into, do.external, skip=self._own(sendbuf))

        return lambda blocking=False: self._begin(
            do.allgatherv(_octets(mine, do.external), sizes), finish, blocking=blocking
        )

    def _alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        do = self._algorithms
        into = kept_buffer(recvbuf, readonly=False, blocks=do.peers)
        message = (
            into
            if self._in_place(sendbuf)
            else kept_buffer(sendbuf, readonly=True, blocks=do.peers)
        )
        packing = Fixed(marshalling.packed_size(message, do.external))
        whole = _as_one_buffer(into, do.peers)

        # In place, blocks leave from the memory into which those of others come, hence the
        # snapshots.
        return lambda blocking=False: self._begin(
            do.alltoall(snapshots(message, into, do.peers, do.external), packing),
            _placer(into, do.external),
            blocking=blocking,
            into=whole,
            length=packing.size * do.peers,
        )

    def _alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        do = self._algorithms
        into = kept_blocks(recvbuf, readonly=False, blocks=do.peers)
        message = (
            into
            if self._in_place(sendbuf)
            else kept_blocks(sendbuf, readonly=True, blocks=do.peers)
        )

        return lambda blocking=False: self._begin(
            do.alltoallv(snapshots(message, into, do.peers, do.external)),
            _placer(into, do.external),
            blocking=blocking,
        )

    def _alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        do = self._algorithms
        into = kept_blocks(recvbuf, readonly=False, blocks=do.peers, typed=True)
        message = (
            into
            if self._in_place(sendbuf)
            else kept_blocks(sendbuf, readonly=True, blocks=do.peers, typed=True)
        )

        return lambda blocking=False: self._begin(
            do.alltoallv(snapshots(message, into, do.peers, do.external)),
            _placer(into, do.external),
            blocking=blocking,
        )

    # ---- reductions ------------------------------------------------------------------------------

    def _reduce(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op, root: int
    ) -> Start:
        do, role = self._algorithms, self._algorithms.role(root)
        into = kept_buffer(recvbuf, readonly=False) if role.is_root else None

        # Between two groups the root contributes nothing. Its buffer only tells the datatype and
        # the count.
        message = self._operand(sendbuf, into) if role.is_leaf else into
        if message is None:  # not the root, beside it: no data
            return lambda blocking=False: self._begin(
                do.bcast(root, None), blocking=blocking
            )

        return self._reducer(
            do,
            message,
            op,
            lambda plan: do.reduce(root, plan.value, plan.reduction),
            into,
        )

    def _allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op) -> Start:
        do = self._algorithms
        into = kept_buffer(recvbuf, readonly=False)
        message = self._operand(sendbuf, into)

        return self._reducer(
            do, message, op, lambda plan: do.allreduce(plan.value, plan.reduction), into
        )

    def _reduce_scatter_block(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
    ) -> Start:
        size = self._algorithms.size
        if self._in_place(sendbuf):
            # In place, the blocks of all procs are in the receive buffer, and the result takes the
            # first one.
            into = message = kept_buffer(recvbuf, readonly=False, blocks=size)
        else:
            into = kept_buffer(recvbuf, readonly=False)
            message = kept_buffer(sendbuf, readonly=True, blocks=size)
            _check_alike(message, into, message.count, into.count)

        whole = marshalling.resized(message, message.count * size)

        return self._scattered(
            whole, marshalling.resized(into, message.count), [message.count] * size, op
        )

    def _reduce_scatter(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        recvcounts: Sequence[int] | None,
        op: Op,
    ) -> Start:
        into = kept_buffer(recvbuf, readonly=False)
        if recvcounts is not None:
            return self._scattered_by(row(recvcounts), sendbuf, into, op)

        if self._in_place(sendbuf) or self._live().is_inter:
            raise ValueError(
                "message: cannot infer recvcounts with IN_PLACE or between two groups"
            )

        counts = self._allgather_int(into.count)
        try:
            return self._scattered_by(counts, sendbuf, into, op)
        except Exception as failure:
            # Other procs have begun the call by the allgather, and go on to the reduction.
            self._live().faults.refuse("Reduce_scatter", failure)
            raise

    def _scattered_by(
        self, counts: list[int], sendbuf: BufferSpec, into: UserBuffer, op: Op
    ) -> Start:
        do = self._algorithms
        if len(counts) != do.size:
            raise ValueError(f"message: expecting {do.size} counts, got {len(counts)}")

        total = sum(counts)
        if self._in_place(sendbuf):
            message = into
        else:
            message = kept_buffer(sendbuf, readonly=True)
            _check_alike(message, into, counts[do.rank], into.count)

        if message.count != total:
            raise ValueError(
                f"message: {message.count} elements, but the sum of recvcounts is {total}"
            )

        return self._scattered(
            marshalling.resized(message, total),
            marshalling.resized(into, counts[do.rank]),
            counts,
            op,
        )

    def _scan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op) -> Start:
        do = self._algorithms
        into = kept_buffer(recvbuf, readonly=False)
        message = self._operand(sendbuf, into)

        return self._reducer(
            do, message, op, lambda plan: do.scan(plan.value, plan.reduction), into
        )

    def _exscan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op) -> Start:
        do = self._algorithms
        into = kept_buffer(recvbuf, readonly=False)
        message = self._operand(sendbuf, into)

        return self._reducer(
            do, message, op, lambda plan: do.exscan(plan.value, plan.reduction), into
        )

    # ---- inside ----------------------------------------------------------------------------------

    def _scattered(
        self, message: UserBuffer, into: UserBuffer, counts: list[int], op: Op
    ) -> Start:
        do = self._algorithms
        ends = list(accumulate(counts))

        def divide(value: Any) -> list[Any]:
            return [
                value[end - count : end]
                for end, count in zip(ends, counts, strict=True)
            ]

        return self._reducer(
            do,
            message,
            op,
            lambda plan: do.reduce_scatter(plan.value, plan.reduction, divide, counts),
            into,
        )

    def _reducer(
        self,
        do: Algorithms,
        message: UserBuffer,
        op: Op,
        algorithm: Callable[[reduction_plan.Plan], Any],
        into: UserBuffer | None,
    ) -> Start:
        if isinstance(op, Op) and not op._is_constant:
            # A handle of our own: the program may free its own before the end
            op = Op._wrap(op._state)

        plan = reduction_plan.plan(message, op, do.plans, external=do.external)
        # A value that arrives in the result's place would destroy an operand that is there.
        apart = (
            into is not None
            and into.count > _COPIED
            and not overlap(message.view, into.view)
        )

        return lambda blocking=False: self._begin(
            algorithm(plan),
            lambda result: reduction_plan.store(into, result),
            plan.codec,
            blocking=blocking,
            into=into if apart else None,
        )

    def _allgather_int(self, value: int) -> list[int]:
        # 8 octets, big-endian, whatever the clients' integers are.
        mine = value.to_bytes(8, "big")
        pieces = self._complete(
            self._algorithms.allgather(mine, Fixed(len(mine)), len(mine))
        )
        return [int.from_bytes(piece, "big") for piece in pieces]

    def _begin(
        self,
        algorithm: Any,
        finish: Callable[[Any], object] | None = None,
        codec: Codec | None = None,
        *,
        blocking: bool = False,
        into: UserBuffer | None = None,
        length: int | None = None,
    ) -> Request:
        """Start an algorithm; its whole result may arrive in ``into``.

        ``length``: octets of all pieces of the result. Where ``into`` has more, its blocks are
        longer than the pieces, which would not be side by side.
        """

        place = into.octets() if into is not None and into.count > _COPIED else None
        if place is not None and length is not None and len(place) != length:
            place = None

        # A communicator that is not live raises here, with a sentence.
        engine, state = runtime.engine(), self._state
        context = (state and state.context) or self._live()
        operation = CollectiveOperation(
            engine,
            context,
            algorithm,
            codec or OctetCodec(),
            finish,
            blocking=blocking,
            place=place,
        )

        if blocking:
            if not operation.done:
                engine.turns.wait_for(operation)

            if operation.failure is None:
                return OVER

        return Request._of(operation)

    def _in_place(self, spec: BufferSpec) -> bool:
        """mpi4py takes None for IN_PLACE in collectives; two groups have no IN_PLACE."""
        return (spec is None or spec is IN_PLACE) and not self._live().is_inter

    def _own(self, sendbuf: BufferSpec) -> int | None:
        """Return the caller's block of the receive buffer, if its contribution is in it."""
        return self._algorithms.rank if self._in_place(sendbuf) else None

    def _contribution(
        self,
        sendbuf: BufferSpec,
        in_place: Callable[[], UserBuffer | None],
        is_leaf: bool = True,
    ) -> UserBuffer | None:
        if not is_leaf:
            return None

        if not self._in_place(sendbuf):
            return kept_buffer(sendbuf, readonly=True)

        return _given(in_place())

    def _operand(self, sendbuf: BufferSpec, into: UserBuffer | None) -> UserBuffer:
        in_place = self._in_place(sendbuf)
        message = _given(into) if in_place else kept_buffer(sendbuf, readonly=True)

        if into is not None:
            _check_alike(message, into, message.count, into.count)

        return message

    def _piece_room(self, recvbuf: BufferSpec, is_leaf: bool) -> UserBuffer | None:
        return (
            None
            if not is_leaf or self._in_place(recvbuf)
            else kept_buffer(recvbuf, readonly=False)
        )


def _given(into: UserBuffer | None) -> UserBuffer:
    """Return the receive buffer, which has the contribution in place; only some procs have one."""
    if into is None:
        raise error("ERR_BUFFER", "IN_PLACE is allowed at the root only")

    return into


def _check_alike(
    message: UserBuffer, into: UserBuffer, sent: int, received: int
) -> None:
    """Check that the two buffers of a reduction have one datatype and size, like mpi4py."""
    # Mostly one constant: to ask whether two handles are equal is a call.
    if message.datatype is not into.datatype and message.datatype != into.datatype:
        raise ValueError(
            "message: the datatypes of the send and the receive buffer differ"
        )

    if sent != received:
        raise ValueError(f"message: {sent} elements to send, but {received} to receive")


def _octets(message: UserBuffer | None, external: bool) -> Octets:
    return b"" if message is None else marshalling.packed(message, external)


def _blocks(
    message: UserBuffer | UserBlocks | None, n: int, external: bool
) -> list[Octets] | None:
    return (
        None
        if message is None
        else [marshalling.packed(message.block(r), external) for r in range(n)]
    )


def snapshots(
    message: UserBuffer | UserBlocks, into: Any, n: int, external: bool | None = None
) -> list[Octets]:
    """Return the first ``n`` blocks as octets, unaffected by writes to ``into``."""
    row = marshalling.in_a_row(message, n, external)
    if row is None:
        return [
            marshalling.snapshot(message.block(r), into, external) for r in range(n)
        ]

    row, size = marshalling.unaffected(row, message, into), len(row) // n

    return [row[r * size : (r + 1) * size] for r in range(n)]


def _as_one_buffer(into: UserBuffer, blocks: int) -> UserBuffer | None:
    """Return ``blocks`` blocks as one buffer, in which pieces may arrive; None: they are short."""
    return (
        marshalling.resized(into, into.count * blocks)
        if into.count * blocks > _COPIED
        else None
    )


def _unpacker(message: UserBuffer, external: bool) -> Callable[[Any], object]:
    return lambda octets: marshalling.unpack(message, octets, external)


def _placer(
    into: UserBuffer | UserBlocks | None, external: bool, *, skip: int | None = None
) -> Callable[[Any], object] | None:
    return (
        None
        if into is None
        else lambda pieces: place(into, pieces, external, skip=skip)
    )


def place(
    into: UserBuffer | UserBlocks,
    pieces: Sequence[Octets | None] | None,
    external: bool | None = None,
    *,
    skip: int | None = None,
) -> None:
    """Unpack pieces into the blocks of a buffer; None leaves its block unchanged."""
    pieces = pieces or ()
    row = marshalling.in_a_row(into, len(pieces), external)
    size = len(row) // len(pieces) if row else 0

    for index, piece in enumerate(pieces):
        if index == skip or piece is None:
            continue

        # A piece that is too long is for unpack(), which raises.
        if row is not None and len(piece) <= size:
            at = index * size
            row[at : at + len(piece)] = piece
        else:
            marshalling.unpack(into.block(index), piece, external)
