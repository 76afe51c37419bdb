"""Comm: communicators over all clients of the job, as mpi4py's class of the same name.

How it works: a :class:`Comm` is a handle. The object behind it is a
:class:`.communicator.Communicator`, which all handles of it share, and the engine's side of that is
a context. The calls come from the base classes, one for each chapter of MPI; here are those on the
communicator itself: members, duplicates, splits, its end. Python sees one of several classes (an
intercommunicator, a grid, a graph) by the facts of the object, not by the call that made it.

A call that makes a communicator is collective, and every proc must reach the agreement on the
context id (IMPI 4.3). So arguments are checked first, and ``guarded_collective`` tells the others
of a proc that cannot take part.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, cast

from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.topology import Cart, DistGraph, Graph
from impi.rank.api import runtime
from impi.rank.api.collective.algorithms import Algorithms
from impi.rank.api.collective.blocking import BlockingCollectives
from impi.rank.api.collective.nonblocking import NonblockingCollectives
from impi.rank.api.collective.on_objects import ObjectCollectives
from impi.rank.api.collective.persistent import PersistentCollectives
from impi.rank.api.comms import communicator
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.groups import Group, process_set
from impi.rank.api.comms.mitigation import Mitigation, agree, start_shrunk
from impi.rank.api.constants import (
    CART,
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    CONGRUENT,
    DIST_GRAPH,
    GRAPH,
    IDENT,
    SIMILAR,
    UNDEFINED,
    UNEQUAL,
)
from impi.rank.api.handles import (
    INFO_NULL,
    KEYVALS,
    PREDEFINED,
    Handle,
    HasAttributes,
    HasErrhandler,
    HasInfo,
    HasName,
    Info,
    guarded_collective,
)
from impi.rank.api.p2p import bsend
from impi.rank.api.p2p.point_to_point import PointToPoint
from impi.rank.api.p2p.psend import Partitioned
from impi.rank.api.p2p.request import Request
from impi.rank.engine.collective import Closing
from impi.rank.engine.context import Context

if TYPE_CHECKING:
    from impi.rank.api.comms.intercomm import Intercomm


_TOPOLOGIES: Final[dict[type, int]] = {
    Cart: CART,
    Graph: GRAPH,
    DistGraph: DIST_GRAPH,
    type(None): UNDEFINED,
}
_RESOURCE: Final = "mpi_hw_resource_type"
_PROCESS_SET: Final = "mpi_pset_name"
_SHARED_MEMORY: Final = "mpi_shared_memory"
_SPLIT_TYPES: Final = (
    COMM_TYPE_SHARED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    UNDEFINED,
)


@guarded_collective(
    "Clone",
    "Dup",
    "Dup_with_info",
    "Idup",
    "Idup_with_info",
    "Create",
    "Split",
    "Split_type",
    "Free",
    "Disconnect",
)
class Comm(
    Handle,
    HasErrhandler,
    HasAttributes,
    HasName,
    HasInfo,
    bsend.BufferedSends,
    PointToPoint,
    Partitioned,
    BlockingCollectives,
    NonblockingCollectives,
    PersistentCollectives,
    ObjectCollectives,
    Mitigation,
):
    """A communicator; null when made without arguments."""

    _state: Communicator | None
    _kind = "communicator"
    _null_name = "MPI_COMM_NULL"
    _keyvals = KEYVALS
    _predefined_attributes = PREDEFINED
    # Class of the handles, by topology class, "inter" or None
    _kinds: ClassVar[dict[Any, type[Comm]]] = {}
    # The handle that Get_parent returns in a job that was spawned
    _parent: ClassVar[Comm | None] = None
    _self: ClassVar[Communicator | None] = None  # COMM_SELF's object

    @classmethod
    def _class_of(cls, state: Communicator | None) -> type[Comm]:
        if state is None:
            return Comm

        if state.special:
            return Comm._kinds[state.special]

        if state.is_inter:
            return Comm._kinds["inter"]

        return Comm._kinds[type(state.topology) if state.topology else None]

    @classmethod
    def _handle(cls, state: Communicator | None) -> Any:
        return Comm(COMM_NULL) if state is None else Comm._class_of(state)._wrap(state)

    @property
    def _context(self) -> Context | None:  # type: ignore[override]
        return None if self._state is None else self._state.context

    @property
    def _owner(self) -> Communicator | None:
        return self._state

    @property
    def _algorithms(self) -> Algorithms:
        runtime.engine()

        state = self._state
        if state is None or state.context is None:
            state = self._alive()
            state.live()  # which says what is wrong

        return state.algorithms

    @property
    def _attached(self) -> bsend.Attached:
        return self._alive().attached

    def _alive(self) -> Communicator:
        if self._state is None:
            raise error("ERR_COMM", "null communicator")

        return self._state

    _object = _with_errhandler = _alive

    def _live(self) -> Context:
        runtime.engine()

        state = self._state
        if state is None or state.context is None:
            return self._alive().live()  # which says what is wrong

        return state.context

    def __bool__(self) -> bool:
        # COMM_WORLD and COMM_SELF are not null before MPI_Init.
        return self._context is not None or (
            self._is_constant and self._state is not None
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse attributes of the program's own, as mpi4py does; classes of programs have them."""
        cls = type(self)
        if (
            name[:1] != "_"
            and not hasattr(cls, name)
            and cls.__module__.startswith("impi.")
        ):
            raise AttributeError(
                f"'mpi4py.MPI.{cls.__name__}' object has no attribute {name!r}"
            )

        super().__setattr__(name, value)

    # ---- members ---------------------------------------------------------------------------------

    def Get_size(self) -> int:
        return len(self._live().members)

    def Get_rank(self) -> int:
        return self._live().rank

    size = property(Get_size, doc="number of procs in the group")
    rank = property(Get_rank, doc="rank of the caller")

    def Get_group(self) -> Group:
        return Group._of(self._live().members, runtime.engine().rank)

    group = property(Get_group, doc="the group")

    def Is_inter(self) -> bool:
        return self._live().is_inter

    def Is_intra(self) -> bool:
        return not self._live().is_inter

    is_inter = property(Is_inter, doc="whether it has a remote group")
    is_intra = property(Is_intra, doc="whether it has no remote group")

    def Get_topology(self) -> int:
        self._live()
        return _TOPOLOGIES[type(self._alive().topology)]

    topology = property(Get_topology, doc="type of its topology")
    is_topo = property(
        lambda self: self.Get_topology() != UNDEFINED, doc="whether it has a topology"
    )

    def Compare(self, comm: Comm) -> int:
        mine, other = self._live(), comm._live()
        if mine is other:
            return IDENT

        if mine.is_inter != other.is_inter:
            return UNEQUAL

        if (mine.members, mine.peers) == (other.members, other.peers):
            return CONGRUENT

        same = set(mine.members) == set(other.members) and set(mine.peers) == set(
            other.peers
        )

        return SIMILAR if same else UNEQUAL

    # ---- making others ---------------------------------------------------------------------------

    def Clone(self) -> Self:
        return self._wrap(communicator.duplicate(self._alive()))

    def Dup(self, info: Info | None = None) -> Self:
        """Duplicate with new contexts and the attributes that copy functions copy (IMPI 4.6)."""
        state = communicator.duplicate(self._alive())
        self._inherit(state, info)

        return self._wrap(state)

    def Dup_with_info(self, info: Info) -> Self:
        return self.Dup(info)

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        """Start a duplicate; it can be used once the request is complete."""
        state, request = communicator.start_duplicate(self._alive())
        self._inherit(state, info)

        return (self._wrap(state), request)

    def Idup_with_info(self, info: Info) -> tuple[Self, Request]:
        return self.Idup(info)

    def _inherit(self, copy: Communicator, info: Info | None) -> None:
        state = self._alive()
        copy.attributes = KEYVALS.copied(self, state.attributes)
        copy.info = Info.Create(state.info if info is None else info)

    def Create(self, group: Group) -> Comm:
        """Create a communicator of ``group``; others call, too, and get COMM_NULL (IMPI 4.4)."""
        self._live()
        return cast(
            "Comm", self._handle(communicator.create(self._alive(), group._ranks))
        )

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """Create a communicator for each color, ordered by key, then rank (IMPI 4.7)."""
        if color < 0 and color != UNDEFINED:
            raise error("ERR_ARG", f"color {color} is negative and not UNDEFINED")

        self._live()

        return cast("Comm", self._handle(communicator.split(self._alive(), color, key)))

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Comm:
        """Split by COMM_TYPE_SHARED: procs of one client on one node; COMM_NULL for UNDEFINED.

        These are the procs for which Win.Allocate_shared works, and the only known hardware
        resource: "mpi_shared_memory" (MPI 4.1, 7.4.2). COMM_TYPE_HW_GUIDED and
        COMM_TYPE_RESOURCE_GUIDED read it from ``info``, COMM_TYPE_HW_UNGUIDED writes it there.
        COMM_TYPE_RESOURCE_GUIDED reads a process set, too. COMM_NULL: none of them is there, or
        COMM_TYPE_HW_UNGUIDED would make no smaller communicator.
        """

        if split_type not in _SPLIT_TYPES:
            raise error("ERR_ARG", f"split type {split_type} is unknown")

        part = self.Split(_color(split_type, info), key)
        if split_type == COMM_TYPE_HW_UNGUIDED and part:
            if part.Get_size() == self.Get_size():
                part.Free()
                return Comm(COMM_NULL)

            if info:
                info.Set(_RESOURCE, _SHARED_MEMORY)

        return part

    def Shrink(self) -> Comm:
        """Return a communicator of the procs that live, in the order of their ranks."""
        shrunk, request = self.Ishrink()
        request.Wait()

        return shrunk

    def Ishrink(self) -> tuple[Comm, Request]:
        """Start to make a communicator of the procs that live; usable once that is complete."""
        made, request = start_shrunk(self._common("MPI_Comm_shrink"))
        return self._kinds["inter" if made.is_inter else None]._wrap(made), request

    def Free(self) -> None:
        """Free the communicator; collective (IMPI 4.5), but no proc waits for the others."""
        self._freed()

    def Disconnect(self) -> None:
        closing = self._freed()
        # MPI 4.1, 11.10.4: it waits until all procs have come here, which MPI_Comm_free need not
        # do.
        runtime.engine().turns.wait(lambda: closing.done)

    def _freed(self) -> Closing:
        self._live()

        state = self._alive()
        if state.constant is not None:
            raise error("ERR_COMM", "COMM_WORLD and COMM_SELF cannot be freed")

        # Delete functions get the communicator, so they run before it is dead.
        KEYVALS.clear(self, state.attributes)
        for companion in state.companions.made:
            communicator.free(companion)

        self._state = None

        return communicator.free(state)

    @classmethod
    def Get_parent(cls) -> Intercomm:
        """Return the intercommunicator with the processes that spawned this job, or COMM_NULL."""
        runtime.engine()
        return cast("Intercomm", cls._parent or cls._kinds["inter"]())

    @classmethod
    def Join(cls, fd: int) -> Intercomm:
        """Return the intercommunicator with the process at the other end of a socket."""

        from impi.rank.api.comms import dynamic  # few programs need it

        runtime.engine()
        assert cls._self is not None, "COMM_SELF is not made"

        return cast("Intercomm", cls._handle(dynamic.join(cls._self, fd)))

    def Abort(self, errorcode: int = 0) -> NoReturn:
        runtime.abort(errorcode)

    # ---- inside ----------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Run the barrier of MPI_Finalize (IMPI 2.4, 4.24)."""
        context = self._live()
        # A barrier would fail at the first loss. An agreement ends among those that live.
        if runtime.engine().job.is_resilient or self.Is_revoked():
            agree(context)
            return

        try:
            self._complete(self._algorithms.barrier())
        except MPIException:
            if not self.Is_revoked():
                raise

            # Revoked while the barrier was under way: the others leave it, too, and meet here.
            agree(context)

    def _complete(self, algorithm: Any, lock: str = "") -> Any:
        """Run an algorithm of octets to its end, under the lock ``lock`` among threads."""
        context = self._live()
        # As in mpi4py: threads that call the same collective of objects take turns, by its name.
        with self._alive().lock(lock) if lock else nullcontext():
            return communicator.run(context, algorithm)


def _color(split_type: int, info: Info) -> int:
    """Return the world rank that stands for the caller's part in a split, or UNDEFINED."""

    engine = runtime.engine()

    hints = dict(info.items()) if info else {}
    if (
        split_type in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED)
        and hints.get(_RESOURCE) == _SHARED_MEMORY
    ):
        split_type = COMM_TYPE_SHARED

    if split_type in (COMM_TYPE_SHARED, COMM_TYPE_HW_UNGUIDED):
        # The lowest rank names all that share memory: each of them has the same set.
        return min(engine.neighbours)

    if split_type == COMM_TYPE_RESOURCE_GUIDED:
        members = process_set(hints.get(_PROCESS_SET, ""))
        return min(members) if engine.rank in members else UNDEFINED

    return UNDEFINED


Communicator._handles = Comm

COMM_NULL: Final = Comm._define("COMM_NULL", None)
