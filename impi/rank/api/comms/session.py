"""Session: handles of the one job that exists (MPI 4.1, 11.3), as in mpi4py.

Its process sets are those that MPI demands; communicators are created from their groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.comms.groups import PROCESS_SETS, Group, process_set
from impi.rank.api.handles import (
    INFO_NULL,
    Errhandler,
    Handle,
    HasErrhandler,
    Info,
    State,
    guarded,
    initial,
)
from impi.rank.api.p2p.bsend import Attached, BufferedSends

__all__ = ["SESSION_NULL", "Session"]


class _SessionState(State):
    def __init__(self, info: Info, errhandler: Errhandler | None) -> None:
        super().__init__()
        self.info = Info.Create(info)
        self.info.Set("thread_level", f"MPI_THREAD_{runtime.most_threads().upper()}")
        self.errhandler = initial(errhandler)
        self.attached = Attached()


@guarded
class Session(Handle, HasErrhandler, BufferedSends):
    """A session; null when made without arguments."""

    _state: _SessionState | None
    _kind = "session"

    @classmethod
    def Init(cls, info: Info = INFO_NULL, errhandler: Errhandler | None = None) -> Self:
        runtime.engine()
        return cls._wrap(_SessionState(info, errhandler))

    def Finalize(self) -> None:
        self._live()
        self._state = None

    def Get_num_psets(self, info: Info = INFO_NULL) -> int:
        self._live()
        return len(PROCESS_SETS)

    def Get_nth_pset(self, n: int, info: Info = INFO_NULL) -> str:
        self._live()
        if not 0 <= n < len(PROCESS_SETS):
            raise error(
                "ERR_ARG", f"process set {n} is not in 0..{len(PROCESS_SETS) - 1}"
            )

        return PROCESS_SETS[n]

    def Get_info(self) -> Info:
        """Return a copy of the hints, and as "thread_level" the highest level of this process."""
        return self._live().info.Dup()

    def Get_pset_info(self, pset_name: str) -> Info:
        return Info.Create({"mpi_size": str(len(self._procs(pset_name)))})

    def Create_group(self, pset_name: str) -> Group:
        return Group._of(
            self._procs(pset_name), runtime.engine().rank, self._live().attached
        )

    @property
    def _owner(self) -> _SessionState | None:
        return self._state

    def _live(self) -> _SessionState:
        if self._state is None:
            raise error("ERR_SESSION", "null session")

        return self._state

    _with_errhandler = _live

    @property
    def _attached(self) -> Attached:
        return self._live().attached

    def _procs(self, name: str) -> Sequence[int]:
        self._live()

        members = process_set(name)
        if not members:
            raise error(
                "ERR_ARG",
                f"there is no process set {name!r}; there are {', '.join(PROCESS_SETS)}",
            )

        return members


_SessionState._handles = Session

SESSION_NULL: Final = Session._define("SESSION_NULL", None)
