"""The engine's side of one communicator: its members, and what waits to be matched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from impi.semantics.constants import ANY_SOURCE
from impi.semantics.matching import Matcher
from impi.vendors.base import LocalComm

if TYPE_CHECKING:
    from impi.engine.collective import CollectiveOperation
    from impi.engine.faults import Faults
    from impi.engine.operations import Message, ReceiveOperation
    from impi.engine.payload import Target
    from impi.semantics.errors import MPIException


ShortSend: TypeAlias = Callable[[int, memoryview, int], bool]
"""``send(tag, octets, count) -> bool``: a short message; False: no credit, a queue, too long."""


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
        self.shadow = shadow
        self.rank_of = {world: rank for rank, world in enumerate(self.peers)}
        """World rank to rank in :attr:`peers`."""
        self.local_ranks = tuple(self.rank_of.get(world, -1) for world in shadow_ranks)
        """Rank in the shadow to rank in :attr:`peers`."""
        self.shadow_of = {rank: local for local, rank in enumerate(self.local_ranks) if rank >= 0}
        """Rank in :attr:`peers` to rank in the shadow, for procs of our own client."""
        self.matchers: tuple[Matcher[ReceiveOperation, Message], Matcher[ReceiveOperation, Message]] = (
            Matcher(),
            Matcher(),
        )
        """Matchers of point-to-point and of collective messages."""
        self.takers: dict[int, Callable[[int], Target]] = {}
        """What takes each collective message of a tag, by its source, unasked."""
        self.external = False
        """Whether messages through the shadow are external32, too: in an LCO only."""
        self.collectives: deque[CollectiveOperation] = deque()
        """Collectives under way; the first one runs."""
        self.waiting = 0
        """Receives, probes and collectives that need local messages; > 0: drain the shadow."""
        self.waiters: dict[int, Context] = {}
        """The engine's contexts that wait, by id: few of the open ones; a closed one is alone."""
        self.short_senders: tuple[dict[int, ShortSend], dict[int, ShortSend]] = ({}, {})
        """Point-to-point and collective, by rank in :attr:`peers` (:meth:`Engine.short_sender`)."""
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

    def sender_of(self, source: int) -> int | None:
        """Return the world rank of a source if that is of another client, and alone is it."""
        return None if source == ANY_SOURCE or source in self.shadow_of else self.peers[source]

    def count_waiting(self, more: int) -> None:
        """Count ``more`` (1 or -1) operations in :attr:`waiting`."""
        self.waiting += more
        if self.waiting:
            self.waiters[self.cid] = self
        else:
            self.waiters.pop(self.cid, None)

    def end(self) -> None:
        """Call :attr:`when_closed`, once."""
        if self.when_closed is not None:
            self.when_closed()
            self.when_closed = None

    def leave(self) -> None:
        """Wait no more for the engine: the communicator is freed."""
        self.waiters.pop(self.cid, None)
        self.waiters = {}

    faults: Faults
    """Faults of this communicator's collectives."""
