"""File: a file that procs of all clients access, as mpi4py's class of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from impi.api import runtime
from impi.api.comms.groups import Group
from impi.api.constants import MODE_RDONLY, SEEK_SET
from impi.api.files.access import FileAccess
from impi.api.handles.errhandler import ERRORS_RETURN, Errhandler, HasErrhandler
from impi.api.handles.failing import guarded, handle
from impi.api.handles.handle import Handle
from impi.api.handles.info import INFO_NULL, Info
from impi.api.types.datatypes import BYTE, Datatype
from impi.semantics.errors import MPIException, error

if TYPE_CHECKING:
    from impi.api.comms.intracomm import Intracomm
    from impi.api.files.filestate import FileState
    from impi.api.types.specs import FileName

__all__ = ["FILE_NULL", "File"]


class _NoFile:
    """The owner of failures where no file is open; its handler is that of new files."""

    def __init__(self) -> None:
        self.errhandler = Errhandler(ERRORS_RETURN)

    def new_handle(self) -> File:
        """Return a null handle."""
        return File()


@guarded
class File(Handle, HasErrhandler, FileAccess):
    """An open file; null when made without arguments.

    Set_size, Preallocate, Set_view, Seek_shared, Set_atomicity, Sync, Close and all calls with
    "all" or "ordered" in their name are collective.
    """

    _state: FileState | None
    _kind = "file"

    def _live(self) -> FileState:
        runtime.engine()
        if self._state is None or self._state.closed:
            raise error("ERR_FILE", "null file" if self._state is None else "the file was closed")
        return self._state

    def _with_errhandler(self) -> FileState | _NoFile:
        return _NO_FILE if self._state is None else self._live()

    @property
    def _owner(self) -> FileState | _NoFile:
        return _NO_FILE if self._state is None or self._state.closed else self._state

    def __bool__(self) -> bool:
        return self._state is not None and not self._state.closed

    # ---- opening and closing ---------------------------------------------------------------------

    @classmethod
    def Open(cls, comm: Intracomm, filename: FileName, amode: int = MODE_RDONLY, info: Info = INFO_NULL) -> Self:
        """Open a file by all procs of ``comm``; collective.

        Hints: ``romio_cb_write`` (enable, disable, automatic): whether procs put collective writes
        together. ``impi_io_client``: the number of the client whose procs access the file for all.

        Raises:
            Exception: the same at all procs, ``ERR_NO_SUCH_FILE`` where some do not see the file
                among them; ``ERR_AMODE``; ``ERR_NOT_SAME``; ``ERR_FILE_EXISTS``; ``ERR_ACCESS``;
                ``ERR_BAD_FILE``; ``ERR_READ_ONLY``; ``ERR_IO``.
        """
        from impi.api.files.filestate import FileState  # most programs need not load it
        from impi.api.files.opening import open_file

        FileState._handles = File
        try:
            return cls._wrap(open_file(comm, filename, amode, info, _NO_FILE.errhandler))
        except MPIException as failure:
            handle(failure, _NO_FILE)
            raise

    def Close(self) -> None:
        """Close the file once all procs do."""
        self._live().close()
        self._forget()

    def free(self) -> None:
        """Close the file unless the handle is null."""
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file; ``ERR_NO_SUCH_FILE``, ``ERR_ACCESS``, ``ERR_BAD_FILE``: a folder."""
        from os import fsencode

        from impi.api.files.descriptor import delete

        try:
            delete(fsencode(filename))
        except MPIException as failure:
            handle(failure, _NO_FILE)
            raise

    # ---- the file --------------------------------------------------------------------------------

    def Set_size(self, size: int) -> None:
        """Cut or extend the file to ``size`` octets."""
        self._live().resize(size, reserve=False)

    def Preallocate(self, size: int) -> None:
        """Extend the file to ``size`` octets that the device has room for, unless it is larger."""
        self._live().resize(size, reserve=True)

    def Get_size(self) -> int:
        """Return the octets of the file."""
        return self._live().own().size

    def Get_amode(self) -> int:
        """Return the access mode."""
        return self._live().amode

    def Get_group(self) -> Group:
        """Return the group of the procs that have opened the file."""
        members = self._live().team._live().members
        return Group._of(members, runtime.engine().rank)

    def Set_info(self, info: Info) -> None:
        """Set hints; they count from the next :meth:`Set_view` on."""
        self._live().info.update(info)

    def Get_info(self) -> Info:
        """Return a copy of the hints."""
        return self._live().info.Dup()

    def Sync(self) -> None:
        """Wait until all that this proc has written is on the device."""
        self._live().sync()

    def Set_atomicity(self, flag: bool) -> None:
        """Choose whether accesses that overlap follow each other; they are slower then."""
        self._live().atomic = bool(flag)

    def Get_atomicity(self) -> bool:
        """Return whether accesses that overlap follow each other."""
        return self._live().atomic

    size = property(Get_size, doc="octets of the file")
    amode = property(Get_amode, doc="access mode")
    group = property(Get_group, doc="group of its procs")
    group_size = property(lambda self: self.Get_group().Get_size(), doc="number of procs")
    group_rank = property(lambda self: self.Get_group().Get_rank(), doc="rank of the caller")
    info = property(Get_info, Set_info, doc="hints")
    atomicity = property(Get_atomicity, Set_atomicity, doc="whether accesses that overlap follow each other")

    # ---- view ------------------------------------------------------------------------------------

    def Set_view(
        self,
        disp: int = 0,
        etype: Datatype = BYTE,
        filetype: Datatype | None = None,
        datarep: str = "native",
        info: Info = INFO_NULL,
    ) -> None:
        """Choose the part of the file that this proc sees; all pointers become 0.

        Args:
            disp: the octet where the first file type begins; DISPLACEMENT_CURRENT in a sequential
                file.
            etype: the unit of offsets.
            filetype: made of etypes and holes; repeated. None: the etype.
            datarep: native, internal, external32, or one of :func:`Register_datarep`.
            info: hints.

        Raises:
            Exception: the same at all procs: ``ERR_ARG``: displacements are negative or decrease,
                or overlap in a file for writing; ``ERR_TYPE``; ``ERR_UNSUPPORTED_DATAREP``;
                ``ERR_NOT_SAME``.
        """
        self._live().set_view(disp, etype, etype if filetype is None else filetype, datarep or "native", info)

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        """Return displacement, etype, file type and data representation."""
        state = self._live()
        return (state.view.displacement, _given(state.etype), _given(state.filetype), state.datarep)

    def Get_type_extent(self, datatype: Datatype) -> int:
        """Return the extent of a datatype in the file."""
        from impi.api.files.datareps import in_file

        return in_file(datatype._live(), self._live().representation).extent

    # ---- pointers --------------------------------------------------------------------------------

    def Seek(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the individual pointer; ``ERR_ARG``: before the view."""
        state = self._live()
        state.check_random()
        state.individual.position = state.sought(offset, whence, state.individual.position)

    def Get_position(self) -> int:
        """Return the individual pointer, in etypes."""
        state = self._live()
        state.check_random()
        return state.individual.position

    def Get_byte_offset(self, offset: int) -> int:
        """Return the octet of the file where an offset of the view is."""
        state = self._live()
        state.check_random()
        if offset < 0:
            raise error("ERR_ARG", f"the offset {offset} is negative")
        return state.view.place(offset * state.unit)

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the shared pointer; collective. ``ERR_ARG``: before the view; ``ERR_NOT_SAME``."""
        self._live().seek_shared(offset, whence)

    def Get_position_shared(self) -> int:
        """Return the shared pointer, in etypes."""
        return self._live().shared.position


def _given(datatype: Datatype) -> Datatype:
    """Return what the program may free: the constant of a predefined datatype, else a copy."""
    state = datatype._live()
    if state.predefined:
        constant: Datatype = Datatype._found(state)
        return constant
    return Datatype._wrap(datatype._derived_copy(state))


_NO_FILE: Final = _NoFile()

FILE_NULL: Final = File._define("FILE_NULL", None)
