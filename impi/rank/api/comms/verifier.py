"""Verification of collectives (IMPI_VERIFY): procs exchange descriptions before each call.

How it works: :func:`install`, called by :mod:`impi.rank.api.comms.world`, puts checks into the two
places that have room for them: the forms of each :class:`.operation_table.Collective`, and the
guards of all other methods (:func:`impi.rank.api.handles.failing.wrapped`). Without it both are
empty and nothing costs.

A verified call makes a :class:`Call`: function, root, sizes, operation, values. :func:`_checked` is
an algorithm of two phases: an allgather of the calls (between two groups: both lists), then the
operation itself. :func:`impi.protocol.semantics.verification.check` compares the calls. Procs at
fault print their violation, all meet in a barrier, and all raise :class:`Agreed` with the first
error class.

Invariants: the exchange is one collective, equal for all operations, so procs that call different
ones meet in it. It is a part of the operation's own steps, so a non-blocking operation stays one.
A proc that cannot make its call takes part in the exchange, so the others do not hang.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import impi
from impi.base.records import replaced
from impi.protocol.collectives import Algorithm, Prefixed
from impi.protocol.collectives.beyond.neighbors import Edges
from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.verification import (
    Call,
    Violation,
    check,
    decode,
    encode,
    explain,
)
from impi.rank.api.collective.algorithms import Algorithms, Within
from impi.rank.api.collective.neighborhood import (
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    Neighborhood,
    NeighborOperations,
)
from impi.rank.api.collective.on_buffers import Start
from impi.rank.api.collective.on_objects import ObjectCollectives, ObjectScans
from impi.rank.api.collective.operation_table import (
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BARRIER,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    SCATTER,
    SCATTERV,
    Collective,
    Read,
)
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.groups import Group
from impi.rank.api.comms.intercomm import Intercomm
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.comms.topocomm import Cartcomm
from impi.rank.api.handles import Info, wrapped
from impi.rank.api.handles.failing import handle
from impi.rank.api.p2p.request import Request
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import UserBuffer, read_blocks, read_buffer
from impi.rank.api.types.ops import Op
from impi.rank.engine.channels.payload import Source
from impi.rank.engine.collective import Codec, OctetCodec, Octets
from impi.rank.engine.context import Context
from impi.rank.engine.faults import Agreed

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


_EXPLAIN: Final = 2
_INFO: Final = 3
_INFERRED: Final = "inferred"
_PACKAGE: Final = str(Path(impi.__file__).parent)

_About: TypeAlias = dict[str, Any]
# Fills the fields of a Call, its first argument, from the method's arguments.
_Describe: TypeAlias = Callable[..., None]
_Sizes: TypeAlias = Callable[..., list[int]]

_level = 0

leave: Final = wrapped(Comm._leave, collective=True)
"""The barrier of MPI_Finalize, with room for its check."""


def install(level: int) -> None:
    """Verify all collectives of this process from now on.

    Args:
        level: 1: one sentence for each violation; 2: also an explanation; 3: also compare Info
            arguments; 4: also assertions, which none of our operations has.
    """
    global _level
    _level = level

    for operation, describe in _STARTED.items():
        name = operation.name
        operation.blocking = _verified_read(operation.blocking, f"MPI_{name}", describe)
        operation.nonblocking = _verified_read(
            operation.nonblocking, f"MPI_I{name.lower()}", describe
        )
        operation.persistent = _verified_read(
            operation.persistent, f"MPI_{name}_init", describe
        )

    for method, function, describe in _CALLED:
        method.check = _checks(method, function, describe)

    idup: Any = Comm.Idup
    idup.check = _start_check


# ---- before a call -------------------------------------------------------------------------------


def _verified_read(read: Read, function: str, describe: _Describe) -> Read:
    """Return a reader of buffers that verifies first; ``function``: the operation's name in MPI."""

    def verified(comm: Comm, *args: object) -> Start:
        call, fault = _describe(comm, function, describe, args)
        if call.values.get("recvcounts") == _INFERRED:
            # The counts are gathered before the start: all procs must be in this call.
            comm._complete(_checked(comm, call, fault=fault))

        if fault is None:
            try:
                return read(_Checked(comm, call), *args)
            except Exception as wrong:
                call, fault = _faulty(call, wrong), wrong

        # This proc cannot take part: tell the others. They answer by an exception.
        comm._complete(_checked(comm, call, fault=fault))
        raise fault

    return verified


