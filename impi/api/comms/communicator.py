"""The object behind the handles of a communicator, and how new ones are agreed on (IMPI 4.3 to 4.9)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any

from impi.api import runtime
from impi.api.collective.algorithms import LARGEST, Algorithms, Between, Within
from impi.api.collective.blocking import BY_MESSAGES, Strategy
from impi.api.comms.attributes import Attributes
from impi.api.handles.errhandler import Errhandler, initial
from impi.api.handles.handle import State
from impi.api.handles.info import Info
from impi.api.p2p.bsend import Attached
from impi.api.p2p.request import Request, null_send
from impi.api.p2p.route_table import CLOSED, Routes
from impi.api.p2p.routes import Route
from impi.collectives import Algorithm, Fixed, Layout, inter
from impi.collectives.steps import among
from impi.collectives.tags import BCAST_TAG, GATHER_TAG, GROUP_TAG
from impi.engine.collective import CollectiveOperation, OctetCodec
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.payload import OctetSource, OctetTarget
from impi.job import REPRODUCIBLE
from impi.records import record
from impi.semantics.constants import UNDEFINED
from impi.semantics.contexts import copy_cid
from impi.semantics.errors import MPIException, error
from impi.semantics.topology import Topology

__all__ = [
    "Communicator",
    "connect",
    "connect_groups",
    "create",
    "create_group",
    "duplicate",
    "free",
    "make",
    "merge",
    "run",
    "split",
    "start_duplicate",
]

_UINT8 = struct.Struct(">Q")
_TWO_UINT8 = struct.Struct(">QQ")
_SPLIT = struct.Struct(">iii")


class Communicator(State):
    """What all handles of one communicator have in common. Without a context it is freed, or not yet made."""

    algorithms: Algorithms

    def __init__(
        self, members: Sequence[int], peers: Sequence[int] | None = None, topology: Topology | None = None
    ) -> None:
        super().__init__()
        engine = runtime.engine()
        job = engine.job
        self.context: Context | None = None
        self.destinations: dict[int, Route] = CLOSED.destinations
        """How messages go to each rank."""
        self.sources: dict[int, Route] = CLOSED.sources
        """How messages come from each rank, and from MPI_ANY_SOURCE."""
        self.strategy: Strategy = BY_MESSAGES
        """How blocking collectives are carried out."""
        rank = list(members).index(engine.rank)
        if peers is None:
            layout = Layout([job.procs[world].client for world in members])
            native = engine.vendor.world.collectives is not None
            self.algorithms = Within(layout, rank, job, native=native, external=engine.external)
        else:
            self.algorithms = Between(rank, len(members), len(peers), external=engine.external)
        self.topology = topology
        self.attributes = Attributes()
        self.errhandler: Errhandler = initial()
        self.info = Info.Create()
        self.name = ""
        self.attached = Attached()
        self.locks: dict[Hashable, Lock] = {}
        """Of mpi4py's utilities and of the collectives on objects, by name."""
        self.copies = 0
        """Non-blocking duplicates made so far."""
        self.companions: list[Communicator] = []
        """Made for mpi4py's utilities, and freed with it: a duplicate, and a communicator of the local group."""
        self.companion_tag = 0

    def close(self) -> None:
        """Nothing can be sent or received any more: it was freed, or MPI is finalized."""
        self.destinations, self.sources, self.strategy = CLOSED.destinations, CLOSED.sources, BY_MESSAGES

    @property
    def is_inter(self) -> bool:
        """Whether it has two groups."""
        return isinstance(self.algorithms, Between)

    def lock(self, key: Hashable) -> Lock:
        """One of the locks, made when it is asked for first."""
        return self.locks.setdefault(key, Lock())

    def live(self) -> Context:
        """The context; Exception ERR_COMM where there is none."""
        if self.context is None:
            raise error("ERR_COMM", "the communicator is freed, or its duplication is not complete")
        return self.context


def make(
    cid: int,
    members: Sequence[int],
    peers: Sequence[int] | None = None,
    topology: Topology | None = None,
    *,
    parent: Context | None = None,
) -> Communicator:
    """A communicator of an agreed id. Called by every member."""
    state = Communicator(members, peers, topology)
    _own(state, runtime.engine().make_context(cid, members, peers), parent)
    return state


def _own(state: Communicator, context: Context, parent: Context | None) -> None:
    """The context is that of the communicator, which was made of ``parent``."""
    engine = runtime.engine()
    state.context = context
    state.destinations = Routes(engine, context, receiving=False)
    state.sources = Routes(engine, context, receiving=True)
    state.strategy = _strategy(engine, context)
    context.owner = state
    context.when_closed = state.close
    maker = None if parent is None else parent.owner
    state.errhandler = initial(maker.errhandler if isinstance(maker, Communicator) else None)
    if isinstance(maker, Communicator):
        state.attached.beyond = maker.attached.beyond


