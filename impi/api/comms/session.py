"""Session: handles of the one job that exists (MPI 4.1, 11.3), as in mpi4py.

Its process sets are those that MPI demands; communicators are created from their groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from impi.api import runtime
from impi.api.comms.groups import Group
from impi.api.handles.errhandler import Errhandler, initial
from impi.api.handles.failing import guarded
from impi.api.handles.handle import Handle, State
from impi.api.handles.info import INFO_NULL, Info
from impi.api.p2p.bsend import Attached
from impi.api.p2p.request import Request
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec

__all__ = ["SESSION_NULL", "Session"]

_WORLD: Final = "mpi://WORLD"
_SELF: Final = "mpi://SELF"


class _SessionState(State):
    def __init__(self, info: Info, errhandler: Errhandler | None) -> None:
        super().__init__()
        self.info = Info.Create(info)
        self.errhandler = initial(errhandler)
        self.attached = Attached()


@guarded
class Session(Handle):
    """A session; null when made without arguments."""

    _state: _SessionState | None

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        """Begin a session."""
        runtime.engine()
        return cls._wrap(_SessionState(info, errhandler))

    def Finalize(self) -> None:
        """End the session."""
        self._live()
        self._state = None

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        """Return the number of process sets."""
        return len(self._psets())

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        """Return the name of a process set."""
        names = list(self._psets())
        if not 0 <= n < len(names):
            raise error("ERR_ARG", f"process set {n} is not in 0..{len(names) - 1}")
        return names[n]

    def Get_info(self) -> Info:
        """Return a copy of the hints."""
        return self._live().info.Dup()

    def Get_pset_info(self, pset_name: str) -> Info:
        """Return the size of a process set, as a hint."""
        return Info.Create({"mpi_size": str(len(self._procs(pset_name)))})

    def Create_group(self, pset_name: str) -> Group:
        """Return the group of a process set."""
        return Group._of(self._procs(pset_name), runtime.engine().rank, self._live().attached)

    def Attach_buffer(self, buf: BufferSpec) -> None:
        """Attach memory for buffered sends."""
        self._live().attached.attach(buf)

    def Detach_buffer(self) -> Any:
        """Wait until buffered messages are sent; detach and return the buffer."""
        return self._live().attached.detach()

    def Flush_buffer(self) -> None:
        """Wait until buffered messages are sent."""
        self._live().attached.flush().Wait()

    def Iflush_buffer(self) -> Request:
        """Return a request that is complete once buffered messages are sent."""
        return self._live().attached.flush()

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Session, int], None]) -> Errhandler:
        """Return a handler that calls ``errhandler_fn(session, errorcode)``."""
        return Errhandler._create(errhandler_fn, "session")

    def Get_errhandler(self) -> Errhandler:
        """Return the error handler."""
        return Errhandler(self._live().errhandler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set the error handler."""
        state = self._live()
        if not errhandler:
            raise error("ERR_ERRHANDLER", "null error handler")
        state.errhandler = Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Call the error handler."""
        state = self._live()
        state.errhandler._call(state, errorcode)

    @property
    def _owner(self) -> _SessionState | None:
        return self._state

    def _live(self) -> _SessionState:
        if self._state is None:
            raise error("ERR_SESSION", "null session")
        return self._state

    def _psets(self) -> dict[str, list[int]]:
        self._live()
        engine = runtime.engine()
        return {_WORLD: list(range(len(engine.job.procs))), _SELF: [engine.rank]}

    def _procs(self, name: str) -> list[int]:
        # The names that MPI defines are case-insensitive.
        for known, procs in self._psets().items():
            if known.lower() == name.lower():
                return procs
        raise error("ERR_ARG", f"there is no process set {name!r}; there are {', '.join(self._psets())}")


_SessionState._handles = Session

SESSION_NULL: Final = Session._define("SESSION_NULL", None)
