"""Intracomm: a communicator of one group, as mpi4py's class of the same name.

How it works: a method that makes a communicator checks its arguments, calls a function of
:mod:`.communicator`, which agrees with the other procs on members and context id, and wraps the
result in the class that fits it (``_handle``). A proc outside the group gets COMM_NULL. Topologies
are facts beside a communicator: IMPI has no clause on them, so ranks are never reordered, and only
the edges of a distributed graph need messages. Ports and spawning are in :mod:`.dynamic`, endpoints
in :mod:`.lcos`; both load at the first call, because few programs need them.

Arguments are checked before the first message. ``guarded_collective`` then tells the others of a
proc whose call is wrong, or they would wait in an agreement that it never enters.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast
from zlib import crc32

from impi.protocol.collectives import Prefixed
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.topology import Cart, DistGraph, Graph
from impi.rank.api.collective.blocking import BlockingScans
from impi.rank.api.collective.nonblocking import NonblockingScans
from impi.rank.api.collective.on_objects import ObjectScans
from impi.rank.api.collective.persistent import PersistentScans
from impi.rank.api.comms import communicator
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.groups import Group
from impi.rank.api.constants import UNDEFINED, UNWEIGHTED, WEIGHTS_EMPTY
from impi.rank.api.handles import (
    INFO_NULL,
    Errhandler,
    Info,
    guarded_collective,
    integer,
    row,
)

if TYPE_CHECKING:
    from impi.rank.api.comms.intercomm import Intercomm
    from impi.rank.api.comms.topocomm import Cartcomm, Distgraphcomm, Graphcomm
    from impi.rank.api.types.specs import FileName


T = TypeVar("T")
_EDGE: Final = struct.Struct(">iiq")


@guarded_collective(
    "Create_endpoints",
    "Create_intercomm",
    "Create_cart",
    "Create_graph",
    "Create_dist_graph_adjacent",
    "Create_dist_graph",
)
class Intracomm(Comm, BlockingScans, NonblockingScans, PersistentScans, ObjectScans):
    """A communicator of one group."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return not state.is_inter

    # ---- groups ----------------------------------------------------------------------------------

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        """Create a communicator of ``group``; only its members call it."""
        self._live()
        return cast(
            "Intracomm",
            self._handle(
                communicator.create_group(self._live(), group._ranks, integer(tag))
            ),
        )

    @classmethod
    def Create_from_group(
        cls,
        group: Group,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Intracomm:
        """Create a communicator of ``group``; only its members call it, all in the same order."""
        # A tag tells apart calls that are under way at once (MPI 4.1, 7.4.2). A string becomes a
        # number for that, the same one in every process: Python's own hash is salted.
        state = communicator.create_group(
            COMM_WORLD._live(), group._ranks, crc32(stringtag.encode())
        )
        if state is not None:
            _furnish(state, info, errhandler, group)

        return cast("Intracomm", cls._handle(state))

    def Create_intercomm(
        self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int = 0
    ) -> Intercomm:
        """Connect this group with that of a leader known to ``peer_comm`` (IMPI 4.8)."""

        size = self.Get_size()
        if not 0 <= local_leader < size:
            raise error(
                "ERR_RANK", f"the local leader {local_leader} is not in 0..{size - 1}"
            )

        # Only the leader uses the peer communicator (4.8); elsewhere these arguments mean nothing.
        if self.Get_rank() == local_leader:
            peer_comm._checked(remote_leader, tag)

        return self._connect(local_leader, peer_comm, remote_leader, tag)

    def _connect(
        self, local_leader: int, peer_comm: Intracomm, remote_leader: int, tag: int
    ) -> Intercomm:
        peer = peer_comm._alive() if self.Get_rank() == local_leader else None
        state = communicator.connect(
            self._alive(), local_leader, peer, remote_leader, tag
        )
        return cast("Intercomm", self._handle(state))

    def Create_endpoints(self, num_ep: int, info: Info = INFO_NULL) -> list[Intracomm]:
        """Return communicators of this process, each a rank of its own for a thread; collective."""
        # Few programs need it, and its class is made of this one
        from importlib import import_module

        return cast(
            "list[Intracomm]",
            import_module("impi.rank.api.comms.lcos.endpoints").create(self, num_ep),
        )

    # ---- topologies ------------------------------------------------------------------------------

    def Create_cart(
        self,
        dims: Sequence[int],
        periods: Sequence[bool] | None = None,
        reorder: bool = False,
    ) -> Cartcomm:
        """Arrange the first procs as a grid, ranks unchanged; COMM_NULL for other procs."""
        return cast("Cartcomm", self._create_arranged(self._cart(dims, periods)))

    def Create_graph(
        self, index: Sequence[int], edges: Sequence[int], reorder: bool = False
    ) -> Graphcomm:
        """Arrange the first procs as a graph, ranks unchanged; COMM_NULL for other procs.

        ``index`` may begin with an extra 0, as usual in adjacency arrays.
        """
        return cast("Graphcomm", self._create_arranged(self._graph(index, edges)))

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int],
        destinations: Sequence[int],
        sourceweights: Sequence[int] | None = None,
        destweights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        incoming, outgoing = self._ranks_in(sources), self._ranks_in(destinations)
        into = _weights(sourceweights, len(incoming))
        out = _weights(destweights, len(outgoing))
        weights = None if into is None and out is None else (into or (), out or ())

        return cast(
            "Distgraphcomm",
            self._of_graph(DistGraph(incoming, outgoing, weights), info),
        )

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        """Create a graph; procs name any edges: ``degrees[i]`` of them begin at ``sources[i]``."""

        starts = self._ranks_in(sources)
        counts = [degrees] * len(starts) if isinstance(degrees, int) else row(degrees)

        ends = self._ranks_in(destinations)
        if len(counts) != len(starts) or sum(counts) != len(ends):
            raise ValueError(
                f"expecting {sum(counts)} destinations of {len(starts)} sources, got {len(ends)}"
            )

        weight = _weights(weights, len(ends))
        begins = chain.from_iterable(map(repeat, starts, counts))
        rows = zip(begins, ends, weight or [0] * len(ends), strict=True)
        # A proc may name edges of any others, so only an allgather tells each its neighbours.
        mine = bytes([weight is not None]) + b"".join(_EDGE.pack(*row) for row in rows)
        pieces = [
            bytes(piece)
            for piece in self._complete(self._algorithms.allgather(mine, Prefixed(), 0))
        ]

        return cast(
            "Distgraphcomm", self._of_graph(_graph_at(self.Get_rank(), pieces), info)
        )

    def Cart_map(
        self, dims: Sequence[int], periods: Sequence[bool] | None = None
    ) -> int:
        return self._rank_on_grid(self._cart(dims, periods).size)

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        return self._rank_on_grid(self._graph(index, edges).size)

    # ---- processes that come later ---------------------------------------------------------------

    def Accept(
        self, port_name: str, info: Info = INFO_NULL, root: int = 0
    ) -> Intercomm:
        """Wait at a port of ``root`` for a group that connects; collective (MPI 4.1, 11.9.2)."""
        from impi.rank.api.comms import dynamic  # few programs need it

        self._live()

        return self._handle(dynamic.accept(self._alive(), port_name, root))  # type: ignore[no-any-return]

    def Connect(
        self, port_name: str, info: Info = INFO_NULL, root: int = 0
    ) -> Intercomm:
        """Connect to the group that accepts at a port; collective (MPI 4.1, 11.9.3)."""
        from impi.rank.api.comms import dynamic

        self._live()

        return self._handle(dynamic.connect(self._alive(), port_name, root))  # type: ignore[no-any-return]

    def Spawn(
        self,
        command: FileName | None,
        args: Sequence[str] | None = None,
        maxprocs: int = 1,
        info: Info = INFO_NULL,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Intercomm:
        """Start ``maxprocs`` processes of a program; collective (MPI 4.1, 11.8.2).

        Only the arguments of ``root`` count.
        """

        told = (
            ([command or ""], [args], [maxprocs], [info])
            if self.Get_rank() == root
            else ([], [], [], [])
        )

        found = self._spawn_programs(*told, root)
        if errcodes is not None:
            errcodes[:] = [0] * found.Get_remote_size()

        return found

    def Spawn_multiple(
        self,
        command: Sequence[FileName] | None,
        args: Sequence[Sequence[str]] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Sequence[Info] | Info = INFO_NULL,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Intercomm:
        """Start processes of several programs as one job; collective (MPI 4.1, 11.8.3).

        A single word, number or object counts for every program. Only the arguments of ``root``
        count.

        Raises:
            ValueError: the lists of words, numbers and objects differ in length.
        """

        told = (
            _programs(command, args, maxprocs, info)
            if self.Get_rank() == root
            else ([], [], [], [])
        )

        found = self._spawn_programs(*told, root)
        if errcodes is not None:
            # Only the root knows the programs: elsewhere the caller's own lists give the shape.
            counts = told[2] or (
                _numbers(maxprocs, len(command))
                if command
                else [found.Get_remote_size()]
            )
            errcodes[:] = [[0] * count for count in counts]

        return found

    def _spawn_programs(
        self,
        commands: Sequence[FileName],
        args: Sequence[Sequence[str] | None],
        counts: Sequence[int],
        infos: Sequence[Info],
        root: int,
    ) -> Intercomm:
        from impi.rank.api.comms import dynamic

        self._live()
        argv = [
            [os.fsdecode(name), *([more] if isinstance(more, str) else more or [])]
            for name, more in zip(commands, args, strict=True)
        ]
        state = dynamic.spawn(self._alive(), argv, counts, infos, root)

        return self._handle(state)  # type: ignore[no-any-return]

    # ---- inside ----------------------------------------------------------------------------------

    def _cart(self, dims: Sequence[int], periods: Any) -> Cart:
        extents = tuple(row(dims))
        if periods is None or isinstance(periods, bool):
            wraps = (bool(periods),) * len(extents)
        else:
            wraps = tuple(map(bool, row(periods)))

        if len(wraps) != len(extents):
            raise ValueError(f"expecting {len(extents)} periods, got {len(wraps)}")

        if any(extent < 1 for extent in extents):
            raise error(
                "ERR_DIMS",
                f"a grid of {list(extents)} has a dimension without processes",
            )

        return Cart(extents, wraps)

    def _graph(self, index: Sequence[int], edges: Sequence[int]) -> Graph:
        ends, targets = row(index), self._ranks_in(edges)
        # Adjacency arrays often begin with a 0, which MPI's index does not have. mpi4py takes both.
        if len(ends) > 1 and ends[0] == 0 and ends[-1] == len(targets):
            ends = ends[1:]

        if ends != sorted(ends) or (ends[-1] if ends else 0) != len(targets):
            raise error(
                "ERR_TOPOLOGY",
                f"the index of a graph of {len(targets)} edges cannot be {ends}",
            )

        return Graph(tuple(ends), targets)

    def _ranks_in(self, ranks: Sequence[int] | None) -> tuple[int, ...]:
        size = self.Get_size()

        chosen = tuple(row(() if ranks is None else ranks))
        for rank in chosen:
            if not 0 <= rank < size:
                raise error(
                    "ERR_RANK",
                    f"an edge names rank {rank}, which is not in 0..{size - 1}",
                )

        return chosen

    def _create_arranged(self, topology: Cart | Graph) -> Any:
        members = self._live().members
        if topology.size > len(members):
            raise error(
                "ERR_ARG",
                f"a topology of {topology.size} processes does not fit into {len(members)}",
            )

        # The first procs, in their order. IMPI has no clause on topologies, so procs of two
        # implementations could not agree on another one.
        state = communicator.create(self._alive(), members[: topology.size])
        if state is not None:
            state.topology = topology

        return self._handle(state)

    def _of_graph(self, graph: DistGraph, info: Info) -> Any:
        # All procs are members, so the new communicator is a duplicate with other facts beside it.
        state = communicator.duplicate(self._alive())
        state.topology = graph
        _furnish(state, info, None)

        return self._handle(state)

    def _rank_on_grid(self, size: int) -> int:
        if size > self.Get_size():
            raise error(
                "ERR_ARG",
                f"a topology of {size} processes does not fit into {self.Get_size()}",
            )

        rank = self.Get_rank()
        return rank if rank < size else UNDEFINED


Comm._kinds[None] = Intracomm


COMM_SELF: Final = Intracomm()
COMM_WORLD: Final = Intracomm()
"""Null until :mod:`impi.rank.api.comms.world` joins the job; importing the classes must not."""


def _furnish(
    state: Communicator,
    info: Info,
    errhandler: Errhandler | None,
    group: Group | None = None,
) -> None:
    """Set hints and handler of a new communicator; ``group``: its session's buffer, too."""
    if info:
        state.info.update(info)

    if errhandler is not None:
        state.errhandler = Errhandler(errhandler)

    if group is not None:
        state.attached.beyond = group._live().attached


def _graph_at(rank: int, pieces: Sequence[bytes]) -> DistGraph:
    """Return the graph at a rank; a piece: whether a proc gave weights, then the edges it named."""

    # By the rank that named an edge, then in its order: every proc sees the edges in this order.
    edges = [edge for piece in pieces for edge in _EDGE.iter_unpack(piece[1:])]
    into = [(start, weight) for start, end, weight in edges if end == rank]
    out = [(end, weight) for start, end, weight in edges if start == rank]
    weights = tuple(weight for _, weight in into), tuple(weight for _, weight in out)
    weighted = any(piece[0] for piece in pieces)

    return DistGraph(
        tuple(start for start, _ in into),
        tuple(end for end, _ in out),
        weights if weighted else None,
    )


_Programs: TypeAlias = tuple[
    list["FileName"], list[Sequence[str] | None], list[int], list[Info]
]


def _programs(
    command: Sequence[FileName] | None,
    args: Sequence[Sequence[str]] | None,
    maxprocs: Sequence[int] | int | None,
    info: Sequence[Info] | Info,
) -> _Programs:
    """Return commands, arguments, numbers of processes and Info objects, one for each program."""

    if isinstance(command, str | bytes | os.PathLike):
        raise ValueError("expecting a sequence of path-like")

    commands = list(command or ())
    given: list[Sequence[str]] = _one_for_each(
        () if args is None else args, not args or isinstance(args, str), len(commands)
    )
    words: list[Sequence[str] | None] = [*given]
    infos = _one_for_each(info, isinstance(info, Info), len(commands))

    return commands, words, _numbers(maxprocs, len(commands)), infos


def _numbers(maxprocs: Sequence[int] | int | None, count: int) -> list[int]:
    return _one_for_each(
        1 if maxprocs is None else maxprocs, not hasattr(maxprocs, "__len__"), count
    )


def _one_for_each(given: T | Sequence[T], alone: bool, count: int) -> list[T]:
    """Return the values of ``count`` programs: ``given`` for all, or one for each."""

    if alone:
        return [cast("T", given)] * count

    values = list(cast("Sequence[T]", given))
    if len(values) != count:
        raise ValueError(f"expecting {count} items, got {len(values)}")

    return values


def _weights(weights: Any, degree: int) -> tuple[int, ...] | None:
    """Check weights; return None for a graph without weights."""

    if weights is None or (isinstance(weights, int) and weights == UNWEIGHTED):
        return None

    if isinstance(weights, int) and weights == WEIGHTS_EMPTY:
        if degree:
            raise ValueError("empty weights but nonzero degree")

        return ()

    chosen = tuple(row(weights))
    if len(chosen) != degree:
        raise ValueError(f"expecting {degree} weights, got {len(chosen)}")

    return chosen
