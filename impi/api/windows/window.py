"""Win: windows of one process. IMPI 0.0 has no one-sided communication, and a process alone needs none."""

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
from impi.api.handles.errhandler import Errhandler
from impi.api.handles.failing import guarded
from impi.api.handles.handle import Handle
from impi.api.handles.info import INFO_NULL, Info
from impi.api.handles.keyvals import Keyvals
from impi.api.types.buffers import BOTTOM
from impi.api.windows.onesided import OneSided
from impi.api.windows.winstate import WindowState
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
class Win(Handle, OneSided):
    """A window of one process; null when made without arguments.

    On a larger communicator its constructors raise NotImplementedError. Methods raise Exception of class ``ERR_WIN``
    for a null window, and for one that was freed by another handle.
    """

    _state: WindowState | None

    def _live(self) -> WindowState:
        runtime.engine()
        if self._state is None or self._state.freed:
            raise error("ERR_WIN", "null window" if self._state is None else "the window was freed")
        return self._state

    @property
    def _owner(self) -> WindowState | None:
        return None if self._state is None or self._state.freed else self._state

    def __buffer__(self, flags: int, /) -> memoryview:
        """Its memory (Python 3.12)."""
        return self._live().view

    # ---- making and freeing ----------------------------------------------------------------------------

    @classmethod
    def Create(cls, memory: Any, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """A window on memory of the caller; on none with BOTTOM or None."""
        world = _only_member("MPI_Win_create", comm)
        memory = None if memory is BOTTOM else memory
        return cls._window(WindowState(world, memory, disp_unit, WIN_FLAVOR_CREATE), info)

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """A window on ``size`` octets of new memory, all 0."""
        world = _only_member("MPI_Win_allocate", comm)
        return cls._window(WindowState(world, _allocated(size), disp_unit, WIN_FLAVOR_ALLOCATE), info)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """As :meth:`Allocate`: there is nobody to share it with."""
        world = _only_member("MPI_Win_allocate_shared", comm)
        return cls._window(WindowState(world, _allocated(size), disp_unit, WIN_FLAVOR_SHARED), info)

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF) -> Self:
        """A window without memory, until some is attached. Target displacements are addresses."""
        world = _only_member("MPI_Win_create_dynamic", comm)
        return cls._window(WindowState(world, None, 1, WIN_FLAVOR_DYNAMIC), info)

    @classmethod
    def _window(cls, state: WindowState, info: Info) -> Self:
        state.info.update(info)
        return cls._wrap(state)

    def Free(self) -> None:
        """Give it back.

        Raises:
            Exception: ``ERR_RMA_SYNC``, it is locked, or between Start and Complete or Post and Wait.
        """
        state = self._live()
        state.epochs.check_closed()
        _keyvals.clear(self, state.attributes)
        state.freed = True
        self._forget()

    # ---- memory ----------------------------------------------------------------------------------------

    def Attach(self, memory: Any) -> None:
        """Expose a region by a window of :meth:`Create_dynamic`; must not overlap another."""
        self._live().attach(memory)

    def Detach(self, memory: Any) -> None:
        """Take a region back."""
        self._live().detach(memory)

    def tomemory(self) -> buffer:
        """Its memory; empty if dynamic."""
        from impi.api.types.bufferclass import buffer

        view = self._live().view
        return buffer.frombuffer(view) if view.nbytes else buffer()

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """The memory of a rank and its displacement unit; PROC_NULL is the first that has some.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``, the window is dynamic; ``ERR_RANK``.
        """
        state = self._live()
        state.check_rank(rank)
        if state.flavor == WIN_FLAVOR_DYNAMIC:
            raise error("ERR_RMA_FLAVOR", "a dynamic window has no memory of its own to ask for")
        return (self.tomemory(), state.disp_unit)

    # ---- synchronization -------------------------------------------------------------------------------

    def Fence(self, assertion: int = 0) -> None:
        """End an epoch and begin one."""
        self._live().epochs.fence(assertion)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begin to access the procs of a group."""
        state = self._live()
        state.epochs.start(assertion, me=_has_me(state, group))

    def Complete(self) -> None:
        """End what :meth:`Start` began."""
        self._live().epochs.complete()

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Let the procs of a group access."""
        state = self._live()
        state.epochs.post(assertion, me=_has_me(state, group))

    def Wait(self) -> Literal[True]:
        """End what :meth:`Post` began; an Exception where it would wait for ever."""
        self._live().epochs.wait()
        return True

    def Test(self) -> bool:
        """Whether what :meth:`Post` began is over; ends it then."""
        return self._live().epochs.test()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begin to access a rank."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.lock(rank, lock_type, assertion)

    def Unlock(self, rank: int) -> None:
        """End what :meth:`Lock` began."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.unlock(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begin to access every rank."""
        self._live().epochs.lock_all(assertion)

    def Unlock_all(self) -> None:
        """End what :meth:`Lock_all` began."""
        self._live().epochs.unlock_all()

    def Flush(self, rank: int) -> None:
        """All accesses of a locked rank are complete already."""
        state = self._live()
        state.check_rank(rank)
        state.epochs.check_passive(rank)

    def Flush_all(self) -> None:
        """All accesses of locked ranks are complete already."""
        self._live().epochs.check_passive()

    def Flush_local(self, rank: int) -> None:
        """As :meth:`Flush`."""
        self.Flush(rank)

    def Flush_local_all(self) -> None:
        """As :meth:`Flush_all`."""
        self.Flush_all()

    def Sync(self) -> None:
        """The window and its memory are the same already."""
        self._live()

    # ---- attributes ------------------------------------------------------------------------------------

    def Get_attr(self, keyval: int) -> int | Any | None:
        """The value cached under a key, or None."""
        state = self._live()
        predefined = _PREDEFINED.get(keyval)
        return _keyvals.get(state.attributes, keyval) if predefined is None else predefined(state)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Cache a value under a key."""
        _keyvals.set(self, self._live().attributes, _changeable(keyval), attrval)

    def Delete_attr(self, keyval: int) -> None:
        """Forget the value of a key."""
        _keyvals.delete(self, self._live().attributes, _changeable(keyval))

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: Callable[[Win, int, Any], Any] | None = None,
        delete_fn: Callable[[Win, int, Any], None] | None = None,
        nopython: bool = False,
    ) -> int:
        """A new key for attributes of windows."""
        return _keyvals.create(copy_fn, delete_fn)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Give a key back."""
        return _keyvals.free(_changeable(keyval))

    attrs = property(
        lambda self: tuple(self.Get_attr(key) for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)),
        doc="address, octets and displacement unit",
    )
    flavor = property(lambda self: self.Get_attr(WIN_CREATE_FLAVOR), doc="which constructor made it")
    model = property(lambda self: self.Get_attr(WIN_MODEL), doc="memory model")

    # ---- group, name, info, errors ---------------------------------------------------------------------

    def Get_group(self) -> Group:
        """The group of the one process."""
        world = self._live().world
        return Group._of([world], world)

    group = property(Get_group, doc="the group")
    group_size = property(lambda self: self.Get_group().Get_size(), doc="number of procs")
    group_rank = property(lambda self: self.Get_group().Get_rank(), doc="rank of the caller")

    def Get_name(self) -> str:
        """Its name, "" until it is given one."""
        return "MPI_WIN_NULL" if self._state is None else self._live().name

    def Set_name(self, name: str) -> None:
        """Give it a name."""
        self._live().name = name

    name = property(Get_name, Set_name, doc="its name")

    def Get_info(self) -> Info:
        """A copy of its hints."""
        return self._live().info.Dup()

    def Set_info(self, info: Info) -> None:
        """Set hints; none changes what impi does."""
        self._live().info.update(info)

    info = property(Get_info, Set_info, doc="its hints")

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Win, int], None]) -> Errhandler:
        """A handler that calls ``errhandler_fn(win, errorcode)``."""
        return Errhandler._create(errhandler_fn, "window")

    def Get_errhandler(self) -> Errhandler:
        """What is done about errors before they are exceptions; nothing (ERRORS_RETURN) by default."""
        return Errhandler(self._live().errhandler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Choose what is done about errors."""
        state = self._live()
        if not errhandler:
            raise error("ERR_ERRHANDLER", "null error handler")
        state.errhandler = Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Let the handler do what it does about an error."""
        state = self._live()
        state.errhandler._call(state, errorcode)


def _only_member(call: str, comm: Comm) -> int:
    """The rank in MPI_COMM_WORLD of the only member."""
    context = comm._live()
    if context.is_inter:
        raise error("ERR_COMM", f"{call} needs an intracommunicator")
    if len(context.members) > 1:
        raise NotImplementedError(
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
