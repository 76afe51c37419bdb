"""The engine's side of one communicator: who is in it, and what waits to be matched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from impi.semantics.matching import Matcher
from impi.vendors.base import LocalComm

if TYPE_CHECKING:
    from impi.engine.collective import CollectiveOperation
    from impi.engine.faults import Faults
    from impi.engine.operations import Message, ReceiveOperation

__all__ = ["Context"]


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
        self.senders: dict[int, Callable[[int, memoryview, int], bool]] = {}
        """By rank in :attr:`peers`, as far as they have been used: how short messages go there (see Engine.sender)."""
        self.collective_senders: dict[int, Callable[[int, memoryview, int], bool]] = {}
        """The same, of collectives."""
        self.sends: dict[int, Callable[[Any, int], bool]] = {}
        """By rank in :attr:`peers`, as far as they have been used: the api's shortest way for a blocking send there, of
        a buffer as the program gives it and a tag; False: nothing was done, and the long way decides.
        """
        self.starts: dict[int, Callable[[Any, int], bool]] = {}
        """Those of them that never wait."""
        self.receives: dict[int, Callable[[Any, int, Any], bool]] = {}
        """The same for a blocking receive from there: buffer, tag and status."""
        self.inside: Any = None
        """The api's shortest way for collectives, where the library alone can do them (:mod:`impi.api.inside`)."""
        self.owner: Any = None
        """What the api has made of it: whose error handler is called."""

    def forget(self) -> None:
        """Nothing goes the short ways any more."""
        self.inside = None
        self.sends.clear()
        self.starts.clear()
        self.receives.clear()

    faults: Faults
    """Of collectives that somebody cannot take part in."""
