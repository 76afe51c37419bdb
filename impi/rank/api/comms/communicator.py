"""The object behind the handles of a communicator, and the creation of new ones (IMPI 4.3-4.9).

:class:`Communicator` holds the state that :class:`impi.rank.api.comms.comm.Comm` and its subclasses
use: the engine's :class:`Context`, the algorithms, the routes of messages, and the strategy of
blocking collectives. The functions create and free communicators; Comm, Intracomm and Intercomm
call them.

How a creation works: each proc offers an id above all that it uses; the maximum is the new id (IMPI
4.3.1). Each member of the new communicator calls :func:`make`: a context in the engine, with the
vendor's shadow for the procs of each client. Duplicates by :func:`start_duplicate` compute the id
without messages.

Invariants: all members of the parent take part in the agreement, also those outside the result;
``create_group`` and ``connect_groups`` agree among their callers only (:class:`_Part`). Routes and
strategy exist exactly while a context does; a freed communicator has the closed ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from typing import Any, Self

from impi.base.records import record
from impi.protocol.collectives import Algorithm, Fixed, Layout
from impi.protocol.collectives.beyond import inter
from impi.protocol.collectives.steps import among
from impi.protocol.collectives.tags import BCAST_TAG, GATHER_TAG, GROUP_TAG, GROUP_TAGS
from impi.protocol.job import REPRODUCIBLE
from impi.protocol.semantics.constants import UNDEFINED
from impi.protocol.semantics.contexts import Asking, copy_cid
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.topology import Topology
from impi.rank.api import runtime
from impi.rank.api.collective.algorithms import LARGEST, Algorithms, Between, Within
from impi.rank.api.collective.blocking import BY_MESSAGES
from impi.rank.api.collective.operation_table import Strategy
from impi.rank.api.handles import Errhandler, Info, State, initial
from impi.rank.api.p2p.bsend import Attached
from impi.rank.api.p2p.request import Request
from impi.rank.api.p2p.route_table import CLOSED, Revoked, Routes
from impi.rank.api.p2p.routes import Route
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.collective import Closing, CollectiveOperation, OctetCodec
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine

_UINT8 = struct.Struct(">Q")
_TWO_UINT8 = struct.Struct(">QQ")
_SPLIT = struct.Struct(">iii")


class Companions:
    """The communicators of mpi4py's utilities that belong to another one, and are freed with it."""

    def __init__(self) -> None:
        # A duplicate, and between two groups a communicator of the own one
        self.made: list[Communicator] = []
        self.next_tag = 0


class Communicator(State):
    """The shared state of all handles of a communicator; without a context it is not usable."""

    algorithms: Algorithms  # from populate() on
    special = ""  # name of its class of handles; empty: the topology decides

    def __init__(self, topology: Topology | None = None) -> None:
        super().__init__()
        self.is_inter = False  # whether there is a remote group
        self.context: Context | None = None
        # Routes of messages to each rank
        self.destinations: dict[int, Route] = CLOSED.destinations
        # Routes of messages from each rank and from MPI_ANY_SOURCE
        self.sources: dict[int, Route] = CLOSED.sources
        self.strategy: Strategy = BY_MESSAGES  # implementation of blocking collectives
        self.topology = topology
        self.attributes: dict[int, object] = {}
        self.errhandler: Errhandler = initial()
        self.info = Info.Create()
        self.name = ""
        self.attached = Attached()
        # Locks of mpi4py's utilities and of object collectives, by name
        self.locks: dict[Hashable, Lock] = {}
        self.copies = 0  # number of non-blocking duplicates
        self.companions = Companions()

    def populate(self, members: Sequence[int], peers: Sequence[int] | None) -> Self:
        """Set the group, and the remote group if there is one; return the communicator."""

        engine = runtime.engine()
        job = engine.job

        rank = list(members).index(engine.rank)
        if peers is None:
            layout = Layout([job.procs[world].client for world in members])
            # Local phases need the library's non-blocking collectives (impi.rank.engine.local).
            native = engine.vendor.world.collectives is not None
            self.algorithms = Within(
                layout, rank, job, native=native, external=engine.external
            )
        else:
            self.is_inter = True
            self.algorithms = Between(
                rank, len(members), len(peers), external=engine.external
            )

        return self

    def close(self) -> None:
        """Refuse all messages from now on: freed, or MPI is finalized."""
        self.destinations, self.sources, self.strategy = (
            CLOSED.destinations,
            CLOSED.sources,
            BY_MESSAGES,
        )

    def revoke(self) -> None:
        """Refuse all messages and collectives from now on: it was revoked."""
        if self.context is not None and self.context.api.revoked is not None:
            self.destinations = self.sources = Revoked(self.context.api.revoked)
            self.strategy = BY_MESSAGES

    def hint(self, info: Info) -> None:
        self.info.update(info)

    def lock(self, key: Hashable) -> Lock:
        return self.locks.setdefault(key, Lock())

    def live(self) -> Context:
        """Return the context; Exception ERR_COMM: there is none."""
        if self.context is None:
            raise error(
                "ERR_COMM",
                "the communicator is freed, or its duplication is not complete",
            )

        return self.context


