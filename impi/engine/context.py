"""The engine's side of one communicator: who is in it, and what waits to be matched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from impi.semantics.matching import Matcher
from impi.vendors.base import LocalComm

if TYPE_CHECKING:
    from impi.engine.collective import CollectiveOperation
    from impi.engine.faults import Faults
    from impi.engine.operations import Message, ReceiveOperation

__all__ = ["Context", "ShortSend"]

ShortSend: TypeAlias = Callable[[int, memoryview, int], bool]
"""``send(tag, octets, count) -> bool``: sends a short message to one rank; False: nothing was sent, for there is no
credit, or the message must wait for its turn, or it is too long.
"""


class Context:
    """One communicator: two context ids on the wire (IMPI 4.3), one shadow at the vendor.

    ``members`` are the world ranks of the local group, ``peers`` those that a destination or source rank names:
    the same for an intracommunicator, the remote group for an intercommunicator.
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
        self.npeers = len(self.peers)
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
        """Point-to-point and collective."""
        self.collectives: deque[CollectiveOperation] = deque()
        """Those under way; the first is the one that runs."""
        self.waiting = 0
        """Receives, probes and collectives in progress that a local message could concern: while there are any, the
        shadow is drained.
        """
        self.short_senders: tuple[dict[int, ShortSend], dict[int, ShortSend]] = ({}, {})
        """Point-to-point and collective, by rank in :attr:`peers`: see :meth:`Engine.short_sender`."""
        self.owner: object = None
        """The api's communicator, whose error handler is called."""
        self.when_closed: Callable[[], None] | None = None
        """Called once, when the communicator is freed or MPI is finalized."""

    faults: Faults
    """Of collectives that somebody cannot take part in."""
