"""Win: windows of one process, of procs that share memory, and of any procs by messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.comms.groups import Group
from impi.rank.api.comms.intracomm import COMM_SELF, Intracomm
from impi.rank.api.constants import (
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
from impi.rank.api.handles import (
    INFO_NULL,
    Handle,
    HasAttributes,
    HasErrhandler,
    HasInfo,
    HasName,
    Info,
    Keyvals,
    guarded,
)
from impi.rank.api.types.buffers import BOTTOM
from impi.rank.api.windows.exported import export_buffers
from impi.rank.api.windows.onesided import OneSided
from impi.rank.api.windows.synchronization import Synchronization
from impi.rank.api.windows.winstate import WindowState, check_size

if TYPE_CHECKING:
    from impi.rank.api.comms.comm import Comm
    from impi.rank.api.types.bufferclass import buffer

__all__ = ["WIN_NULL", "Win"]

_PREDEFINED: Final[dict[int, Callable[[Any], int]]] = {
    WIN_BASE: lambda win: win._live().base,
    WIN_SIZE: lambda win: win._live().view.nbytes,
    WIN_DISP_UNIT: lambda win: win._live().disp_unit,
    WIN_CREATE_FLAVOR: lambda win: win._live().flavor,
    WIN_MODEL: lambda win: WIN_UNIFIED,
}


@guarded
class Win(
    Handle, HasErrhandler, HasAttributes, HasName, HasInfo, OneSided, Synchronization
):
    """Memory that other procs may access; null when made without arguments.

    Methods of a freed window raise Exception ``ERR_WIN``. Constructors raise NotImplementedError
    for procs of several clients if one of these has only IMPI 0.0.
    """

    _state: WindowState | None
    _kind = "window"
    _null_name = "MPI_WIN_NULL"
    _keyvals = Keyvals()
    _predefined_attributes = _PREDEFINED

    def _live(self) -> WindowState:
        runtime.engine()
        if self._state is None or self._state.freed:
            raise error(
                "ERR_WIN",
                "null window" if self._state is None else "the window was freed",
            )

        return self._state

    _object = _with_errhandler = _live

    @property
    def _owner(self) -> WindowState | None:
        return None if self._state is None or self._state.freed else self._state

    def __buffer__(self, flags: int, /) -> memoryview:
        return self._live().view

    # ---- making and freeing ----------------------------------------------------------------------

    @classmethod
    def Create(
        cls,
        memory: Any,
        disp_unit: int = 1,
        info: Info = INFO_NULL,
        comm: Intracomm = COMM_SELF,
    ) -> Self:
        """Create a window on user memory; BOTTOM or None: no memory."""
        memory = None if memory is BOTTOM else memory
        return cls._made(
            "MPI_Win_create", lambda: memory, disp_unit, WIN_FLAVOR_CREATE, info, comm
        )

    @classmethod
    def Allocate(
        cls,
        size: int,
        disp_unit: int = 1,
        info: Info = INFO_NULL,
        comm: Intracomm = COMM_SELF,
    ) -> Self:
        """Create a window on ``size`` octets of new memory, all 0."""
        return cls._made(
            "MPI_Win_allocate",
            lambda: _allocated(size),
            disp_unit,
            WIN_FLAVOR_ALLOCATE,
            info,
            comm,
        )

    @classmethod
    def Allocate_shared(
        cls,
        size: int,
        disp_unit: int = 1,
        info: Info = INFO_NULL,
        comm: Intracomm = COMM_SELF,
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
            return cls._window(
                WindowState(members, 0, _allocated(size), disp_unit, WIN_FLAVOR_SHARED),
                info,
            )

        # Most programs need not load it
        from impi.rank.api.windows.shared import allocate

        return cls._window(allocate(size, disp_unit, info, comm), info)

    @classmethod
    def Create_dynamic(
        cls, info: Info = INFO_NULL, comm: Intracomm = COMM_SELF
    ) -> Self:
        """Create a window whose memory is attached later; target displacements are addresses."""
        return cls._made(
            "MPI_Win_create_dynamic", lambda: None, 1, WIN_FLAVOR_DYNAMIC, info, comm
        )

    @classmethod
    def _made(
        cls,
        call: str,
        memory: Callable[[], object],
        disp_unit: int,
        flavor: int,
        info: Info,
        comm: Intracomm,
    ) -> Self:
        members = _members(call, comm)
        if len(members) == 1:
            return cls._window(
                WindowState(members, 0, memory(), disp_unit, flavor), info
            )

        # Most programs need not load it
        from impi.rank.api.windows.spread import create

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
        self._keyvals.clear(self, state.attributes)
        state.freed = True
        self._forget()

    # ---- memory ----------------------------------------------------------------------------------

    def Attach(self, memory: Any) -> None:
        """Attach a region to a window of :meth:`Create_dynamic`; regions must not overlap."""
        self._live().attach(memory)

    def Detach(self, memory: Any) -> None:
        self._live().detach(memory)

    def tomemory(self) -> buffer:
        return _as_buffer(self._live().view)

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        """Return memory and displacement unit of a rank; PROC_NULL: the first rank with memory.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is dynamic; ``ERR_RANK``.
        """

        state = self._live()

        state.check_rank(rank)
        if state.flavor == WIN_FLAVOR_DYNAMIC:
            raise error(
                "ERR_RMA_FLAVOR", "a dynamic window has no memory of its own to ask for"
            )

        view, disp_unit = state.segment(rank)

        return (_as_buffer(view), disp_unit)

    # ---- attributes ------------------------------------------------------------------------------

    attrs = property(
        lambda self: tuple(
            self.Get_attr(key) for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)
        ),
        doc="address, octets and displacement unit",
    )
    flavor = property(
        lambda self: self.Get_attr(WIN_CREATE_FLAVOR), doc="which constructor made it"
    )
    model = property(lambda self: self.Get_attr(WIN_MODEL), doc="memory model")

    # ---- group ---------------------------------------------------------------

    def Get_group(self) -> Group:
        state = self._live()
        return Group._of(state.members, state.members[state.rank])

    group = property(Get_group, doc="the group")
    group_size = property(
        lambda self: self.Get_group().Get_size(), doc="number of procs"
    )
    group_rank = property(
        lambda self: self.Get_group().Get_rank(), doc="rank of the caller"
    )


def _members(call: str, comm: Comm) -> Sequence[int]:
    context = comm._live()
    if context.is_inter:
        raise error("ERR_COMM", f"{call} needs an intracommunicator")

    return context.members


def _as_buffer(view: memoryview) -> buffer:
    from impi.rank.api.types.bufferclass import buffer

    return buffer.frombuffer(view) if view.nbytes else buffer()


def _allocated(size: int) -> buffer:
    check_size(size)
    from impi.rank.api.types.bufferclass import buffer

    return buffer.allocate(size, clear=True)


WindowState._handles = Win
if sys.version_info < (3, 12):
    export_buffers(Win)

WIN_NULL: Final = Win._define("WIN_NULL", None)
