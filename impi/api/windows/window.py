"""Win: windows of one process, which need no messages; IMPI 0.0 has no one-sided calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from impi.api import runtime
from impi.api.comms.groups import Group
from impi.api.comms.intracomm import COMM_SELF, Intracomm
from impi.api.constants import (
    LOCK_EXCLUSIVE,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from impi.api.handles.errhandler import HasErrhandler
from impi.api.handles.failing import guarded
from impi.api.handles.handle import Handle
from impi.api.handles.info import INFO_NULL, Info
from impi.api.handles.keyvals import Keyvals
from impi.api.types.buffers import BOTTOM
from impi.api.windows.onesided import OneSided
from impi.api.windows.winstate import WindowState
from impi.semantics.errors import LackingError, error

if TYPE_CHECKING:
    from impi.api.comms.comm import Comm
    from impi.api.types.bufferclass import buffer

__all__ = ["WIN_NULL", "Win"]

_keyvals: Final = Keyvals()

_PREDEFINED: Final[dict[int, Callable[[WindowState], int]]] = {
    WIN_BASE: lambda state: state.base,
    WIN_SIZE: lambda state: state.view.nbytes,
    WIN_DISP_UNIT: lambda state: state.disp_unit,
    WIN_CREATE_FLAVOR: lambda state: state.flavor,
    WIN_MODEL: lambda state: WIN_UNIFIED,
}


@guarded
class Win(Handle, HasErrhandler, OneSided):
    """A window of one process (else NotImplementedError); null or freed ones raise ``ERR_WIN``."""

    _state: WindowState | None
    _kind = "window"

    def _live(self) -> WindowState:
        runtime.engine()
        if self._state is None or self._state.freed:
            raise error("ERR_WIN", "null window" if self._state is None else "the window was freed")
        return self._state

    _with_errhandler = _live

    @property
    def _owner(self) -> WindowState | None:
        return None if self._state is None or self._state.freed else self._state

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory (Python 3.12)."""
        return self._live().view

    # ---- making and freeing ----------------------------------------------------------------------

    @classmethod
    def Create(cls, memory: Any, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Create a window on user memory; BOTTOM or None: no memory."""
        world = _only_member("MPI_Win_create", comm)
        memory = None if memory is BOTTOM else memory
        return cls._window(WindowState(world, memory, disp_unit, WIN_FLAVOR_CREATE), info)

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Create a window on ``size`` octets of new memory, all 0."""
        world = _only_member("MPI_Win_allocate", comm)
        return cls._window(WindowState(world, _allocated(size), disp_unit, WIN_FLAVOR_ALLOCATE), info)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Create a window like :meth:`Allocate`: no other process shares it."""
        world = _only_member("MPI_Win_allocate_shared", comm)
        return cls._window(WindowState(world, _allocated(size), disp_unit, WIN_FLAVOR_SHARED), info)

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Create a window whose memory is attached later; target displacements are addresses."""
        world = _only_member("MPI_Win_create_dynamic", comm)
        return cls._window(WindowState(world, None, 1, WIN_FLAVOR_DYNAMIC), info)

    @classmethod
    def _window(cls, state: WindowState, info: Info) -> Self:
        state.info.update(info)
        return cls._wrap(state)

    def Free(self) -> None:
        """Free the window.

        Raises:
            Exception: ``ERR_RMA_SYNC``: locked, or between Start and Complete, or Post and Wait.
        """
        state = self._live()
        state.epochs.check_closed()
        _keyvals.clear(self, state.attributes)
        state.freed = True
        self._forget()

    # ---- memory ----------------------------------------------------------------------------------

    def Attach(self, memory: Any) -> None:
        """Attach a region to a window of :meth:`Create_dynamic`; regions must not overlap."""
        self._live().attach(memory)

    def Detach(self, memory: Any) -> None:
        """Detach a region."""
        self._live().detach(memory)

    def tomemory(self) -> buffer:
        """Return the memory; empty if dynamic."""
        from impi.api.types.bufferclass import buffer

        view = self._live().view
        return buffer.frombuffer(view) if view.nbytes else buffer()

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return memory and displacement unit of a rank; PROC_NULL: the first rank with memory.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is dynamic; ``ERR_RANK``.
        """
        state = self._live()
        state.check_rank(rank)
        if state.flavor == WIN_FLAVOR_DYNAMIC:
            raise error("ERR_RMA_FLAVOR", "a dynamic window has no memory of its own to ask for")
        return (self.tomemory(), state.disp_unit)

    # ---- synchronization -------------------------------------------------------------------------

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch and begin one."""
        self._live().epochs.fence(assertion)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the procs of a group."""
        state = self._live()
        state.epochs.start(assertion, me=_has_me(state, group))

    def Complete(self) -> None:
        """End the access epoch of :meth:`Start`."""
        self._live().epochs.complete()

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Begin to expose the window to a group."""
        state = self._live()
        state.epochs.post(assertion, me=_has_me(state, group))

    def Wait(self) -> Literal[True]:
        """End the exposure epoch of :meth:`Post`; Exception instead of an endless wait."""
        self._live().epochs.wait()
        return True

    def Test(self) -> bool:
        """Return whether the epoch of :meth:`Post` can end; end it if so."""
        return self._live().epochs.test()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a rank."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.lock(rank, lock_type, assertion)

    def Unlock(self, rank: int) -> None:
        """End the epoch of :meth:`Lock`."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.unlock(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access every rank."""
        self._live().epochs.lock_all(assertion)

    def Unlock_all(self) -> None:
        """End the epoch of :meth:`Lock_all`."""
        self._live().epochs.unlock_all()

    def Flush(self, rank: int) -> None:
        """Check the lock; all accesses of the rank are complete already."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_passive(rank)

    def Flush_all(self) -> None:
        """Check the locks; all accesses are complete already."""
        self._live().epochs.check_passive()

    def Flush_local(self, rank: int) -> None:
        """Flush like :meth:`Flush`."""
        self.Flush(rank)

    def Flush_local_all(self) -> None:
        """Flush like :meth:`Flush_all`."""
        self.Flush_all()

    def Sync(self) -> None:
        """Check the window, which is always in step with its memory."""
        self._live()

    # ---- attributes ------------------------------------------------------------------------------

    def Get_attr(self, keyval: int) -> int | Any | None:
        """Return the value of a key, or None."""
        state = self._live()
        predefined = _PREDEFINED.get(keyval)
        return _keyvals.get(state.attributes, keyval) if predefined is None else predefined(state)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Cache a value under a key."""
        _keyvals.set(self, self._live().attributes, _changeable(keyval), attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Delete the value of a key."""
        _keyvals.delete(self, self._live().attributes, _changeable(keyval))

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: Callable[[Win, int, Any], Any] | None = None,
        delete_fn: Callable[[Win, int, Any], None] | None = None,
        nopython: bool = False,
    ) -> int:
        """Return a new key for attributes of windows."""
        return _keyvals.create(copy_fn, delete_fn)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free a key."""
        return _keyvals.free(_changeable(keyval))

    attrs = property(
        lambda self: tuple(self.Get_attr(key) for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)),
        doc="address, octets and displacement unit",
    )
    flavor = property(lambda self: self.Get_attr(WIN_CREATE_FLAVOR), doc="which constructor made it")
    model = property(lambda self: self.Get_attr(WIN_MODEL), doc="memory model")

    # ---- group, name, info, errors ---------------------------------------------------------------

    def Get_group(self) -> Group:
        """Return the group of the one process."""
        world = self._live().world
        return Group._of([world], world)

    group = property(Get_group, doc="the group")
    group_size = property(lambda self: self.Get_group().Get_size(), doc="number of procs")
    group_rank = property(lambda self: self.Get_group().Get_rank(), doc="rank of the caller")

    def Get_name(self) -> str:
        """Return the name, "" by default."""
        return "MPI_WIN_NULL" if self._state is None else self._live().name

    def Set_name(self, name: str) -> None:
        """Set the name."""
        self._live().name = name

    name = property(Get_name, Set_name, doc="its name")

    def Get_info(self) -> Info:
        """Return a copy of the hints."""
        return self._live().info.Dup()

    def Set_info(self, info: Info) -> None:
        """Set hints, without any effect in impi."""
        self._live().info.update(info)

    info = property(Get_info, Set_info, doc="its hints")


def _only_member(call: str, comm: Comm) -> int:
    """Return the world rank of the only member."""
    context = comm._live()
    if context.is_inter:
        raise error("ERR_COMM", f"{call} needs an intracommunicator")
    if len(context.members) > 1:
        raise LackingError(
            f"{call} is not supported on a communicator of {len(context.members)} procs: IMPI 0.0 has no one-sided "
            "communication; use messages, or a window on COMM_SELF"
        )
    return context.members[0]


def _allocated(size: int) -> buffer:
    if size < 0:
        raise error("ERR_SIZE", f"a window cannot have {size} octets")
    from impi.api.types.bufferclass import buffer

    return buffer.allocate(size, clear=True)


def _changeable(keyval: int) -> int:
    if keyval in _PREDEFINED:
        raise error("ERR_KEYVAL", f"attribute {keyval} is predefined and cannot be changed")
    return keyval


def _has_me(state: WindowState, group: Group) -> bool:
    ranks = group._ranks
    if set(ranks) - {state.world}:
        raise error("ERR_GROUP", "the group has procs that are not in the window")
    return bool(ranks)


WindowState._handles = Win

WIN_NULL: Final = Win._define("WIN_NULL", None)
