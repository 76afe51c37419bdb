"""Endpoints: several ranks of one process, each for a thread (after MPI_Comm_create_endpoints).

How it works: a communicator of endpoints is a set of LCOs that refer to each other like ranks:
their ranks follow the parent's, consecutive inside a process. Each handle is used by one thread at
a time. Point-to-point and collective calls of several threads may block at once, as waits let each
other into the engine (:mod:`impi.rank.engine.channels.threads`). A collective is called once for
each endpoint.

An intercommunicator of endpoints is the same between two groups: send slots lead to the other
group. As each endpoint has an address of its own, a process may have endpoints in both groups. The
note's rules 1 to 3c for such processes say which group of *processes* each joins; here no
intercommunicator of processes is made, and all five come to the same result for the endpoints.

An operation goes on when a call is made on any communicator of the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self, TypeAlias

from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.collective.algorithms import Algorithms, Between
from impi.rank.api.comms.comm import COMM_NULL, Comm
from impi.rank.api.comms.groups import Group
from impi.rank.api.comms.intercomm import Intercomm
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.comms.lcos.lco import Lco, LcoState, Slotted, settle
from impi.rank.api.comms.lcos.names import LcoName
from impi.rank.api.constants import UNDEFINED
from impi.rank.api.handles import Info, guarded_collective, unsupported
from impi.rank.api.p2p.request import Request, null_send
from impi.rank.engine.engine import Engine
from impi.rank.engine.lcos.lco_traffic import LcoContext

_WHY = "a group of MPI names processes, and several endpoints may be of one; Split makes parts"
_Rows: TypeAlias = list[tuple[int, int, LcoName]]


class EndpointState(LcoState):
    """The object behind the handles of an endpoint."""

    special = "endpoint"


class InterState(LcoState):
    """The object behind the handles of an endpoint of an intercommunicator."""

    special = "endpoint between groups"

    def __init__(self, engine: Engine, context: LcoContext) -> None:
        super().__init__(engine, context)
        self.is_inter = context.is_inter = True
        self.between: Between | None = None  # from join() on
        # Ranks in MPI_COMM_WORLD of the processes of the own group
        self.worlds: tuple[int, ...] = ()
        # Whether its leader had the lower rank in the peer communicator
        self.comes_first = False

    def join(self, rank: int, worlds: Sequence[int], *, comes_first: bool) -> None:
        """Set the own group; the slots lead to the other one already."""

        context, engine = self.lco_context, runtime.engine()
        self.worlds, self.comes_first = tuple(worlds), comes_first
        self.between = Between(
            rank, len(worlds), context.npeers, external=engine.external
        )
        context.form(engine, rank, context.npeers)

    def within(self) -> Algorithms:
        assert self.between is not None, "these endpoints have no communicator"
        return self.between


@guarded_collective("Idup")
class Endpoint(Lco):
    """One rank of a communicator of endpoints."""

    _fresh: ClassVar[type[LcoState]] = EndpointState

    def Get_size(self) -> int:
        """Return the number of endpoints, of all processes."""
        return len(self._lco.lco.send_slots)

    def Get_rank(self) -> int:
        return self._algorithms.rank

    size = property(Get_size, doc="number of endpoints")
    rank = property(Get_rank, doc="rank of this endpoint")

    Create_intercomm = Intracomm.Create_intercomm

    def _connect(
        self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int
    ) -> Intercomm:
        """See :meth:`Create_intercomm`; ``peer_comm`` may be one of endpoints or of processes."""

        rank = self.Get_rank()
        # A leader that sent to itself would get its own group as the other one.
        if rank == local_leader and peer_comm.Get_rank() == remote_leader:
            raise error(
                "ERR_RANK",
                f"both leaders are rank {remote_leader} of the peer communicator; "
                "leaders in one process need a peer communicator of endpoints",
            )

        own = EndpointInter._made()
        here: list[LcoName] = self.allgather(own.Get_lco_name())

        # Only the leaders know each other. Everybody else hears the other group's names, and which
        # group comes first in a merge, from its own leader.
        told = None
        if rank == local_leader:
            first = peer_comm.Get_rank() < remote_leader
            told = (
                peer_comm.sendrecv(here, remote_leader, tag, None, remote_leader, tag),
                first,
            )

        there, comes_first = self.bcast(told, local_leader)

        return own._join(there, rank, self._worlds(), comes_first=comes_first)

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        return self.Dup(info), null_send()

    Idup_with_info = Idup
    Split_type = Comm.Split_type

    def _worlds(self) -> list[int]:
        return [slot.world for slot in self._lco.lco.send_slots]

    def _place_of(self, rank: int, key: int) -> tuple[int, ...]:
        """Order by process, and inside one by key: the convention of the note."""
        return _by_process(self._worlds(), rank, key)


@guarded_collective("Clone", "Dup", "Idup", "Split", "Merge")
class EndpointInter(Slotted, Intercomm):
    """One rank of a communicator between two groups of endpoints."""

    _state: InterState | None
    _fresh: ClassVar[type[LcoState]] = InterState

    @classmethod
    def _takes(cls, state: object) -> bool:
        return isinstance(state, InterState)

    def Get_size(self) -> int:
        return self._between.size

    def Get_rank(self) -> int:
        return self._between.rank

    def Get_remote_size(self) -> int:
        return self._between.peers

    def Get_group(self) -> Group:
        """Return the processes of the own group, without repetitions."""
        return Group._of(
            list(dict.fromkeys(self._joined.worlds)), runtime.engine().rank
        )

    def Get_remote_group(self) -> Group:
        """Return the processes of the other group, without repetitions."""
        worlds = list(dict.fromkeys(slot.world for slot in self._lco.lco.send_slots))
        return Group._of(worlds, runtime.engine().rank)

    size = property(Get_size, doc="number of endpoints in the own group")
    rank = property(Get_rank, doc="rank of this endpoint in its own group")
    group = property(Get_group, doc="processes of the own group")
    remote_group = property(Get_remote_group, doc="processes of the other group")
    remote_size = property(
        Get_remote_size, doc="number of endpoints in the other group"
    )

    def Merge(self, high: bool = False) -> Intracomm:
        """Merge both groups; ranks are ordered by ``high`` of each, then by the rank in its group.

        On a tie the group whose leader had the lower rank in the peer communicator comes first.
        """

        own = Endpoint._made()
        here, there = self._rows(
            bool(high), self._joined.comes_first, own.Get_lco_name()
        )
        chosen = [
            (row[0], rank, not row[1], row[2])
            for rows in (here, there)
            for rank, row in enumerate(rows)
        ]
        chosen.sort(key=lambda row: row[:3])
        own._form([row[3] for row in chosen])

        return own

    def Clone(self) -> Self:
        own = type(self)._made()
        state = self._joined
        there = self.allgather(own.Get_lco_name())

        return own._join(
            there, self.Get_rank(), state.worlds, comes_first=state.comes_first
        )

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        """Duplicate; the call waits for the other endpoints, so its request is complete at once."""
        return self.Dup(info), null_send()

    Idup_with_info = Idup

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """Connect the endpoints of one color in both groups; COMM_NULL if one group has none."""

        if color < 0 and color != UNDEFINED:
            raise error("ERR_ARG", f"color {color} is negative and not UNDEFINED")

        # Made by all, also those that get none: the name travels with the color.
        own = type(self)._made()
        state = self._joined
        here, there = self._rows(color, key, own.Get_lco_name())
        mine = _of_color(color, here, state.worlds)

        others = _of_color(
            color, there, [slot.world for slot in self._lco.lco.send_slots]
        )
        if color == UNDEFINED or not others:
            own.Free()
            return Comm(COMM_NULL)

        worlds = [state.worlds[rank] for rank in mine]
        names = [there[rank][2] for rank in others]

        return own._join(
            names, mine.index(self.Get_rank()), worlds, comes_first=state.comes_first
        )

    @property
    def _joined(self) -> InterState:
        self._lco  # noqa: B018  (raises)
        assert self._state is not None, "this endpoint is not made"
        return self._state

    @property
    def _between(self) -> Between:
        between = self._joined.between
        assert between is not None, "these endpoints have no communicator"
        return between

    def _rows(self, number: int, key: int, name: LcoName) -> tuple[_Rows, _Rows]:
        """Return the rows of the own group, and of the other one."""
        # Two exchanges: between two groups an allgather brings the other group's rows only.
        there: _Rows = self.allgather((number, key, name))
        # Each of the others has the rows of our group
        here: _Rows = self.allgather(there)[0]

        return here, there

    def _join(
        self,
        there: Sequence[LcoName],
        rank: int,
        worlds: Sequence[int],
        *,
        comes_first: bool,
    ) -> Self:
        """Connect a new endpoint with the other group; all of both groups call it."""

        self.Add_receive_slots(len(there))
        self.Add_send_slots(there, [rank] * len(there))
        state = self._state
        assert state is not None, "this endpoint is not made"
        state.join(rank, worlds, comes_first=comes_first)
        # Wait until every slot exists: early messages are kept only up to a limit.
        self.Barrier()

        return self

    Create = unsupported("MPI_Comm_create of endpoints", _WHY)


def _by_process(worlds: Sequence[int], rank: int, key: int) -> tuple[int, ...]:
    """Return the sort key of an endpoint: its process (by the lowest rank there), key, rank."""
    return worlds.index(worlds[rank]), key, rank


def _of_color(color: int, rows: _Rows, worlds: Sequence[int]) -> list[int]:
    """Return the ranks of a group that have a color, in their new order."""
    chosen = [rank for rank, row in enumerate(rows) if row[0] == color]
    return sorted(chosen, key=lambda rank: _by_process(worlds, rank, rows[rank][1]))


def create(parent: Intracomm, num_ep: int) -> list[Endpoint]:
    """Return ``num_ep`` endpoints of this process; collective over the parent.

    Raises:
        Exception: ERR_ARG: a negative number. ERR_UNSUPPORTED_OPERATION: a client has IMPI 0.0.
    """

    if num_ep < 0:
        raise error("ERR_ARG", f"{num_ep} endpoints cannot be made")

    mine = [Endpoint._made() for _ in range(num_ep)]
    parts = parent.allgather([endpoint.Get_lco_name() for endpoint in mine])
    first = sum(len(part) for part in parts[: parent.Get_rank()])

    names = [name for part in parts for name in part]
    for rank, endpoint in enumerate(mine, first):
        endpoint.Add_receive_slots(len(names))
        endpoint.Add_send_slots(names, [rank] * len(names))

    # All slots of all procs exist behind the barrier, and the packets among our own are handled.
    parent.Barrier()

    settle()
    # Several endpoints are for several threads. Waits are shared from the start, before two of the
    # threads have met in the engine.
    if num_ep > 1:
        runtime.engine().threads.share(crowded=True)

    return mine


Comm._kinds["endpoint"] = Endpoint
Comm._kinds[InterState.special] = EndpointInter
