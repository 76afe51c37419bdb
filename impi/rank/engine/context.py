"""The engine's side of one communicator: its members, and what waits to be matched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from impi.protocol.semantics.constants import ANY_SOURCE
from impi.protocol.semantics.matching import Matcher
from impi.rank.vendors.base import LocalComm

if TYPE_CHECKING:
    from impi.protocol.semantics.errors import MPIException
    from impi.rank.engine.channels.channels import ShortSender
    from impi.rank.engine.channels.payload import Target
    from impi.rank.engine.faults import Faults
    from impi.rank.engine.operations import Operation, ReceiveOperation, TakenMessage


class Shadow:
    """What the client's library has of a communicator.

    Args:
        comm: None for no communicator there.
        peers: rank there to rank in :attr:`Context.peers`; -1 for none.
    """

    def __init__(self, comm: LocalComm | None, peers: Sequence[int]) -> None:
        self.comm = comm
        self.peers = tuple(peers)
        self.rank_of = {rank: local for local, rank in enumerate(peers) if rank >= 0}
        """Rank in :attr:`Context.peers` to rank there, for procs of our own client."""
        self.external = False
        """Whether messages through it are external32, too: in an LCO only."""


class ApiSide:
    """The communicator as the program has it, and what it is told."""

    def __init__(self) -> None:
        self.owner: object = None
        """The communicator of the api, whose error handler is called."""
        self.freed = False
        """Whether the program has freed it, although it may not be closed yet."""
        self.revoked: MPIException | None = None
        """What every call on it raises, once the communicator is revoked."""
        self.when_revoked: Callable[[], None] | None = None
        """Called once, when the communicator is revoked."""
        self.when_closed: Callable[[], None] | None = None
        """Called once, when the communicator is freed or MPI is finalized."""

    def end(self) -> None:
        """Call :attr:`when_closed`, once."""
        if self.when_closed is not None:
            self.when_closed()
            self.when_closed = None


class UnderWay:
    """What is under way in a communicator, and has to be driven."""

    def __init__(self) -> None:
        self.collectives: deque[Operation] = deque()
        """The first one runs."""
        self.waiting = 0
        """Receives, probes and collectives that need local messages; > 0: drain the shadow."""
        self.waiters: dict[int, Context] = {}
        """The engine's contexts that wait, by id: few of the open ones; a closed one is alone."""


class Context:
    """One communicator: two context ids on the wire (IMPI 4.3), one shadow at the vendor.

    ``members`` are the world ranks of the local group. ``peers`` are the world ranks of
    destinations and sources: ``members``, or the remote group of an intercommunicator.
    """

    def __init__(
        self,
        cid: int,
        members: Sequence[int],
        rank: int,
        shadow: LocalComm | None,
        shadow_ranks: Sequence[int],
        *,
        peers: Sequence[int] | None = None,
    ) -> None:
        self.cid = cid
        self.members = tuple(members)
        self.rank = rank
        self.peers = self.members if peers is None else tuple(peers)
        self.npeers = self.nsources = len(self.peers)
        """Destinations of sends and sources of receives: equal, except in an LCO."""
        self.is_inter = peers is not None
        self.rank_of = {world: rank for rank, world in enumerate(self.peers)}
        """World rank to rank in :attr:`peers`."""
        self.shadow = Shadow(shadow, [self.rank_of.get(world, -1) for world in shadow_ranks])
        self.matchers: tuple[Matcher[ReceiveOperation, TakenMessage], Matcher[ReceiveOperation, TakenMessage]] = (
            Matcher(),
            Matcher(),
        )
        """Matchers of point-to-point and of collective messages."""
        self.takers: dict[int, Callable[[int], Target]] = {}
        """What takes each collective message of a tag, by its source, unasked."""
        self.under_way = UnderWay()
        self.short_senders: tuple[dict[int, ShortSender], dict[int, ShortSender]] = ({}, {})
        """Point-to-point and collective, by rank in :attr:`peers` (:meth:`Engine.short_sender`)."""
        self.api = ApiSide()

    def sender_of(self, source: int) -> int | None:
        """Return the world rank of a source if that is of another client, and alone is it."""
        return None if source == ANY_SOURCE or source in self.shadow.rank_of else self.peers[source]

    def count_waiting(self, more: int) -> None:
        """Count ``more`` (1 or -1) operations in :attr:`UnderWay.waiting`."""
        under_way = self.under_way
        under_way.waiting += more
        if under_way.waiting:
            under_way.waiters[self.cid] = self
        else:
            under_way.waiters.pop(self.cid, None)

    def leave(self) -> None:
        """Wait no more for the engine: the communicator is freed."""
        self.under_way.waiters.pop(self.cid, None)
        self.under_way.waiters = {}

    faults: Faults
    """Faults of this communicator's collectives."""
