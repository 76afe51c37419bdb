"""The engine's side of one communicator: its members, and the matchers of its messages.

How it works: a context has an even id for point-to-point and the next odd one for collectives (IMPI
4.3), each with a matcher of its own, so collectives never meet the program's tags. ``members`` and
``peers`` are ranks in MPI_COMM_WORLD; everything of the api is in ranks of the communicator, and
``rank_of`` translates. Behind it is the *shadow*, the library's own communicator of the members
that belong to our client.
"""

from __future__ import annotations

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
    """The communicator of the client's library behind one of ours.

    Args:
        comm: the library's communicator; None: there is none.
        peers: rank in :attr:`Context.peers` of each rank there; -1: it is not a peer.
    """

    def __init__(self, comm: LocalComm | None, peers: Sequence[int]) -> None:
        self.comm = comm
        self.peers = tuple(peers)
        self.rank_of = {rank: local for local, rank in enumerate(peers) if rank >= 0}
        """Rank there of each rank in :attr:`Context.peers` that belongs to our own client."""
        self.external = False
        """Whether messages through it are external32, too: only of an LCO, whose shadow sends to
        other clients."""


class ApiSide:
    """The side of the program: its communicator, and calls that tell it of the end."""

    def __init__(self) -> None:
        self.owner: object = None
        """The communicator of the api, whose error handler is called."""
        self.freed = False
        """Whether the program has freed it, although it may not be closed yet."""
        self.revoked: MPIException | None = None
        """The exception of every call on it, once the communicator is revoked."""
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
    """Operations under way in a communicator, which the engine has to drive."""

    def __init__(self) -> None:
        # A list, as few are under way at once: an empty deque takes 760 octets in each endpoint.
        self.collectives: list[Operation] = []
        """Collectives in the order of their start; only the first one runs."""
        self.waiting = 0
        """Receives, probes and collectives that need local messages; > 0: drain the shadow."""
        self.waiters: dict[int, Context] = {}
        """The engine's table of contexts with ``waiting`` above 0, by id; of a closed context an
        empty one."""


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
        """Numbers of destinations of sends and of sources of receives: equal, except in an LCO."""
        self.is_inter = peers is not None
        self.rank_of = {world: rank for rank, world in enumerate(self.peers)}
        """Rank in :attr:`peers` of each world rank."""
        self.shadow = Shadow(
            shadow, [self.rank_of.get(world, -1) for world in shadow_ranks]
        )
        self.matchers: tuple[
            Matcher[ReceiveOperation, TakenMessage],
            Matcher[ReceiveOperation, TakenMessage],
        ] = (
            Matcher(),
            Matcher(),
        )
        """Matchers of point-to-point and of collective messages."""
        self.takers: dict[int, Callable[[int], Target]] = {}
        """For tags of notices: makes the target of each collective message, from its source."""
        self.under_way = UnderWay()
        self.short_senders: tuple[dict[int, ShortSender], dict[int, ShortSender]] = (
            {},
            {},
        )
        """Point-to-point and collective, by rank in :attr:`peers` (:meth:`Engine.short_sender`)."""
        self.api = ApiSide()

    def sender_of(self, source: int) -> int | None:
        """Return the world rank of a source of another client; None: local, or MPI_ANY_SOURCE."""
        return (
            None
            if source == ANY_SOURCE or source in self.shadow.rank_of
            else self.peers[source]
        )

    def count_waiting(self, more: int) -> None:
        """Count ``more`` (1 or -1) operations in :attr:`UnderWay.waiting`."""
        # A table of the contexts that wait: a turn probes the library for these alone, however many
        # communicators are open.
        under_way = self.under_way

        under_way.waiting += more
        if under_way.waiting:
            under_way.waiters[self.cid] = self
        else:
            under_way.waiters.pop(self.cid, None)

    def leave(self) -> None:
        """Leave the engine's table of waiting contexts: the communicator is freed."""
        self.under_way.waiters.pop(self.cid, None)
        # Operations that end later count down in a table that no turn reads.
        self.under_way.waiters = {}

    faults: Faults
    """Faults of this communicator's collectives."""