def make(
    cid: int,
    members: Sequence[int],
    peers: Sequence[int] | None = None,
    topology: Topology | None = None,
    *,
    parent: Context | None = None,
    made: Communicator | None = None,
) -> Communicator:
    """Make a communicator of an agreed id; called by every member. ``made``: complete that one."""

    state = (made or Communicator(topology)).populate(members, peers)
    engine, around = runtime.engine(), None

    native = engine.vendor.world.native
    # The library's creation blocks until all members are there. The progress thread serves this
    # proc meanwhile, where the library allows a second thread.
    if parent is not None and native is not None and native.multiple:
        around = partial(runtime.progress_thread().around, parent)

    _give_context(state, engine.make_context(cid, members, peers, around), parent)

    return state


def _give_context(
    state: Communicator, context: Context, parent: Context | None
) -> None:
    """Give a communicator its context; ``parent``: of the communicator it was made from."""

    engine = runtime.engine()
    state.context = context
    state.destinations = Routes(engine, context, receiving=False)
    state.sources = Routes(engine, context, receiving=True)
    state.strategy = _strategy(engine, context)
    context.api.owner = state
    context.api.when_closed = state.close
    context.api.when_revoked = state.revoke
    state.revoke()  # others may have revoked it already
    maker = None if parent is None else parent.api.owner

    state.errhandler = initial(
        maker.errhandler if isinstance(maker, Communicator) else None
    )
    if isinstance(maker, Communicator):
        state.attached.beyond = maker.attached.beyond


def _strategy(engine: Engine, context: Context) -> Strategy:
    """Return the library's collectives if it runs all members and no other algorithm is chosen."""

    # The library's collectives know nothing of verification, of other readings of chapter 4, of
    # quirks or of lost procs: each of these needs messages.
    shadow, job = context.shadow.comm, engine.job
    if (
        shadow is None
        or shadow.native is None
        or not shadow.native.multiple
        or context.is_inter
    ):
        return BY_MESSAGES

    # All members must be in the library's communicator, so of one client. A proc alone needs no
    # library.
    if not 1 < len(context.members) == shadow.size or set(job.collectives) - {
        REPRODUCIBLE
    }:
        return BY_MESSAGES

    if job.verify or engine.reduce_on_p2p or job.is_resilient:
        return BY_MESSAGES

    # Other ranks need not load it
    from impi.rank.api.collective.client_local import ClientLocal

    return ClientLocal(engine, context, shadow.native, runtime.progress_thread())