def _checks(method: Any, function: str, describe: _Describe) -> Callable[..., None]:
    parameters = signature(method)

    def checked(
        comm: Comm, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        # By name or by position: the description sees one form of each call.
        bound = parameters.bind(comm, *args, **kwargs)
        bound.apply_defaults()
        call, fault = _describe(comm, function, describe, bound.args[1:])
        comm._complete(_checked(comm, call, fault=fault))

    return checked


def _start_check(
    comm: Comm, args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """Start the check of Idup, which may not block although it is not on buffers.

    After a violation all procs are told, but the calls of the other procs fail.
    """
    call, fault = _describe(comm, "MPI_Comm_idup", _nothing, ())
    comm._begin(_checked_at_once(comm, _checked(comm, call, fault=fault)))


def _checked_at_once(comm: Comm, check: Algorithm[Any]) -> Algorithm[None]:
    """Run a check without a waiting request: a failure calls the error handler at once."""
    try:
        yield from check
    except Agreed as agreed:
        if isinstance(agreed.failure, MPIException):
            handle(agreed.failure, comm._owner)
        raise


class _Checked(NeighborOperations):
    """The operations of a communicator, with the exchange of calls as the first of their steps."""

    def __init__(self, comm: Any, call: Call) -> None:
        self._comm = comm
        self._call = call

    def _live(self) -> Context:
        return self._comm._live()  # type: ignore[no-any-return]

    @property
    def _algorithms(self) -> Algorithms:
        return self._comm._algorithms  # type: ignore[no-any-return]

    @property
    def _edges(self) -> Edges:
        return self._comm._edges  # type: ignore[no-any-return]

    def _complete(self, algorithm: Any) -> Any:
        return self._comm._complete(algorithm)

    def _begin(
        self,
        algorithm: Any,
        finish: Any = None,
        codec: Codec | None = None,
        *,
        blocking: bool = False,
        into: UserBuffer | None = None,
        length: int | None = None,
    ) -> Request:
        switch = _Switch(codec or OctetCodec())
        checked = _checked(self._comm, self._call, algorithm, switch)
        started: Request = self._comm._begin(
            checked, finish, switch, blocking=blocking, into=into, length=length
        )
        return started


class _Switch:
    """A codec: octets during the check, then the operation's own."""

    def __init__(self, codec: Codec) -> None:
        self._now: Codec = OctetCodec()
        self._then = codec

    def switch(self) -> None:
        self._now = self._then

    def size_of(self, like: object) -> int:
        return self._now.size_of(like)

    def value_in(self, octets: Octets) -> Any:
        return self._now.value_in(octets)

    def encode(self, value: object) -> Source:
        return self._now.encode(value)

    def decode(self, data: Octets, *, external: bool) -> Any:
        return self._now.decode(data, external=external)


# ---- the check -----------------------------------------------------------------------------------


def _checked(
    comm: Comm,
    call: Call,
    algorithm: Algorithm[Any] | None = None,
    switch: _Switch | None = None,
    fault: Exception | None = None,
) -> Algorithm[Any]:
    """Exchange descriptions, then run ``algorithm`` if they fit each other.

    Raises:
        Agreed: they do not. Each proc raises the error class of the first violation, after
            all messages are printed; a proc that cannot take part raises its ``fault``.
    """
    calls = yield from _exchange(comm, call)
    # All procs check the same rows, so they decide alike without another message.
    violations = check(calls)
    if violations:
        # All sentences are printed before the first proc raises: its error handler may end the job.
        _tell(call, calls, violations)
        yield from comm._algorithms.barrier()
        if fault is not None and violations[0].is_fault:
            raise Agreed(fault)
        raise Agreed(error(violations[0].error, "; ".join(map(str, violations))))
    if switch is not None:
        switch.switch()
    return None if algorithm is None else (yield from algorithm)


def _exchange(comm: Comm, call: Call) -> Algorithm[list[Call]]:
    do = comm._algorithms
    # 0 octets: the short form of the allgather, which all must choose although each knows only the
    # length of its own row.
    rows = yield from do.allgather(encode([call]), Prefixed(), 0)
    calls = [each for row in rows for each in decode(row)]
    if not isinstance(do, Within):
        # These rows are the other group's, which has ours.
        answer = yield from do.allgather(encode(calls), Prefixed(), 0)
        calls += decode(answer[0])
        # Both groups sort alike, and so find the same first violation.
        calls.sort(key=lambda each: (each.group, each.rank))
    return calls


def _tell(mine: Call, calls: list[Call], violations: list[Violation]) -> None:
    # Each raises its own fault then, as it would unverified.
    if all(call.fault for call in calls):
        return
    for violation in violations:
        # Each proc prints its own violations, so no sentence comes twice.
        if (violation.group, violation.rank or 0) == (mine.group, mine.rank):
            print(violation, file=sys.stderr)
            if _level >= _EXPLAIN and violation is violations[0]:
                print(
                    f"  the rule: {violation.rule}",
                    *explain(calls),
                    sep="\n  ",
                    file=sys.stderr,
                )
    sys.stderr.flush()


# ---- descriptions --------------------------------------------------------------------------------


def _describe(
    comm: Comm, function: str, describe: _Describe, args: tuple[Any, ...]
) -> tuple[Call, Exception | None]:
    """Return the call and its fault, or None. A null communicator raises: there are no peers."""
    context = comm._live()
    # Both groups must number themselves alike without a message: the lower first rank is group 0.
    group = int(context.members[0] > context.peers[0]) if context.is_inter else None
    about: _About = {"function": function, "rank": context.rank, "group": group}
    if _level >= _EXPLAIN:
        about["where"] = _where()
    try:
        describe(about, comm, *args)
    except Exception as wrong:
        return _faulty(Call(**about), wrong), wrong
    return Call(**about), None


def _faulty(call: Call, wrong: Exception) -> Call:
    return replaced(
        call, fault=getattr(wrong, "detail", "") or str(wrong) or type(wrong).__name__
    )


def _where() -> str:
    # The first frame outside of impi is the program's line.
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _size(message: UserBuffer) -> int:
    return marshalling.packed_size(message)


def _equal(comm: Comm, buf: BufferSpec, *, readonly: bool) -> list[int]:
    """Return the size of a buffer's blocks for all peers."""
    return [_size(read_buffer(buf, readonly=readonly, blocks=comm._algorithms.peers))]


def _sizes_by_peer(
    comm: Comm, buf: BufferSpec, *, readonly: bool, typed: bool = False
) -> list[int]:
    """Return the size of each peer's block."""
    peers = comm._algorithms.peers
    message = read_blocks(buf, readonly=readonly, blocks=peers, typed=typed)
    return [_size(message.block(peer)) for peer in range(peers)]


def _nothing(about: _About, comm: Comm, *args: object) -> None:
    """Describe a call without arguments."""


def _bcast(about: _About, comm: Comm, buf: BufferSpec, root: int) -> None:
    about["root"] = root
    role = comm._algorithms.role(root)
    if role.is_root:
        about["send"] = [_size(read_buffer(buf, readonly=True))]
    elif role.is_leaf:
        about["recv"] = [_size(read_buffer(buf, readonly=False))]


def _gather(
    about: _About,
    comm: Comm,
    sendbuf: BufferSpec,
    recvbuf: BufferSpec,
    root: int,
    *,
    sizes: _Sizes = _equal,
) -> None:
    role = _leaf(about, comm, sendbuf, root, "send")
    if role.is_root:
        about["recv"] = sizes(comm, recvbuf, readonly=False)


def _leaf(
    about: _About, comm: Comm, buf: BufferSpec, root: int, way: Literal["send", "recv"]
) -> Any:
    """Describe the block that a proc sends to or receives from the root; return its role."""
    about["root"] = root
    role = comm._algorithms.role(root)
    about["in_place"] = comm._in_place(buf)
    if role.is_leaf and not about["in_place"]:
        about[way] = [_size(read_buffer(buf, readonly=way == "send"))]
    return role


def _scatter(
    about: _About,
    comm: Comm,
    sendbuf: BufferSpec,
    recvbuf: BufferSpec,
    root: int,
    *,
    sizes: _Sizes = _equal,
) -> None:
    role = _leaf(about, comm, recvbuf, root, "recv")
    if role.is_root:
        about["send"] = sizes(comm, sendbuf, readonly=True)


def _allgather(
    about: _About, comm: Comm, sendbuf: BufferSpec, recvbuf: BufferSpec
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    about["recv"] = _equal(comm, recvbuf, readonly=False)
    about["send"] = (
        about["recv"]
        if about["in_place"]
        else [_size(read_buffer(sendbuf, readonly=True))]
    )


def _allgatherv(
    about: _About, comm: Comm, sendbuf: BufferSpec, recvbuf: BufferSpec
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    about["recv"] = _sizes_by_peer(comm, recvbuf, readonly=False)
    about["send"] = [
        about["recv"][comm._algorithms.rank]
        if about["in_place"]
        else _size(read_buffer(sendbuf, readonly=True))
    ]


def _alltoall(
    about: _About, comm: Comm, sendbuf: BufferSpec, recvbuf: BufferSpec
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    about["recv"] = _equal(comm, recvbuf, readonly=False)
    about["send"] = (
        about["recv"] if about["in_place"] else _equal(comm, sendbuf, readonly=True)
    )


def _alltoallv(
    about: _About,
    comm: Comm,
    sendbuf: BufferSpec,
    recvbuf: BufferSpec,
    *,
    typed: bool = False,
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    about["send"] = about["recv"] = _sizes_by_peer(
        comm, recvbuf, readonly=False, typed=typed
    )
    if not about["in_place"]:
        about["send"] = _sizes_by_peer(comm, sendbuf, readonly=True, typed=typed)


def _reduce(
    about: _About,
    comm: Comm,
    sendbuf: BufferSpec,
    recvbuf: BufferSpec,
    op: Op,
    root: int,
) -> None:
    about["root"] = root
    role = comm._algorithms.role(root)
    if role.is_leaf:
        about["in_place"] = comm._in_place(sendbuf)
        buf = recvbuf if role.is_root and about["in_place"] else sendbuf
        about["send"] = _operand(about, read_buffer(buf, readonly=buf is sendbuf), op)
    elif role.is_root:
        about["recv"] = _operand(about, read_buffer(recvbuf, readonly=False), op)


def _allreduce(
    about: _About, comm: Comm, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    buf = recvbuf if about["in_place"] else sendbuf
    about["send"] = _operand(about, read_buffer(buf, readonly=buf is sendbuf), op)


def _reduce_scatter_block(
    about: _About, comm: Comm, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op
) -> None:
    n = comm._algorithms.size
    about["in_place"] = comm._in_place(sendbuf)
    buf = recvbuf if about["in_place"] else sendbuf
    [one] = _operand(about, read_buffer(buf, readonly=buf is sendbuf, blocks=n), op)
    about["send"], about["recv"] = [one * n], [one] * n


def _reduce_scatter(
    about: _About,
    comm: Comm,
    sendbuf: BufferSpec,
    recvbuf: BufferSpec,
    recvcounts: Sequence[int] | None,
    op: Op,
) -> None:
    about["in_place"] = comm._in_place(sendbuf)
    about["values"] = {"recvcounts": _INFERRED if recvcounts is None else "given"}
    buf = recvbuf if about["in_place"] else sendbuf
    message = read_buffer(buf, readonly=buf is sendbuf)
    _operand(about, message, op)
    if recvcounts is not None:
        about["recv"] = [
            _size(marshalling.resized(message, int(count))) for count in recvcounts
        ]
        about["send"] = [sum(about["recv"])]


def _operand(about: _About, message: UserBuffer, op: Op) -> list[int]:
    name = op._predefined_name()
    if name is None:
        about["op"] = (
            "of its own, commutative"
            if op.Is_commutative()
            else "of its own, not commutative"
        )
    else:
        typemap = marshalling.wire_type(message)
        about["op"] = f"MPI_{name}"
        # By content, not by name: int64 and 8-octet MPI_LONG match.
        about["datatype"] = (
            str(typemap.dtype) if typemap.dtype is not None else typemap.name
        )
    return [_size(message)]


def _object_root(about: _About, comm: Comm, obj: object, root: int) -> None:
    about["root"] = root
    comm._algorithms.role(root)


def _object_op(about: _About, comm: Comm, obj: object, op: object) -> None:
    name = op._predefined_name() if isinstance(op, Op) else None
    about["op"] = "of its own" if name is None else f"MPI_{name}"


def _object_reduce(
    about: _About, comm: Comm, obj: object, op: object, root: int
) -> None:
    _object_root(about, comm, obj, root)
    _object_op(about, comm, obj, op)


def _dup(about: _About, comm: Comm, info: Info | None) -> None:
    if info is not None:
        about["function"] = "MPI_Comm_dup_with_info"
        _info(about, info)


def _split_type(
    about: _About, comm: Comm, split_type: int, key: int, info: Info
) -> None:
    _info(about, info)


def _info(about: _About, info: Info) -> None:
    if _level >= _INFO:
        about.setdefault("values", {})["info"] = dict(info.items()) if info else {}


def _create(about: _About, comm: Comm, group: Group) -> None:
    ranks = {world: rank for rank, world in enumerate(comm._live().members)}
    about["members"] = [ranks.get(world, -1) for world in group._ranks]


def _create_intercomm(
    about: _About,
    comm: Comm,
    local_leader: int,
    peer_comm: Comm,
    remote_leader: int,
    tag: int,
) -> None:
    about["values"] = {"local leader": local_leader, "tag": tag}


def _merge(about: _About, comm: Comm, high: bool) -> None:
    about["values"] = {"high": bool(high)}


def _cart(
    about: _About,
    comm: Any,
    dims: Sequence[int],
    periods: object,
    reorder: bool = False,
) -> None:
    grid = comm._cart(dims, periods)
    about["values"] = {
        "dims": list(grid.dims),
        "periods": list(grid.periods),
        "reorder": bool(reorder),
    }


def _graph(
    about: _About,
    comm: Any,
    index: Sequence[int],
    edges: Sequence[int],
    reorder: bool = False,
) -> None:
    graph = comm._graph(index, edges)
    about["values"] = {
        "index": list(graph.index),
        "edges": list(graph.edges),
        "reorder": bool(reorder),
    }


# Collectives on buffers, and their description.
_STARTED: Final[dict[Collective, _Describe]] = {
    BARRIER: _nothing,
    BCAST: _bcast,
    GATHER: _gather,
    GATHERV: partial(_gather, sizes=_sizes_by_peer),
    SCATTER: _scatter,
    SCATTERV: partial(_scatter, sizes=_sizes_by_peer),
    ALLGATHER: _allgather,
    ALLGATHERV: _allgatherv,
    ALLTOALL: _alltoall,
    ALLTOALLV: _alltoallv,
    ALLTOALLW: partial(_alltoallv, typed=True),
    REDUCE: _reduce,
    ALLREDUCE: _allreduce,
    REDUCE_SCATTER_BLOCK: _reduce_scatter_block,
    REDUCE_SCATTER: _reduce_scatter,
    SCAN: _allreduce,
    EXSCAN: _allreduce,
    NEIGHBOR_ALLGATHER: _nothing,
    NEIGHBOR_ALLGATHERV: _nothing,
    NEIGHBOR_ALLTOALL: _nothing,
    NEIGHBOR_ALLTOALLV: _nothing,
    NEIGHBOR_ALLTOALLW: _nothing,
}

# All other collectives: guarded method, name in MPI, description.
_CALLED: Final[Sequence[tuple[Any, str, _Describe]]] = (
    (ObjectCollectives.barrier, "MPI_Barrier", _nothing),
    (ObjectCollectives.bcast, "MPI_Bcast[object]", _object_root),
    (ObjectCollectives.gather, "MPI_Gather[object]", _object_root),
    (ObjectCollectives.scatter, "MPI_Scatter[object]", _object_root),
    (ObjectCollectives.allgather, "MPI_Allgather[object]", _nothing),
    (ObjectCollectives.alltoall, "MPI_Alltoall[object]", _nothing),
    (ObjectCollectives.reduce, "MPI_Reduce[object]", _object_reduce),
    (ObjectCollectives.allreduce, "MPI_Allreduce[object]", _object_op),
    (ObjectScans.scan, "MPI_Scan[object]", _object_op),
    (ObjectScans.exscan, "MPI_Exscan[object]", _object_op),
    (Neighborhood.neighbor_allgather, "MPI_Neighbor_allgather[object]", _nothing),
    (Neighborhood.neighbor_alltoall, "MPI_Neighbor_alltoall[object]", _nothing),
    (Comm.Clone, "MPI_Comm_dup", _nothing),
    (Comm.Dup, "MPI_Comm_dup", _dup),
    (Comm.Create, "MPI_Comm_create", _create),
    (Comm.Split, "MPI_Comm_split", _nothing),
    (Comm.Split_type, "MPI_Comm_split_type", _split_type),
    (Comm.Free, "MPI_Comm_free", _nothing),
    (Comm.Disconnect, "MPI_Comm_disconnect", _nothing),
    (leave, "MPI_Finalize", _nothing),
    (Intracomm.Create_intercomm, "MPI_Intercomm_create", _create_intercomm),
    (Intercomm.Merge, "MPI_Intercomm_merge", _merge),
    (Intracomm.Create_cart, "MPI_Cart_create", _cart),
    (Intracomm.Cart_map, "MPI_Cart_map", _cart),
    (Cartcomm.Sub, "MPI_Cart_sub", _nothing),
    (Intracomm.Create_graph, "MPI_Graph_create", _graph),
    (Intracomm.Graph_map, "MPI_Graph_map", _graph),
    (Intracomm.Create_dist_graph_adjacent, "MPI_Dist_graph_create_adjacent", _nothing),
    (Intracomm.Create_dist_graph, "MPI_Dist_graph_create", _nothing),
)
