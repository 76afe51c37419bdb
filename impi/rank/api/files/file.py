"""File: a file that procs of all clients access, as mpi4py's class of the same name.

How it works: a handle names a :class:`.filestate.FileState`, which has descriptor, view and
pointers of this proc. Each proc makes its own POSIX calls. Collective calls exchange messages only
to agree (:mod:`.agreement`): if the arguments of one proc are wrong, all raise the same class of
error, and no proc has changed the file. The calls on data are in :mod:`.access`. The modules behind
an open file load at the first Open, because most programs have none (docs/how-it-works/files.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.comms.groups import Group
from impi.rank.api.constants import MODE_RDONLY, SEEK_SET
from impi.rank.api.files.access import AtIndividual, AtOffsets, AtShared
from impi.rank.api.handles import (
    ERRORS_RETURN,
    INFO_NULL,
    Errhandler,
    Handle,
    HasErrhandler,
    HasInfo,
    Info,
    guarded,
)
from impi.rank.api.handles.failing import handle
from impi.rank.api.types.constructors import derived_copy
from impi.rank.api.types.datatypes import BYTE, Datatype

if TYPE_CHECKING:
    from impi.rank.api.comms.intracomm import Intracomm
    from impi.rank.api.files.filestate import FileState
    from impi.rank.api.types.specs import FileName

__all__ = ["FILE_NULL", "File"]


class _NoFile:
    """The owner of failures where no file is open; its handler is that of new files."""

    def __init__(self) -> None:
        self.errhandler = Errhandler(ERRORS_RETURN)

    def new_handle(self) -> File:
        return File()


@guarded
class File(Handle, HasErrhandler, HasInfo, AtOffsets, AtIndividual, AtShared):
    """An open file; null when made without arguments.

    Set_size, Preallocate, Set_view, Seek_shared, Set_atomicity, Sync, Close and all calls with
    "all" or "ordered" in their name are collective.
    """

    _state: FileState | None
    _kind = "file"

    def _live(self) -> FileState:
        runtime.engine()
        if self._state is None or self._state.closed:
            raise error(
                "ERR_FILE",
                "null file" if self._state is None else "the file was closed",
            )

        return self._state

    _object = _live

    def _with_errhandler(self) -> FileState | _NoFile:
        return _NO_FILE if self._state is None else self._live()

    @property
    def _owner(self) -> FileState | _NoFile:
        return _NO_FILE if self._state is None or self._state.closed else self._state

    def __bool__(self) -> bool:
        return self._state is not None and not self._state.closed

    # ---- opening and closing ---------------------------------------------------------------------

    @classmethod
    def Open(
        cls,
        comm: Intracomm,
        filename: FileName,
        amode: int = MODE_RDONLY,
        info: Info = INFO_NULL,
    ) -> Self:
        """Open a file by all procs of ``comm``; collective.

        Hints: ``romio_cb_write`` (enable, disable, automatic): whether procs put collective writes
        together. ``impi_io_client``: the number of the client whose procs access the file for all.

        Raises:
            Exception: the same at all procs, ``ERR_NO_SUCH_FILE`` where some do not see the file
                among them; ``ERR_AMODE``; ``ERR_NOT_SAME``; ``ERR_FILE_EXISTS``; ``ERR_ACCESS``;
                ``ERR_BAD_FILE``; ``ERR_READ_ONLY``; ``ERR_IO``.
        """

        # Most programs need not load it
        from impi.rank.api.files.filestate import FileState
        from impi.rank.api.files.opening import open_file

        # Here, as the module of FileState is loaded at the first opening.
        FileState._handles = File
        try:
            return cls._wrap(
                open_file(comm, filename, amode, info, _NO_FILE.errhandler)
            )
        except MPIException as failure:
            handle(failure, _NO_FILE)
            raise

    def Close(self) -> None:
        self._live().close()
        self._forget()

    def free(self) -> None:
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: FileName, info: Info = INFO_NULL) -> None:
        """Delete a file; ``ERR_NO_SUCH_FILE``, ``ERR_ACCESS``, ``ERR_BAD_FILE``: a folder."""
        from os import fsencode

        from impi.rank.api.files.descriptor import delete

        try:
            delete(fsencode(filename))
        except MPIException as failure:
            handle(failure, _NO_FILE)
            raise

    # ---- the file --------------------------------------------------------------------------------

    def Set_size(self, size: int) -> None:
        self._live().resize(size, reserve=False)

    def Preallocate(self, size: int) -> None:
        self._live().resize(size, reserve=True)

    def Get_size(self) -> int:
        return self._live().own().size

    def Get_amode(self) -> int:
        return self._live().opened.amode

    def Get_group(self) -> Group:
        return Group._of(self._live().team._live().members, runtime.engine().rank)

    def Sync(self) -> None:
        self._live().sync()

    def Set_atomicity(self, flag: bool) -> None:
        """Choose whether overlapping accesses happen one after the other, which is slower."""
        self._live().atomic = bool(flag)

    def Get_atomicity(self) -> bool:
        return self._live().atomic

    size = property(Get_size, doc="octets of the file")
    amode = property(Get_amode, doc="access mode")
    group = property(Get_group, doc="group of its procs")
    group_size = property(
        lambda self: self.Get_group().Get_size(), doc="number of procs"
    )
    group_rank = property(
        lambda self: self.Get_group().Get_rank(), doc="rank of the caller"
    )
    atomicity = property(
        Get_atomicity,
        Set_atomicity,
        doc="whether accesses that overlap follow each other",
    )

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
        self._live().set_view(
            disp,
            etype,
            etype if filetype is None else filetype,
            datarep or "native",
            info,
        )

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        state = self._live()
        viewed = state.viewed
        return (
            state.view.displacement,
            _given(viewed.etype),
            _given(viewed.filetype),
            viewed.datarep,
        )

    def Get_type_extent(self, datatype: Datatype) -> int:
        from impi.rank.api.files.datareps import in_file

        return in_file(datatype._live(), self._live().representation).extent

    # ---- pointers --------------------------------------------------------------------------------

    def Seek(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the individual pointer; ``ERR_ARG``: before the view."""
        state = self._live()
        state.check_random()
        state.individual.position = state.sought(
            offset, whence, state.individual.position
        )

    def Get_position(self) -> int:
        state = self._live()
        state.check_random()
        return state.individual.position

    def Get_byte_offset(self, offset: int) -> int:
        state = self._live()

        state.check_random()
        if offset < 0:
            raise error("ERR_ARG", f"the offset {offset} is negative")

        return state.view.place(offset * state.unit)

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the shared pointer; collective. ``ERR_ARG``: before the view; ``ERR_NOT_SAME``."""
        self._live().seek_shared(offset, whence)

    def Get_position_shared(self) -> int:
        return self._live().shared.position


def _given(datatype: Datatype) -> Datatype:
    """Return a datatype for the program: the constant of a predefined one, else a copy to free."""
    state = datatype._live()
    if state.predefined:
        return Datatype._found(state)

    return Datatype._wrap(derived_copy(state))


# MPI 4.1, 14.7: calls without an open file use the error handler of MPI_FILE_NULL.
_NO_FILE: Final = _NoFile()

FILE_NULL: Final = File._define("FILE_NULL", None)