def run(context: Context, algorithm: Algorithm[Any], *, alone: bool = False) -> Any:
    """Run an algorithm to its end: as the communicator's next collective, or ``alone`` at once."""

    operation = CollectiveOperation(
        runtime.engine(), context, algorithm, OctetCodec(), alone=alone
    )

    runtime.engine().turns.wait(lambda: operation.done)
    if operation.failure is not None:
        raise operation.failure

    return operation.result


def _number(octets: bytes | bytearray) -> int:
    number: int = _UINT8.unpack(octets)[0]
    return number


def _agree_all(state: Communicator) -> int:
    """Return a new context id, agreed on by all procs (IMPI 4.3.1)."""
    # While this creation has the offer of the proc, others of its threads offer random numbers: two
    # equal ids would mix two communicators (docs/decisions/threads.md).
    with Asking(runtime.contexts()) as asking:
        largest = run(
            state.live(), state.algorithms.maximum(_UINT8.pack(asking.offer()))
        )
        return asking.take(_number(largest))


def duplicate(state: Communicator) -> Communicator:
    """Duplicate groups and topology (IMPI 4.6)."""
    context = state.live()
    peers = context.peers if state.is_inter else None

    return make(
        _agree_all(state), context.members, peers, state.topology, parent=context
    )


def free(state: Communicator) -> Closing:
    """Start to free a communicator (IMPI 4.5); the result is done when all procs free it.

    The program goes on meanwhile. With MPICH and Open MPI no proc waits, so programs free
    communicators in different orders, and with messages under way.
    """

    # IMPI 4.5 frees with a barrier. It runs on as an operation of the engine; the handle is dead
    # at once.
    engine, context = runtime.engine(), state.live()
    barrier = CollectiveOperation(
        engine, context, state.algorithms.free(), OctetCodec()
    )
    state.close()
    state.context = None
    context.api.freed = True

    return Closing(engine, context, barrier)


def start_duplicate(state: Communicator) -> tuple[Communicator, Request]:
    """Start a :func:`duplicate`; it has a context once the request is complete."""

    # Not by the maximum of 4.3.1: several duplicates may be under way at once (copy_cid).
    context = state.live()
    cid = copy_cid(context.cid, state.copies)
    state.copies += 1
    copy = Communicator(state.topology).populate(
        context.members, context.peers if state.is_inter else None
    )

    def finish(made: Context) -> None:
        _give_context(copy, made, context)

    return copy, Request._of(runtime.engine().start_copy(context, cid, finish))


def create(state: Communicator, ranks: Sequence[int]) -> Communicator | None:
    """Create a communicator of ``ranks`` (world ranks); None for other procs (IMPI 4.4).

    Between two groups each passes its own part; None if either part is empty.
    """

    context, do = state.live(), state.algorithms
    cid = _agree_all(state)

    peers: Sequence[int] | None = None
    if isinstance(do, Between):
        # A proc of another job has another rank there (impi.rank.engine.other_jobs): tell places.
        away = runtime.engine().other_jobs.has_members(context)
        told = [context.members.index(world) for world in ranks] if away else ranks
        mine = struct.pack(f">{len(ranks)}i", *told)
        peers = _ints(run(context, inter.announce(do.rank, do.peers, mine, BCAST_TAG)))
        peers = [context.peers[place] for place in peers] if away else peers

    # Procs outside of the group have taken part in the agreement, which raises their maximum, and
    # are done (4.4).
    if runtime.engine().rank not in ranks or (peers is not None and not peers):
        return None

    return make(cid, ranks, peers, parent=context)


