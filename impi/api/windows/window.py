"""Win: windows of one process, of procs that share memory, and of any procs by messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from impi.api import runtime
from impi.api.comms.groups import Group
from impi.api.comms.intracomm import COMM_SELF, Intracomm
from impi.api.constants import (
    LOCK_EXCLUSIVE,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
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
from impi.api.windows.exported import export_buffers
from impi.api.windows.onesided import OneSided
from impi.api.windows.winstate import WindowState, check_size
from impi.semantics.constants import PROC_NULL
from impi.semantics.errors import error

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
    """A window; freed ones: ``ERR_WIN``.

    NotImplementedError: one of several clients where a client has IMPI 0.0 alone.
    """

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
        memory = None if memory is BOTTOM else memory
        return cls._made("MPI_Win_create", lambda: memory, disp_unit, WIN_FLAVOR_CREATE, info, comm)

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Create a window on ``size`` octets of new memory, all 0."""
        return cls._made("MPI_Win_allocate", lambda: _allocated(size), disp_unit, WIN_FLAVOR_ALLOCATE, info, comm)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Create a window on new memory, all 0, that every proc of ``comm`` can load and store.

        Contiguous over the ranks, unless every proc sets the hint ``alloc_shared_noncontig`` to
        "true": then the memory of each begins at a page. ``size`` and ``disp_unit`` may differ.

        Raises:
            Exception: the same at all procs: ``ERR_RMA_SHARED``: not all of one client on one node
                (Split_type(COMM_TYPE_SHARED) is); ``ERR_NO_MEM``; ``ERR_SIZE``; ``ERR_DISP``.
        """
        members = _members("MPI_Win_allocate_shared", comm)
        if len(members) == 1:
            return cls._window(WindowState(members, 0, _allocated(size), disp_unit, WIN_FLAVOR_SHARED), info)
        from impi.api.windows.shared import allocate  # most programs need not load it

        return cls._window(allocate(size, disp_unit, info, comm), info)

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """Create a window whose memory is attached later; target displacements are addresses."""
        return cls._made("MPI_Win_create_dynamic", lambda: None, 1, WIN_FLAVOR_DYNAMIC, info, comm)

    @classmethod
    def _made(
        cls, call: str, memory: Callable[[], object], disp_unit: int, flavor: int, info: Info, comm: Intracomm
    ) -> Self:
        members = _members(call, comm)
        if len(members) == 1:
            return cls._window(WindowState(members, 0, memory(), disp_unit, flavor), info)
        from impi.api.windows.spread import create  # most programs need not load it

        return cls._window(create(call, memory, disp_unit, flavor, info, comm), info)

    @classmethod
    def _window(cls, state: WindowState, info: Info) -> Self:
        state.hint(info)
        return cls._wrap(state)

    def Free(self) -> None:
        """Free the window.

        Raises:
            Exception: ``ERR_RMA_SYNC``: locked, or between Start and Complete, or Post and Wait.
        """
        state = self._live()
        state.epochs.check_closed()
        state.release()
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
        """Return the memory of the calling proc; empty if dynamic."""
        return _as_buffer(self._live().view)

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return memory and displacement unit of a rank; PROC_NULL: the first rank with memory.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is dynamic; ``ERR_RANK``.
        """
        state = self._live()
        state.check_rank(rank)
        if state.flavor == WIN_FLAVOR_DYNAMIC:
            raise error("ERR_RMA_FLAVOR", "a dynamic window has no memory of its own to ask for")
        view, disp_unit = state.segment(rank)
        return (_as_buffer(view), disp_unit)

    # ---- synchronization -------------------------------------------------------------------------

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch and begin one; collective."""
        state = self._live()
        begins = not state.epochs.fenced or bool(assertion & MODE_NOPRECEDE)
        state.epochs.fence(assertion)
        state.fence(begins=begins)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the procs of a group, once they have called :meth:`Post`."""
        state = self._live()
        ranks = state.ranks_of(group._ranks)
        state.epochs.start(assertion, ranks)
        state.start(ranks, checked=bool(assertion & MODE_NOCHECK))

    def Complete(self) -> None:
        """End the access epoch of :meth:`Start`."""
        state = self._live()
        state.complete(state.epochs.complete())

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Begin to expose the window to a group."""
        state = self._live()
        ranks = state.ranks_of(group._ranks)
        state.epochs.post(assertion, ranks)
        state.post(ranks, checked=bool(assertion & MODE_NOCHECK))

    def Wait(self) -> Literal[True]:
        """End the exposure epoch of :meth:`Post`; Exception instead of a wait for oneself."""
        state = self._live()
        state.await_accesses()
        state.epochs.wait()
        return True

    def Test(self) -> bool:
        """Return whether the epoch of :meth:`Post` can end; end it if so."""
        state = self._live()
        return state.accesses_done() and state.epochs.test()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a rank; MODE_NOCHECK vouches that no lock of others excludes it."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.lock(rank, lock_type, assertion)
        if rank != PROC_NULL and not assertion & MODE_NOCHECK:
            state.lock(rank, exclusive=lock_type == LOCK_EXCLUSIVE)

    def Unlock(self, rank: int) -> None:
        """End the epoch of :meth:`Lock`."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.unlock(rank)
        if rank != PROC_NULL:
            state.unlock(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access every rank, beside others that share the locks."""
        state = self._live()
        state.epochs.lock_all(assertion)
        if not assertion & MODE_NOCHECK:
            state.lock_all()

    def Unlock_all(self) -> None:
        """End the epoch of :meth:`Lock_all`."""
        state = self._live()
        state.epochs.unlock_all()
        state.unlock_all()

    def Flush(self, rank: int) -> None:
        """Wait until all accesses of a rank are complete."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_passive(rank)
        if rank != PROC_NULL:
            state.flush(rank)

    def Flush_all(self) -> None:
        """Wait until all accesses are complete."""
        state = self._live()
        state.epochs.check_passive()
        state.flush(None)

    def Flush_local(self, rank: int) -> None:
        """Wait until the buffers of all accesses of a rank are free."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_passive(rank)
        if rank != PROC_NULL:
            state.flush_local(rank)

    def Flush_local_all(self) -> None:
        """Wait until the buffers of all accesses are free."""
        state = self._live()
        state.epochs.check_passive()
        state.flush_local(None)

    def Sync(self) -> None:
        """Order loads and stores of this proc before the call and those after it."""
        self._live().sync()

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
        """Return the group of the procs."""
        state = self._live()
        return Group._of(state.members, state.members[state.rank])

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
        """Return a copy of the hints that MPI knows, with their defaults."""
        return self._live().info.Dup()

    def Set_info(self, info: Info) -> None:
        """Set hints, without any effect in impi; those that MPI does not know are ignored."""
        self._live().hint(info)

    info = property(Get_info, Set_info, doc="its hints")


def _members(call: str, comm: Comm) -> Sequence[int]:
    """Return the world ranks of the members."""
    context = comm._live()
    if context.is_inter:
        raise error("ERR_COMM", f"{call} needs an intracommunicator")
    return context.members


def _as_buffer(view: memoryview) -> buffer:
    from impi.api.types.bufferclass import buffer

    return buffer.frombuffer(view) if view.nbytes else buffer()


def _allocated(size: int) -> buffer:
    check_size(size)
    from impi.api.types.bufferclass import buffer

    return buffer.allocate(size, clear=True)


def _changeable(keyval: int) -> int:
    if keyval in _PREDEFINED:
        raise error("ERR_KEYVAL", f"attribute {keyval} is predefined and cannot be changed")
    return keyval


WindowState._handles = Win
if sys.version_info < (3, 12):
    export_buffers(Win)

WIN_NULL: Final = Win._define("WIN_NULL", None)
