"""Win: one-sided communication is not supported; the class is there for what only asks for it."""

from __future__ import annotations

from typing import Final

from impi.api.failing import guarded
from impi.api.handle import Handle
from impi.api.unsupported import unsupported
from impi.semantics.errors import error

__all__ = ["WIN_NULL", "Win"]

_WHY: Final = "IMPI 0.0 has no one-sided communication; use messages"


@guarded
class Win(Handle):
    """A window; there are only null ones."""

    def Free(self) -> None:
        """Raises Exception: ERR_WIN, it is null."""
        raise error("ERR_WIN", "null window")


for _name in [
    "Create",
    "Allocate",
    "Allocate_shared",
    "Create_dynamic",
    "Create_keyval",
    "Free_keyval",
    "Create_errhandler",
]:
    setattr(Win, _name, classmethod(unsupported(f"MPI_Win_{_name.lower()}", _WHY)))
for _name in [
    "Shared_query",
    "Attach",
    "Detach",
    "Set_info",
    "Get_info",
    "Get_group",
    "Get_attr",
    "Set_attr",
    "Delete_attr",
    "tomemory",
    "Put",
    "Get",
    "Accumulate",
    "Get_accumulate",
    "Fetch_and_op",
    "Compare_and_swap",
    "Rput",
    "Rget",
    "Raccumulate",
    "Rget_accumulate",
    "Fence",
    "Start",
    "Complete",
    "Post",
    "Wait",
    "Test",
    "Lock",
    "Unlock",
    "Lock_all",
    "Unlock_all",
    "Flush",
    "Flush_all",
    "Flush_local",
    "Flush_local_all",
    "Sync",
    "Get_errhandler",
    "Set_errhandler",
    "Call_errhandler",
    "Get_name",
    "Set_name",
]:
    setattr(Win, _name, unsupported(f"MPI_Win_{_name.lower()}", _WHY))

WIN_NULL: Final = Win._define("WIN_NULL", None)