def split(state: Communicator, color: int, key: int) -> Communicator | None:
    """Create one for each color; None for UNDEFINED or an empty remote group (IMPI 4.7)."""

    context, do = state.live(), state.algorithms
    cid = _agree_all(state)
    mine = _SPLIT.pack(color, key, do.rank)

    peers: list[int] | None = None
    if isinstance(do, Between):
        theirs = run(context, inter.exchange(do.peers, [mine] * do.peers, GATHER_TAG))
        # Only the other group has all rows of ours: its rank 0 sends them.
        rows = _rows(
            run(context, inter.announce(do.rank, do.peers, b"".join(theirs), BCAST_TAG))
        )
        peers = _chosen(_rows(b"".join(theirs)), color, context.peers)
    else:
        # 4.7 sends from inside its receive buffer, an alias that MPI forbids; the octets are equal.
        rows = _rows(
            b"".join(run(context, do.allgather(mine, Fixed(_SPLIT.size), _SPLIT.size)))
        )

    # The id is used up for these procs, too: all of the parent have agreed on it.
    if color == UNDEFINED or (peers is not None and not peers):
        return None

    return make(cid, _chosen(rows, color, context.members), peers, parent=context)


def merge(state: Communicator, high: bool) -> Communicator:
    """Merge both groups; the group with ``high`` comes second (IMPI 4.9)."""

    context, do = state.live(), state.algorithms
    if not isinstance(do, Between):
        raise error("ERR_COMM", "only an intercommunicator can be merged")

    with Asking(runtime.contexts()) as asking:
        largest, their_high = run(
            context, inter.merge(do.rank, do.peers, asking.offer(), high)
        )
        cid = asking.take(largest)

    # Equal flags: the group with the lower first world rank comes first.
    second = (
        high
        if high != their_high
        else _order(context, context.members) > _order(context, context.peers)
    )

    return make(
        cid,
        [*context.peers, *context.members]
        if second
        else [*context.members, *context.peers],
        parent=context,
    )


def _order(context: Context, group: Sequence[int]) -> tuple[bytes, int]:
    """Return a key that orders two groups alike on all procs: the first rank, or its name.

    A proc of another job has another rank in each proc's numbering, but one name (IMPI 3.2).
    """

    engine = runtime.engine()
    if not engine.other_jobs.has_members(context):
        return b"", group[0]

    first = engine.job.procs[group[0]]

    return first.ipv6, first.pid


def create_group(
    parent: Context, ranks: Sequence[int], tag: int
) -> Communicator | None:
    """Create a communicator of ``ranks`` (world ranks), the only callers; None for others."""

    part = _Part.of(parent, ranks, tag)
    if part is None:
        return None

    with Asking(runtime.contexts()) as asking:
        largest = part.run(part.within.maximum(_UINT8.pack(asking.offer())))
        cid = asking.take(_number(largest))

    return make(cid, ranks, parent=parent)


def connect(
    local: Communicator,
    leader: int,
    peer: Communicator | None,
    remote_leader: int,
    tag: int,
) -> Communicator:
    """Connect the group of ``local`` with that of a leader known to ``peer`` (IMPI 4.8).

    Only the local leader uses ``peer`` and ``remote_leader``: point-to-point with ``tag``.
    """

    do = local.algorithms
    if not isinstance(do, Within):
        raise error("ERR_COMM", "an intercommunicator is made of intracommunicators")

    context = local.live()
    if runtime.engine().other_jobs.has_members(context):
        raise error(
            "ERR_COMM",
            "Create_intercomm takes procs of one job; Split and Merge take those of others, too",
        )

    def talk(octets: bytes) -> bytes:
        if peer is None:
            raise error("ERR_COMM", "the leader needs a peer communicator")

        return _talk(peer.live(), remote_leader, tag, octets, collective=False)

    return _connect(
        context,
        do,
        context.members,
        leader,
        lambda algorithm: run(context, algorithm),
        talk,
    )


def connect_groups(
    parent: Context,
    local: Sequence[int],
    leader: int,
    remote: Sequence[int],
    remote_leader: int,
    tag: int,
) -> Communicator | None:
    """Connect two groups of ``parent`` (world ranks), whose members alone call it."""

    part = _Part.of(parent, local, tag)
    if part is None:
        return None

    other = parent.rank_of[remote[remote_leader]]

    def talk(octets: bytes) -> bytes:
        return _talk(parent, other, part.tag, octets, collective=True)

    return _connect(parent, part.within, local, leader, part.run, talk)