def _strategy(engine: Engine, context: Context) -> Strategy:
    """The MPI library's own collectives where it runs all members, unless somebody has chosen other algorithms."""
    shadow, job = context.shadow, engine.job
    if shadow is None or shadow.native is None or not shadow.native.multiple or context.is_inter:
        return BY_MESSAGES
    if not 1 < len(context.members) == shadow.size or set(job.collectives) - {REPRODUCIBLE}:
        return BY_MESSAGES
    if job.verify or engine.reduce_on_p2p:
        return BY_MESSAGES
    from impi.api.collective.client_local import ClientLocal  # ranks without such communicators do not load it

    return ClientLocal(engine, context, shadow.native, runtime.progress_thread())


def run(context: Context, algorithm: Algorithm[Any], *, alone: bool = False) -> Any:
    """Run an algorithm of octets to its end, as the next collective of a communicator (or ``alone``, any time)."""
    operation = CollectiveOperation(runtime.engine(), context, algorithm, OctetCodec(), alone=alone)
    runtime.engine().wait(lambda: operation.done)
    if operation.failure is not None:
        raise operation.failure
    return operation.result


def _mine() -> bytes:
    """What this proc offers for the id of a new communicator (IMPI 4.3.1)."""
    return _UINT8.pack(runtime.contexts().contribution())


def _take(maximum: bytes | bytearray) -> int:
    return runtime.contexts().take(_UINT8.unpack(maximum)[0])


def _agree_all(state: Communicator) -> int:
    return _take(run(state.live(), state.algorithms.maximum(_mine())))


def duplicate(state: Communicator) -> Communicator:
    """The same groups and topology (IMPI 4.6)."""
    context = state.live()
    peers = context.peers if state.is_inter else None
    return make(_agree_all(state), context.members, peers, state.topology, parent=context)


def free(state: Communicator) -> None:
    """Give it back (IMPI 4.5)."""
    context = state.live()
    try:
        run(context, state.algorithms.free())
    except MPIException as failure:
        if not failure.told:
            raise
        context.shadow = None  # others may not come to free it, and the vendor may wait for them
    runtime.engine().close(context)
    state.context = None


def start_duplicate(state: Communicator) -> tuple[Communicator, Request]:
    """As :func:`duplicate`; the new one has a context once the request is complete.

    Only where no id can be made without asking (:func:`impi.semantics.contexts.copy_cid`) it waits for the others.
    """
    context = state.live()
    cid = copy_cid(context.cid, state.copies)
    if cid is None:
        return duplicate(state), null_send()
    state.copies += 1
    copy = Communicator(context.members, context.peers if state.is_inter else None, state.topology)

    def finish(made: Context) -> None:
        _own(copy, made, context)

    return copy, Request._of(runtime.engine().start_copy(context, cid, finish))


def create(state: Communicator, ranks: Sequence[int]) -> Communicator | None:
    """One of the procs ``ranks`` of the own group (by their rank in MPI_COMM_WORLD), None for the rest (IMPI 4.4).

    Between two groups each gives its own part; without procs in both there is none.
    """
    context, do = state.live(), state.algorithms
    cid = _agree_all(state)
    peers: Sequence[int] | None = None
    if isinstance(do, Between):
        mine = struct.pack(f">{len(ranks)}i", *ranks)
        peers = _ints(run(context, inter.announce(do.rank, do.peers, mine, BCAST_TAG)))
    if runtime.engine().rank not in ranks or (peers is not None and not peers):
        return None
    return make(cid, ranks, peers, parent=context)


def split(state: Communicator, color: int, key: int) -> Communicator | None:
    """One for each color, ordered by key, then rank; None for UNDEFINED, and without a remote group (IMPI 4.7)."""
    context, do = state.live(), state.algorithms
    cid = _agree_all(state)
    mine = _SPLIT.pack(color, key, do.rank)
    peers: list[int] | None = None
    if isinstance(do, Between):
        theirs = run(context, inter.exchange(do.peers, [mine] * do.peers, GATHER_TAG))
        # Only the other group has all rows of ours: its rank 0 tells.
        rows = _rows(run(context, inter.announce(do.rank, do.peers, b"".join(theirs), BCAST_TAG)))
        peers = _chosen(_rows(b"".join(theirs)), color, context.peers)
    else:
        rows = _rows(b"".join(run(context, do.allgather(mine, Fixed(_SPLIT.size), _SPLIT.size))))
    if color == UNDEFINED or (peers is not None and not peers):
        return None
    return make(cid, _chosen(rows, color, context.members), peers, parent=context)


def merge(state: Communicator, high: bool) -> Communicator:
    """Both groups as one; that of ``high`` comes second (IMPI 4.9)."""
    context, do = state.live(), state.algorithms
    if not isinstance(do, Between):
        raise error("ERR_COMM", "only an intercommunicator can be merged")
    contexts = runtime.contexts()
    largest, their_high = run(context, inter.merge(do.rank, do.peers, contexts.contribution(), high))
    cid = contexts.take(largest)
    # Where both say the same, the group whose first proc is lower in MPI_COMM_WORLD comes first.
    second = high if high != their_high else context.members[0] > context.peers[0]
    return make(
        cid, [*context.peers, *context.members] if second else [*context.members, *context.peers], parent=context
    )


