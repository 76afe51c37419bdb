"""Attributes of communicators, datatypes and windows, whose copy and delete functions are C's.

An attribute is a pointer in C and an integer in Fortran; MPI 4.1 (19.3.7) fixes the form in which
one language reads the other's. A pointer is kept as its number. An integer of Fortran is a
:class:`Typed`, which owns memory whose address C reads. Predefined attributes are integers here,
and C gets the address of a copy.
"""

from __future__ import annotations

from typing import Any, Final

from impi.cabi.objects import handle_tables, link
from impi.cabi.objects.abi_constants import FLAVORS, MODELS, RANKS
from impi.cabi.objects.failures import incoming, outgoing
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.cabi.tables.abi import IMPI_KEYS
from impi.protocol.semantics.errors import error, table
from impi.rank.api.handles.keyvals import Refusal

CLASSES: Final = {
    "Comm": (MPI.Comm, handle_tables.comms, "MPI_Comm"),
    "Type": (MPI.Datatype, handle_tables.datatypes, "MPI_Datatype"),
    "Win": (MPI.Win, handle_tables.wins, "MPI_Win"),
}
"""Kinds of objects with attributes, as in the names of functions: class, table and C type."""
_NULL_COPY: Final = {
    link.constant(f"{kind}NULL_COPY_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")
}
_NULL_DELETE: Final = {
    link.constant(f"{kind}NULL_DELETE_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")
} | {0}
_DUP: Final = {
    link.constant(f"{kind}DUP_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")
}
_INVALID: Final = link.constant("KEYVAL_INVALID")
_PREDEFINED: Final[dict[int, int]] = {
    link.constant(name): getattr(MPI, name)
    for name in (
        "TAG_UB",
        "HOST",
        "IO",
        "WTIME_IS_GLOBAL",
        "UNIVERSE_SIZE",
        "APPNUM",
        "LASTUSEDCODE",
    )
    if name in link.abi.constants
}
_PREDEFINED.update({key: key for key in IMPI_KEYS.values()})
_OF_WINDOWS: Final = {
    link.constant(name): getattr(MPI, name)
    for name in (
        "WIN_BASE",
        "WIN_SIZE",
        "WIN_DISP_UNIT",
        "WIN_CREATE_FLAVOR",
        "WIN_MODEL",
    )
    if name in link.abi.constants
}
_NUMBERED: Final = {MPI.WIN_CREATE_FLAVOR: FLAVORS, MPI.WIN_MODEL: MODELS}
# Copies of predefined attributes: programs get their addresses, so they live until the end.
_shown: Final[dict[tuple[int, int], Any]] = {}
keys: Final[set[int]] = set()
"""Keys that were made here; in front mode, those of datatypes are the vendor's."""
callers: Final[dict[int, tuple[Pointer, Pointer]]] = {}
"""By key: C functions that call the keyval's copy and delete functions in Fortran."""


class Typed(int):
    """An attribute that was set in Fortran: an integer; programs in C get its address."""

    kind: int
    memory: Pointer

    @classmethod
    def of(cls, value: int, kind: int) -> int:
        """Return an attribute of one of MPICH's kinds: 0 a pointer, 1 an MPI_Aint, 3 an int."""

        if not kind:
            return value

        made = cls(value)
        made.kind = kind
        made.memory = ffi.new("int *" if kind == _INT else "intptr_t *", value)

        return made


_INT: Final = 3


def _shown_to_c(value: int) -> int:
    return (
        int(ffi.cast("intptr_t", value.memory)) if isinstance(value, Typed) else value
    )