@record
class _Part:
    """A part of a communicator's procs, which act without the others."""

    parent: Context
    within: Within
    ranks: Sequence[int]
    tag: int  # of their messages

    @classmethod
    def of(cls, parent: Context, worlds: Sequence[int], tag: int) -> _Part | None:
        engine = runtime.engine()

        strangers = [world for world in worlds if world not in parent.rank_of]
        if strangers:
            raise error(
                "ERR_GROUP",
                f"rank {strangers[0]} of MPI_COMM_WORLD is in the group, not in the communicator",
            )

        if engine.rank not in worlds:
            return None

        layout = Layout([engine.job.procs[world].client for world in worlds])
        within = Within(layout, list(worlds).index(engine.rank), engine.job)

        # The tag keeps creations of overlapping groups apart, which several threads may make at
        # once (docs/decisions/threads.md).
        return cls(
            parent,
            within,
            [parent.rank_of[world] for world in worlds],
            GROUP_TAG + tag % GROUP_TAGS,
        )

    def run(self, algorithm: Algorithm[Any]) -> Any:
        return run(self.parent, among(algorithm, self.ranks, self.tag), alone=True)


def _connect(
    parent: Context,
    within: Within,
    members: Sequence[int],
    leader: int,
    run_local: Callable[[Algorithm[Any]], Any],
    talk: Callable[[bytes], bytes],
) -> Communicator:
    # IMPI 4.8, step by step: the local maximum at the leader, the leaders exchange, the result goes
    # to all; then the ranks of both groups go the same way.
    is_leader = within.role(leader).is_root
    with Asking(runtime.contexts()) as asking:
        largest = run_local(within.reduce(leader, _UINT8.pack(asking.offer()), LARGEST))

        known: bytes | None = None
        if is_leader:
            # The specification says two MPI_INT, but the first is a context id of 8 octets.
            maximum, their_size = _TWO_UINT8.unpack(
                talk(bytes(largest) + _UINT8.pack(len(members)))
            )
            known = _TWO_UINT8.pack(max(maximum, _number(largest)), their_size)

        maximum, their_size = _TWO_UINT8.unpack(
            bytes(run_local(within.bcast(leader, known)))
        )
        cid = asking.take(maximum)

    ranks = talk(struct.pack(f">{len(members)}i", *members)) if is_leader else None

    peers = _ints(run_local(within.bcast(leader, ranks)))
    if len(peers) != their_size or set(peers) & set(members):
        raise error(
            "ERR_GROUP",
            f"the remote group {peers} is not as announced, or overlaps the local group",
        )

    return make(cid, members, peers, parent=parent)


def _talk(
    context: Context, other: int, tag: int, octets: bytes, *, collective: bool
) -> bytes:
    engine = runtime.engine()
    target = OctetTarget()
    receiving = engine.receive(context, other, tag, target, collective=collective)
    sending = engine.send(
        context, other, tag, OctetSource(octets), collective=collective
    )

    engine.turns.wait(lambda: receiving.done and sending.done)
    for failure in (receiving.failure, sending.failure):
        if failure is not None:
            raise failure

    return bytes(target.data)


def _ints(octets: bytes | bytearray) -> tuple[int, ...]:
    return struct.unpack(f">{len(octets) // 4}i", octets)


def _rows(octets: bytes) -> list[tuple[int, int, int]]:
    return list(_SPLIT.iter_unpack(octets))


def _chosen(
    rows: Sequence[tuple[int, int, int]], color: int, worlds: Sequence[int]
) -> list[int]:
    return [
        worlds[rank]
        for _, rank in sorted((key, rank) for c, key, rank in rows if c == color)
    ]
