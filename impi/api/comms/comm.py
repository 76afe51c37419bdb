"""Comm: communicators over all clients of the job, as mpi4py's class of the same name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self

from impi.api import runtime
from impi.api.collective.algorithms import Algorithms
from impi.api.collective.derived import Collectives
from impi.api.collective.on_objects import ObjectCollectives
from impi.api.comms import communicator
from impi.api.comms.attributes import Attributes
from impi.api.comms.communicator import Communicator
from impi.api.comms.groups import Group
from impi.api.constants import (
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
from impi.api.handles.errhandler import Errhandler
from impi.api.handles.failing import guarded_collective
from impi.api.handles.handle import Handle
from impi.api.handles.info import INFO_NULL, Info
from impi.api.handles.unsupported import unsupported
from impi.api.p2p import bsend
from impi.api.p2p.point_to_point import PointToPoint
from impi.api.p2p.psend import Partitioned
from impi.api.p2p.request import Request
from impi.engine.context import Context
from impi.semantics.errors import error
from impi.semantics.topology import Cart, DistGraph, Graph

if TYPE_CHECKING:
    from impi.api.comms.intercomm import Intercomm
    from impi.api.types.specs import BufferSpec

__all__ = ["COMM_NULL", "Comm"]

_TOPOLOGIES: Final[dict[type, int]] = {Cart: CART, Graph: GRAPH, DistGraph: DIST_GRAPH, type(None): UNDEFINED}
_RESOURCE: Final = "mpi_hw_resource_type"
_SHARED_MEMORY: Final = "mpi_shared_memory"
_NO_RECOVERY: Final = "a job of IMPI 0.0 ends when a process is lost"


@guarded_collective(
    "Clone", "Dup", "Dup_with_info", "Idup", "Idup_with_info", "Create", "Split", "Split_type", "Free", "Disconnect"
)
class Comm(
    Handle,
    PointToPoint,
    Partitioned,
    Collectives,
    ObjectCollectives,
):
    """A communicator; the null one if made without arguments."""

    _state: Communicator | None
    _kinds: ClassVar[dict[Any, type[Comm]]] = {}
    """The class of handles for a kind of communicator: by its topology, "inter" or None."""

    @classmethod
    def _class_of(cls, state: Communicator | None) -> type[Comm]:
        if state is None:
            return Comm
        if state.is_inter:
            return Comm._kinds["inter"]
        return Comm._kinds[type(state.topology) if state.topology else None]

    @classmethod
    def _handle(cls, state: Communicator | None) -> Any:
        """A handle of a new communicator, COMM_NULL for none."""
        return Comm(COMM_NULL) if state is None else Comm._class_of(state)._wrap(state)

    @property
    def _context(self) -> Context | None:  # type: ignore[override]
        return None if self._state is None else self._state.context

    @property
    def _owner(self) -> Communicator | None:
        return self._state

    @property
    def _algorithms(self) -> Algorithms:
        self._live()
        return self._alive().algorithms

    @property
    def _attached(self) -> bsend.Attached:
        return self._alive().attached

    def _alive(self) -> Communicator:
        if self._state is None:
            raise error("ERR_COMM", "null communicator")
        return self._state

    def _live(self) -> Context:
        runtime.engine()
        return self._alive().live()

    def __bool__(self) -> bool:
        return self._context is not None

    # ---- who is in it ----------------------------------------------------------------------------------

    def Get_size(self) -> int:
        """Number of procs in the (local) group."""
        return len(self._live().members)

    def Get_rank(self) -> int:
        """Rank of the caller."""
        return self._live().rank

    size = property(Get_size, doc="number of procs in the group")
    rank = property(Get_rank, doc="rank of the caller")

    def Get_group(self) -> Group:
        """The (local) group."""
        return Group._of(self._live().members, runtime.engine().rank)

    group = property(Get_group, doc="the group")

    def Is_inter(self) -> bool:
        """Whether it has a remote group."""
        return self._live().is_inter

    def Is_intra(self) -> bool:
        """Whether it has no remote group."""
        return not self._live().is_inter

    is_inter = property(Is_inter, doc="whether it has a remote group")
    is_intra = property(Is_intra, doc="whether it has no remote group")

    def Get_topology(self) -> int:
        """CART, GRAPH, DIST_GRAPH, or UNDEFINED if it has no topology."""
        self._live()
        return _TOPOLOGIES[type(self._alive().topology)]

    topology = property(Get_topology, doc="type of its topology")
    is_topo = property(lambda self: self.Get_topology() != UNDEFINED, doc="whether it has a topology")

    def Compare(self, comm: Comm) -> int:
        """IDENT, CONGRUENT, SIMILAR or UNEQUAL."""
        mine, other = self._live(), comm._live()
        if mine is other:
            return IDENT
        if mine.is_inter != other.is_inter:
            return UNEQUAL
        if (mine.members, mine.peers) == (other.members, other.peers):
            return CONGRUENT
        same = set(mine.members) == set(other.members) and set(mine.peers) == set(other.peers)
        return SIMILAR if same else UNEQUAL

    # ---- making others ---------------------------------------------------------------------------------

    def Clone(self) -> Self:
        """A copy, without the attributes."""
        return self._wrap(communicator.duplicate(self._alive()))

    def Dup(self, info: Info | None = None) -> Self:
        """A copy with its own contexts, and the attributes that their copy functions let through (IMPI 4.6)."""
        state = communicator.duplicate(self._alive())
        self._inherit(state, info)
        return self._wrap(state)

    def Dup_with_info(self, info: Info) -> Self:
        """A copy with these hints."""
        return self.Dup(info)

    def Idup(self, info: Info | None = None) -> tuple[Self, Request]:
        """Start to copy; the new communicator can be used once the request is complete."""
        state, request = communicator.start_duplicate(self._alive())
        self._inherit(state, info)
        return (self._wrap(state), request)

    def Idup_with_info(self, info: Info) -> tuple[Self, Request]:
        """Start to copy, with these hints."""
        return self.Idup(info)

    def _inherit(self, copy: Communicator, info: Info | None) -> None:
        state = self._alive()
        copy.attributes = state.attributes.copy(self)
        copy.info = Info.Create(state.info if info is None else info)

    def Create(self, group: Group) -> Comm:
        """A communicator of the members of ``group``; COMM_NULL for the rest, who must call it too (IMPI 4.4)."""
        self._live()
        created: Comm = self._handle(communicator.create(self._alive(), group._ranks))
        return created

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """One communicator for each color, ordered by key, then rank (IMPI 4.7)."""
        if color < 0 and color != UNDEFINED:
            raise error("ERR_ARG", f"color {color} is negative and not UNDEFINED")
        self._live()
        part: Comm = self._handle(communicator.split(self._alive(), color, key))
        return part

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Comm:
        """COMM_TYPE_SHARED: the procs of one client on one node; with UNDEFINED COMM_NULL.

        The only hardware resource that is known is that one, "mpi_shared_memory": COMM_TYPE_HW_GUIDED and
        COMM_TYPE_RESOURCE_GUIDED take its name in ``info``, COMM_TYPE_HW_UNGUIDED puts it there.
        """
        guided = split_type in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED)
        if not guided and split_type not in (COMM_TYPE_SHARED, COMM_TYPE_HW_UNGUIDED, UNDEFINED):
            raise error("ERR_ARG", f"split type {split_type} is unknown")
        if guided and (not info or info.Get(_RESOURCE) != _SHARED_MEMORY):
            split_type = UNDEFINED
        job, me = runtime.engine().job, runtime.engine().rank
        # Procs of one client that advertise one address live on one node.
        same = [p.rank for p in job.procs if (p.client, p.ipv6) == (job.procs[me].client, job.procs[me].ipv6)]
        part = self.Split(UNDEFINED if split_type == UNDEFINED else same[0], key)
        if split_type == COMM_TYPE_HW_UNGUIDED and part:
            if part.Get_size() == self.Get_size():  # a smaller part is what was asked for
                part.Free()
                return Comm(COMM_NULL)
            if info:
                info.Set(_RESOURCE, _SHARED_MEMORY)
        return part

    def Free(self) -> None:
        """Give it back; collective (IMPI 4.5)."""
        self._live()
        state = self._alive()
        if state.constant is not None:
            raise error("ERR_COMM", "COMM_WORLD and COMM_SELF cannot be freed")
        state.attributes.clear(self)
        for companion in state.companions:
            communicator.free(companion)
        communicator.free(state)
        self._state = None

    def Disconnect(self) -> None:
        """Give it back once all its messages are through; collective."""
        self.Free()

    @classmethod
    def Get_parent(cls) -> Intercomm:
        """COMM_NULL: nobody spawned this job."""
        parent: Any = cls._kinds["inter"]()
        return parent  # type: ignore[no-any-return]

    # ---- attributes ------------------------------------------------------------------------------------

    def Get_attr(self, keyval: int) -> int | Any | None:
        """The value cached under a key, or None; the predefined ones include the four IMPI_* (IMPI 2.5)."""
        return self._alive().attributes.get(self, keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Cache a value under a key."""
        self._alive().attributes.set(self, keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Forget the value of a key."""
        self._alive().attributes.delete(self, keyval)

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: Callable[[Comm, int, Any], Any] | None = None,
        delete_fn: Callable[[Comm, int, Any], None] | None = None,
        nopython: bool = False,
    ) -> int:
        """A new attribute key."""
        return Attributes.create_keyval(copy_fn, delete_fn)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give a key back."""
        return Attributes.free_keyval(keyval)

    # ---- name, info, buffer, errors --------------------------------------------------------------------

    def Get_name(self) -> str:
        """Its name, "" until it is given one."""
        return "MPI_COMM_NULL" if self._state is None else self._state.name

    def Set_name(self, name: str) -> None:
        """Give it a name."""
        self._alive().name = name

    name = property(Get_name, Set_name, doc="its name")

    def Get_info(self) -> Info:
        """A copy of its hints."""
        return self._alive().info.Dup()

    def Set_info(self, info: Info) -> None:
        """Set hints; none changes what impi does."""
        self._alive().info.update(info)

    info = property(Get_info, Set_info, doc="its hints")

    def Attach_buffer(self, buf: BufferSpec) -> None:
        """Give memory for its buffered sends; BUFFER_AUTOMATIC lets them take what they need."""
        self._attached.attach(buf)

    def Detach_buffer(self) -> Any:
        """Wait until its buffered messages are sent, and take the buffer back."""
        return self._attached.detach()

    def Flush_buffer(self) -> None:
        """Wait until its buffered messages are sent."""
        self._attached.flush().Wait()

    def Iflush_buffer(self) -> Request:
        """A request that is complete once its buffered messages are sent."""
        return self._attached.flush()

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Comm, int], None]) -> Errhandler:
        """A handler that calls ``errhandler_fn(comm, errorcode)``."""
        return Errhandler._create(errhandler_fn, "communicator")

    def Get_errhandler(self) -> Errhandler:
        """What is done about errors before they are exceptions; nothing (ERRORS_RETURN) by default."""
        return Errhandler(self._alive().errhandler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Choose what is done about errors."""
        if not errhandler:
            raise error("ERR_ERRHANDLER", "null error handler")
        self._alive().errhandler = Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Let the handler do what it does about an error."""
        state = self._alive()
        state.errhandler._call(state, errorcode)

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole job."""
        runtime.abort(errorcode)

    # ---- not supported ---------------------------------------------------------------------------------

    Join = classmethod(unsupported("MPI_Comm_join", "the processes of a job of IMPI 0.0 are there from the start"))
    Revoke = unsupported("MPI_Comm_revoke", _NO_RECOVERY)
    Is_revoked = unsupported("MPI_Comm_is_revoked", _NO_RECOVERY)
    Get_failed = unsupported("MPI_Comm_get_failed", _NO_RECOVERY)
    Ack_failed = unsupported("MPI_Comm_ack_failed", _NO_RECOVERY)
    Agree = unsupported("MPI_Comm_agree", _NO_RECOVERY)
    Iagree = unsupported("MPI_Comm_iagree", _NO_RECOVERY)
    Shrink = unsupported("MPI_Comm_shrink", _NO_RECOVERY)
    Ishrink = unsupported("MPI_Comm_ishrink", _NO_RECOVERY)

    # ---- inside ----------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """The barrier of MPI_Finalize (IMPI 2.4, 4.24)."""
        self._complete(self._algorithms.barrier())

    def _complete(self, algorithm: Any, lock: str = "") -> Any:
        """Run an algorithm of octets to its end; no other thread that wants the same ``lock`` comes between."""
        context = self._live()
        with self._alive().lock(lock) if lock else nullcontext():
            return communicator.run(context, algorithm)


Communicator._handles = Comm

COMM_NULL: Final = Comm._define("COMM_NULL", None)