def keyval(kind: str, copy_fn: int, delete_fn: int, extra: int) -> int:
    """Make a key with C functions and return it.

    Args:
        kind: Comm, Type or Win.
        copy_fn: address of the copy function, or of one of MPI's constants.
        delete_fn: address of the delete function, or of one of MPI's constants.
        extra: the program's extra state, passed to both functions.
    """

    cls, table, type_name = CLASSES[kind]
    copy = ffi.cast(
        f"int (*)({type_name}, int, intptr_t, intptr_t, intptr_t *, int *)", copy_fn
    )
    delete = ffi.cast(f"int (*)({type_name}, int, intptr_t, intptr_t)", delete_fn)

    def copied(owner: Object, key: int, value: int) -> Object:
        out, flag = ffi.new("intptr_t *"), ffi.new("int *")

        number = table.number_of(owner)
        # The Fortran library has said that the functions are in Fortran, and by
        # which of its own they are called.
        if key in callers:
            kind = getattr(value, "kind", 0)
            _check(callers[key][0](copy_fn, number, key, extra, kind, value, out, flag))
            return Typed.of(out[0], kind) if flag[0] else NotImplemented

        _check(copy(number, key, extra, _shown_to_c(value), out, flag))

        # mpi4py's word for an attribute that the new object does not get.
        return out[0] if flag[0] else NotImplemented

    def deleted(owner: Object, key: int, value: int) -> None:
        number = table.number_of(owner)
        if key in callers:
            _check(
                callers[key][1](
                    delete_fn, number, key, getattr(value, "kind", 0), value, extra
                )
            )
        else:
            _check(delete(number, key, _shown_to_c(value), extra))

    # MPI's own copy functions need no call of C: the API has them as False and True.
    chosen: Any = (
        False if copy_fn in _NULL_COPY else True if copy_fn in _DUP else copied
    )
    key: int = cls.Create_keyval(chosen, None if delete_fn in _NULL_DELETE else deleted)
    keys.add(key)

    return key


def _check(code: int) -> None:
    if code:
        refusal = Refusal(
            incoming(code) if incoming(code) in table else error("ERR_OTHER").error_code
        )
        refusal.detail = f"the attribute's function returned {code}"
        raise refusal


def free_keyval(kind: str, place: Pointer) -> None:
    """Free a key (MPI_Comm_free_keyval)."""
    CLASSES[kind][0].Free_keyval(place[0])
    place[0] = _INVALID


def put(owner: Object, key: int, value: int) -> None:
    """Set an attribute to a pointer's number; ERR_KEYVAL: the key is predefined."""
    if key in _PREDEFINED or key in _OF_WINDOWS:
        raise error(
            "ERR_KEYVAL", f"attribute {key} is predefined and cannot be changed"
        )

    owner.Set_attr(key, value)


def get(owner: Object, key: int, place: int, flag: Pointer) -> None:
    """Write an attribute's pointer, or the address of a predefined value, to ``place``."""

    ours = _predefined(owner).get(key)
    value = owner.Get_attr(key if ours is None else ours)

    flag[0] = value is not None
    if value is None:
        return

    value = _shown_to_c(value) if ours is None else _address_of(owner, key, ours, value)
    ffi.cast("intptr_t *", place)[0] = value


def get_number(owner: Object, key: int, place: int, flag: Pointer) -> None:
    """Write an attribute as an integer, as Fortran reads it.

    In MPICH's family Fortran's key of a predefined attribute is C's key plus 1.
    """

    predefined = _predefined(owner)
    same = key in IMPI_KEYS.values() or link.abi.name == "openmpi"
    ours = predefined.get(key if same else key - 1)
    value = owner.Get_attr(key if ours is None else ours)

    flag[0] = value is not None
    if value is None:
        return

    if ours is not None and ours == MPI.WIN_BASE:
        value = _address_of(owner, key, ours, value)
    elif ours in (MPI.HOST, MPI.IO):
        value = RANKS.reverse.get(value, value)

    ffi.cast("intptr_t *", place)[0] = value


def _predefined(owner: Object) -> dict[int, int]:
    if isinstance(owner, MPI.Win):
        return _OF_WINDOWS

    return _PREDEFINED if isinstance(owner, MPI.Comm) else {}


def _address_of(owner: Object, key: int, ours: int, value: Pointer) -> int:
    """Return the address of a copy: an int, for MPI_WIN_SIZE an MPI_Aint; MPI_WIN_BASE as it is."""

    if ours == MPI.WIN_BASE:
        return int(value if isinstance(value, int) else value.address)

    # These are ranks or MPI_PROC_NULL and the like, whose values differ between ABIs.
    if ours in (MPI.HOST, MPI.IO):
        value = RANKS.reverse.get(value, value)

    if ours in _NUMBERED:
        value = _NUMBERED[ours].reverse.get(value, value)

    if ours == MPI.LASTUSEDCODE:
        value = outgoing(value)

    kind = "intptr_t *" if ours == MPI.WIN_SIZE else "int *"

    shown = _shown.get((id(owner._state), key))
    if shown is None:
        shown = _shown[id(owner._state), key] = ffi.new(kind)

    shown[0] = value

    return int(ffi.cast("intptr_t", shown))
