"""File: parallel files are not supported; the class exists for programs that only name it."""

from __future__ import annotations

from typing import Final

from impi.api.handles.failing import guarded
from impi.api.handles.handle import Handle
from impi.api.handles.unsupported import unsupported
from impi.semantics.errors import error

__all__ = ["FILE_NULL", "File", "Register_datarep"]

_WHY: Final = "IMPI 0.0 has no parallel files; use Python's own, on one rank"


@guarded
class File(Handle):
    """A file handle, always null."""

    def Close(self) -> None:
        """Raise Exception: ERR_FILE: it is null."""
        raise error("ERR_FILE", "null file")


for _name in ["Open", "Delete", "Create_errhandler"]:
    setattr(File, _name, classmethod(unsupported(f"MPI_File_{_name.lower()}", _WHY)))
for _name in [
    "Set_size",
    "Preallocate",
    "Get_size",
    "Get_amode",
    "Get_group",
    "Set_info",
    "Get_info",
    "Set_view",
    "Get_view",
    "Read_at",
    "Read_at_all",
    "Write_at",
    "Write_at_all",
    "Iread_at",
    "Iread_at_all",
    "Iwrite_at",
    "Iwrite_at_all",
    "Read",
    "Read_all",
    "Write",
    "Write_all",
    "Iread",
    "Iread_all",
    "Iwrite",
    "Iwrite_all",
    "Seek",
    "Get_position",
    "Get_byte_offset",
    "Read_shared",
    "Write_shared",
    "Iread_shared",
    "Iwrite_shared",
    "Read_ordered",
    "Write_ordered",
    "Seek_shared",
    "Get_position_shared",
    "Read_at_all_begin",
    "Read_at_all_end",
    "Write_at_all_begin",
    "Write_at_all_end",
    "Read_all_begin",
    "Read_all_end",
    "Write_all_begin",
    "Write_all_end",
    "Read_ordered_begin",
    "Read_ordered_end",
    "Write_ordered_begin",
    "Write_ordered_end",
    "Get_type_extent",
    "Set_atomicity",
    "Get_atomicity",
    "Sync",
    "Get_errhandler",
    "Set_errhandler",
    "Call_errhandler",
]:
    setattr(File, _name, unsupported(f"MPI_File_{_name.lower()}", _WHY))

Register_datarep = unsupported("MPI_Register_datarep", _WHY)

FILE_NULL: Final = File._define("FILE_NULL", None)
