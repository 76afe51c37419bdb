"""The handles of a program: a table for each kind (:mod:`.handle_table`), filled on import."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.handle_table import Table
from impi.cabi.objects.link import MPI, Object, Pointer
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.datatype import FORTRAN_PAIRS
from impi.rank.api.types import ops as _operations
from impi.rank.api.types.typestate import Recipe, TypeState

_kinds: Final[Object] = import_module(
    "impi.cabi.objects.front_tables" if link.front else "impi.cabi.objects.handle_table"
)
# Datatypes of an ABI that mpi4py has under another name.
_SAME: Final = {
    "2INT": "TWOINT",
    "LONG_LONG_INT": "LONG_LONG",
    "C_FLOAT_COMPLEX": "C_COMPLEX",
    "CXX_COMPLEX": "CXX_FLOAT_COMPLEX",
}


def _datatypes() -> dict[str, Object]:
    found = {
        name: item for name, item in vars(MPI).items() if isinstance(item, MPI.Datatype)
    }
    for name, same in _SAME.items():
        found.setdefault(name, found[same])

    for name, typemap in FORTRAN_PAIRS.items():
        found[name] = MPI.Datatype._wrap(TypeState(typemap, Recipe(), f"MPI_{name}"))

    return found


def _named(kind: type) -> dict[str, Object]:
    return {name: item for name, item in vars(MPI).items() if isinstance(item, kind)}


class _Messages(Table):
    def settle(self, place: Pointer, item: Object) -> None:
        """Write the null handle: after a receive, also in place of MPI_MESSAGE_NO_PROC."""
        place[0] = self.ended(place[0], item)


comms: Final = _kinds.Comms("COMM", _named(MPI.Comm))
datatypes: Final = _kinds.Datatypes("TYPE", _datatypes())
errhandlers: Final = _kinds.Errhandlers("ERRHANDLER", _named(MPI.Errhandler))
files: Final = Table("FILE", _named(MPI.File))
groups: Final = Table("GROUP", _named(MPI.Group))
infos: Final = Table("INFO", _named(MPI.Info))
messages: Final = _Messages("REQUEST", _named(MPI.Message))
ops: Final = Table("OP", _named(MPI.Op))
requests: Final = _kinds.Requests("REQUEST", _named(MPI.Request))
sessions: Final = Table("SESSION", _named(MPI.Session))
wins: Final = Table("WIN", _named(MPI.Win))

for _number, _item in datatypes.items():  # predefined ones are put by no call
    datatypes.know(_number, _item)


def known_world() -> None:
    """Tell C rank and size of MPI_COMM_WORLD and MPI_COMM_SELF, after MPI_Init."""
    for name in ("COMM_WORLD", "COMM_SELF"):
        number = link.constant(name)
        comms.know(number, comms[number])


def release_op(op: Object) -> None:
    """Free an operation; ERR_OP: it is predefined.

    It bypasses ``Op.Free``, which belongs to the limited number of operations that mpi4py has.
    """
    if op._live().name:
        raise error(
            "ERR_OP", f"MPI_{op._live().name} is predefined and cannot be freed"
        )

    op._forget()


def new_op(function: Pointer, *, commute: bool) -> Object:
    """Return an operation of the program, whose function is called with buffers and a datatype."""
    return MPI.Op._wrap(_operations._OpState("", function, commute=commute))


def release_errhandler(place: Pointer) -> None:
    """Free an error handler (MPI_Errhandler_free); predefined ones keep working."""
    errhandlers[place[0]].Free()
    place[0] = errhandlers.ended(place[0], errhandlers[place[0]])


def release_group(group: Object) -> None:
    """Free a group; a program may also free its handle of an empty one."""
    if group._state is None:
        raise error("ERR_GROUP", "null group")

    if not group._predefined():
        group.Free()
    elif not group._is_constant:
        group._state = None
