"""Comm and Intracomm: communicators over all clients of the job, as mpi4py's classes of the same names."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, Self

from impi.api import runtime
from impi.api.attributes import Attributes
from impi.api.collective import BufferCollectives
from impi.api.collective_objects import ObjectCollectives
from impi.api.constants import COMM_TYPE_SHARED, CONGRUENT, IDENT, SIMILAR, UNDEFINED, UNEQUAL
from impi.api.errhandler import ERRORS_RETURN, Errhandler
from impi.api.group import Group
from impi.api.handle import Handle, State
from impi.api.info import INFO_NULL, Info
from impi.api.point_to_point import PointToPoint
from impi.collectives import Fixed, Layout, Reduction, allgather, allreduce, is_short
from impi.engine.collective import CollectiveOperation, OctetCodec
from impi.engine.context import Context
from impi.semantics.errors import error

__all__ = ["COMM_NULL", "Comm", "Intracomm"]

_UINT8 = struct.Struct(">Q")
_SPLIT = struct.Struct(">iii")


class _Communicator(State):
    """What all handles of one communicator have in common."""

    def __init__(self, context: Context, layout: Layout) -> None:
        super().__init__()
        self.context: Context | None = context
        self.layout = layout
        self.attributes = Attributes()
        self.errhandler: Errhandler = ERRORS_RETURN
        self.info = Info.Create()
        self.name = ""


class Comm(Handle, PointToPoint, BufferCollectives, ObjectCollectives):
    """A communicator; the null one if made without arguments."""

    @classmethod
    def _of(cls, context: Context) -> Self:
        job = runtime.engine().job
        return cls._wrap(_Communicator(context, Layout([job.procs[world].client for world in context.members])))

    @property
    def _context(self) -> Context | None:  # type: ignore[override]
        return self._state.context if isinstance(self._state, _Communicator) else None

    @property
    def _layout(self) -> Layout:  # type: ignore[override]
        return self._alive().layout

    def _alive(self) -> _Communicator:
        self._live()
        if not isinstance(self._state, _Communicator):
            raise error("ERR_COMM", "null communicator")
        return self._state

    def __bool__(self) -> bool:
        return self._context is not None

    def __reduce__(self) -> str | tuple[Any, ...]:
        from impi.api import world

        if not self:
            return (_predefined, ("COMM_NULL",))
        for name in ("COMM_WORLD", "COMM_SELF"):
            if self == getattr(world, name):
                return (_predefined, (name,))
        raise ValueError("cannot pickle this communicator: only COMM_NULL, COMM_SELF and COMM_WORLD exist elsewhere")

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
        self._live()
        return False

    def Is_intra(self) -> bool:
        """Whether it has no remote group."""
        self._live()
        return True

    is_inter = property(Is_inter, doc="whether it has a remote group")
    is_intra = property(Is_intra, doc="whether it has no remote group")

    def Get_topology(self) -> int:
        """UNDEFINED: it has no topology."""
        self._live()
        return UNDEFINED

    topology = property(Get_topology, doc="type of its topology")
    is_topo = property(lambda self: self.Get_topology() != UNDEFINED, doc="whether it has a topology")

    def Compare(self, comm: Comm) -> int:
        """IDENT, CONGRUENT, SIMILAR or UNEQUAL."""
        mine, other = self._live(), comm._live()
        if mine is other:
            return IDENT
        if mine.members == other.members:
            return CONGRUENT
        return SIMILAR if set(mine.members) == set(other.members) else UNEQUAL

    # ---- making others ---------------------------------------------------------------------------------

    def Clone(self) -> Self:
        """A copy, without the attributes."""
        return self._new(self._live().members)

    def Dup(self, info: Info | None = None) -> Self:
        """A copy with its own contexts, and the attributes that their copy functions let through (IMPI 4.6)."""
        state = self._alive()
        duplicate = self._new(self._live().members)
        duplicate._alive().attributes = state.attributes.copy(self)
        duplicate._alive().errhandler = state.errhandler
        duplicate._alive().info = (info or state.info).Dup()
        return duplicate

    def Dup_with_info(self, info: Info) -> Self:
        """A copy with these hints."""
        return self.Dup(info)

    def Create(self, group: Group) -> Comm:
        """A communicator of the members of ``group``; COMM_NULL for the rest, who must call it too (IMPI 4.4)."""
        cid = self._new_cid()
        if runtime.engine().rank not in group._ranks:
            return COMM_NULL
        return Intracomm._of(runtime.engine().make_context(cid, group._ranks))

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """One communicator for each color, ordered by key, then rank (IMPI 4.7)."""
        if color < 0 and color != UNDEFINED:
            raise error("ERR_ARG", f"color {color} is negative and not UNDEFINED")
        context = self._live()
        cid = self._new_cid()
        mine = _SPLIT.pack(color, key, context.rank)
        short = is_short(_SPLIT.size, runtime.engine().job.xsize)
        algorithm = allgather(
            self._layout, context.rank, mine, Fixed(_SPLIT.size), maxlinear=runtime.engine().job.maxlinear, short=short
        )
        rows = [_SPLIT.unpack(row) for row in self._complete(algorithm)]
        if color == UNDEFINED:
            return COMM_NULL
        chosen = sorted((k, r) for c, k, r in rows if c == color)
        return Intracomm._of(runtime.engine().make_context(cid, [context.members[r] for _, r in chosen]))

    def Split_type(self, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Comm:
        """COMM_TYPE_SHARED: the procs of one client on one node; with UNDEFINED COMM_NULL."""
        if split_type not in (COMM_TYPE_SHARED, UNDEFINED):
            raise error("ERR_ARG", f"split type {split_type} is not COMM_TYPE_SHARED")
        job, me = runtime.engine().job, runtime.engine().rank
        # Procs of one client that advertise one address live on one node.
        same = [p.rank for p in job.procs if (p.client, p.ipv6) == (job.procs[me].client, job.procs[me].ipv6)]
        return self.Split(UNDEFINED if split_type == UNDEFINED else same[0], key)

    def Free(self) -> None:
        """Give it back; collective (IMPI 4.5)."""
        from impi.api import world

        if self in (world.COMM_WORLD, world.COMM_SELF):
            raise error("ERR_COMM", "COMM_WORLD and COMM_SELF cannot be freed")
        state, context = self._alive(), self._live()
        state.attributes.clear(self)
        self.Barrier()
        runtime.engine().close(context)
        state.context = None
        self._state = None

    Disconnect = Free

    def free(self) -> None:
        """Give it back unless it is null or predefined."""
        from impi.api import world

        if self and self not in (world.COMM_WORLD, world.COMM_SELF):
            self.Free()

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

    # ---- name, info, errors ----------------------------------------------------------------------------

    def Get_name(self) -> str:
        """Its name, "" until it is given one."""
        return self._alive().name

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

    def Get_errhandler(self) -> Errhandler:
        """What is done about errors; in Python they are exceptions (ERRORS_RETURN) by default."""
        return self._alive().errhandler

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Choose what is done about errors."""
        self._alive().errhandler = errhandler

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole job."""
        runtime.abort(errorcode)

    # ---- inside ----------------------------------------------------------------------------------------

    def _complete(self, algorithm: Any) -> Any:
        """Run an algorithm of octets to its end."""
        engine = runtime.engine()
        operation = CollectiveOperation(engine, self._live(), algorithm, OctetCodec())
        if not operation.done:
            engine.track(operation)
            engine.wait(lambda: operation.done)
        return operation.result

    def _new_cid(self) -> int:
        """IMPI 4.3.1: the collective maximum over all members, then the next pair of ids."""
        contexts = runtime.contexts()
        mine = _UINT8.pack(contexts.contribution())
        # Big-endian octets of equal length compare as the numbers they are.
        largest = Reduction(lambda a, b: max(bytes(a), bytes(b)))
        algorithm = allreduce(self._layout, self._live().rank, mine, largest, maxlinear=runtime.engine().job.maxlinear)
        return contexts.take(_UINT8.unpack(self._complete(algorithm))[0])

    def _new(self, members: tuple[int, ...]) -> Self:
        return type(self)._of(runtime.engine().make_context(self._new_cid(), members))


class Intracomm(Comm):
    """A communicator of one group."""


COMM_NULL: Final = Comm._define("COMM_NULL", None)


def _predefined(name: str) -> Comm:
    from impi.api import world

    return COMM_NULL if name == "COMM_NULL" else getattr(world, name)