def create_group(parent: Context, ranks: Sequence[int]) -> Communicator | None:
    """One of the procs ``ranks`` (by their rank in MPI_COMM_WORLD), who alone call it; None for anybody else."""
    part = _Part.of(parent, ranks)
    return None if part is None else make(_take(part.run(part.within.maximum(_mine()))), ranks, parent=parent)


def connect(local: Communicator, leader: int, peer: Communicator | None, remote_leader: int, tag: int) -> Communicator:
    """One with two groups: that of ``local``, and the one of the leader that ``peer`` knows (IMPI 4.8).

    ``peer`` and ``remote_leader`` are looked at at the local leader only; they talk point to point with ``tag``.
    """
    do = local.algorithms
    if not isinstance(do, Within):
        raise error("ERR_COMM", "an intercommunicator is made of intracommunicators")
    context = local.live()

    def talk(octets: bytes) -> bytes:
        if peer is None:
            raise error("ERR_COMM", "the leader needs a peer communicator")
        return _talk(peer.live(), remote_leader, tag, octets, collective=False)

    return _connect(context, do, context.members, leader, lambda algorithm: run(context, algorithm), talk)


def connect_groups(
    parent: Context, local: Sequence[int], leader: int, remote: Sequence[int], remote_leader: int
) -> Communicator | None:
    """As :func:`connect`, of two groups of ``parent`` (by their ranks in MPI_COMM_WORLD), who alone call it."""
    part = _Part.of(parent, local)
    if part is None:
        return None
    other = parent.rank_of[remote[remote_leader]]

    def talk(octets: bytes) -> bytes:
        return _talk(parent, other, GROUP_TAG, octets, collective=True)

    return _connect(parent, part.within, local, leader, part.run, talk)


@record
class _Part:
    """Some procs of a communicator, who act without the others."""

    parent: Context
    within: Within
    ranks: Sequence[int]

    @classmethod
    def of(cls, parent: Context, worlds: Sequence[int]) -> _Part | None:
        engine = runtime.engine()
        strangers = [world for world in worlds if world not in parent.rank_of]
        if strangers:
            raise error("ERR_GROUP", f"rank {strangers[0]} of MPI_COMM_WORLD is in the group, not in the communicator")
        if engine.rank not in worlds:
            return None
        layout = Layout([engine.job.procs[world].client for world in worlds])
        within = Within(layout, list(worlds).index(engine.rank), engine.job)
        return cls(parent, within, [parent.rank_of[world] for world in worlds])

    def run(self, algorithm: Algorithm[Any]) -> Any:
        return run(self.parent, among(algorithm, self.ranks, GROUP_TAG), alone=True)


def _connect(
    parent: Context,
    within: Within,
    members: Sequence[int],
    leader: int,
    run_local: Callable[[Algorithm[Any]], Any],
    talk: Callable[[bytes], bytes],
) -> Communicator:
    is_leader = within.role(leader).is_root
    largest = run_local(within.reduce(leader, _mine(), LARGEST))
    known: bytes | None = None
    if is_leader:
        # The original's text sends this as two MPI_INT, which it cannot mean: the first is a context id of 8 octets.
        maximum, their_size = _TWO_UINT8.unpack(talk(bytes(largest) + _UINT8.pack(len(members))))
        known = _TWO_UINT8.pack(max(maximum, _UINT8.unpack(largest)[0]), their_size)
    known = bytes(run_local(within.bcast(leader, known)))
    cid = _take(known[: _UINT8.size])
    ranks = talk(struct.pack(f">{len(members)}i", *members)) if is_leader else None
    peers = _ints(run_local(within.bcast(leader, ranks)))
    if len(peers) != _UINT8.unpack(known[_UINT8.size :])[0] or set(peers) & set(members):
        raise error("ERR_GROUP", f"the remote group {peers} is not as announced, or overlaps the local group")
    return make(cid, members, peers, parent=parent)


def _talk(context: Context, other: int, tag: int, octets: bytes, *, collective: bool) -> bytes:
    """Send octets and receive some from the same rank."""
    engine = runtime.engine()
    target = OctetTarget()
    receiving = engine.receive(context, other, tag, target, collective=collective)
    sending = engine.send(context, other, tag, OctetSource(octets), collective=collective)
    engine.wait(lambda: receiving.done and sending.done)
    return bytes(target.data)


def _ints(octets: bytes | bytearray) -> tuple[int, ...]:
    return struct.unpack(f">{len(octets) // 4}i", octets)


def _rows(octets: bytes) -> list[tuple[int, int, int]]:
    return list(_SPLIT.iter_unpack(octets))


def _chosen(rows: Sequence[tuple[int, int, int]], color: int, worlds: Sequence[int]) -> list[int]:
    return [worlds[rank] for _, rank in sorted((key, rank) for c, key, rank in rows if c == color)]
