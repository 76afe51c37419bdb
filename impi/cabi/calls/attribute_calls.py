"""Attributes of communicators, datatypes and windows: void pointers, kept by C's keyvals."""

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
"""Objects with attributes by their names in functions: class, table and C type."""
_NULL_COPY: Final = {link.constant(f"{kind}NULL_COPY_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")}
_NULL_DELETE: Final = {link.constant(f"{kind}NULL_DELETE_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")} | {0}
_DUP: Final = {link.constant(f"{kind}DUP_FN") for kind in ("", "COMM_", "TYPE_", "WIN_")}
_INVALID: Final = link.constant("KEYVAL_INVALID")
_PREDEFINED: Final[dict[int, int]] = {
    link.constant(name): getattr(MPI, name)
    for name in ("TAG_UB", "HOST", "IO", "WTIME_IS_GLOBAL", "UNIVERSE_SIZE", "APPNUM", "LASTUSEDCODE")
    if name in link.abi.constants
}
_PREDEFINED.update({key: key for key in IMPI_KEYS.values()})
_OF_WINDOWS: Final = {
    link.constant(name): getattr(MPI, name)
    for name in ("WIN_BASE", "WIN_SIZE", "WIN_DISP_UNIT", "WIN_CREATE_FLAVOR", "WIN_MODEL")
    if name in link.abi.constants
}
_NUMBERED: Final = {MPI.WIN_CREATE_FLAVOR: FLAVORS, MPI.WIN_MODEL: MODELS}
_shown: Final[dict[tuple[int, int], Any]] = {}  # integers of predefined attributes: programs get their addresses
keys: Final[set[int]] = set()
"""The keys that the program has got here; in front mode, those of datatypes are the library's."""
callers: Final[dict[int, tuple[Pointer, Pointer]]] = {}
"""Functions that call those of a keyval in Fortran: copy and delete."""


class Typed(int):
    """An attribute that was set in Fortran: an integer, of which programs in C get the address."""

    kind: int
    memory: Pointer

    @classmethod
    def of(cls, value: int, kind: int) -> int:
        """Return an attribute of a kind of MPICH's family: 0 a pointer, 1 an MPI_Aint, 3 an int."""
        if not kind:
            return value
        made = cls(value)
        made.kind = kind
        made.memory = ffi.new("int *" if kind == _INT else "intptr_t *", value)
        return made


_INT: Final = 3


def _shown_to_c(value: int) -> int:
    return int(ffi.cast("intptr_t", value.memory)) if isinstance(value, Typed) else value


def keyval(kind: str, copy_fn: int, delete_fn: int, extra: int) -> int:
    """Return a new key whose functions are C's."""
    cls, table, type_name = CLASSES[kind]
    copy = ffi.cast(f"int (*)({type_name}, int, intptr_t, intptr_t, intptr_t *, int *)", copy_fn)
    delete = ffi.cast(f"int (*)({type_name}, int, intptr_t, intptr_t)", delete_fn)

    def copied(owner: Object, key: int, value: int) -> Object:
        out, flag = ffi.new("intptr_t *"), ffi.new("int *")
        number = table.number_of(owner)
        if key in callers:
            kind = getattr(value, "kind", 0)
            _check(callers[key][0](copy_fn, number, key, extra, kind, value, out, flag))
            return Typed.of(out[0], kind) if flag[0] else NotImplemented
        _check(copy(number, key, extra, _shown_to_c(value), out, flag))
        return out[0] if flag[0] else NotImplemented

    def deleted(owner: Object, key: int, value: int) -> None:
        number = table.number_of(owner)
        if key in callers:
            _check(callers[key][1](delete_fn, number, key, getattr(value, "kind", 0), value, extra))
        else:
            _check(delete(number, key, _shown_to_c(value), extra))

    chosen: Any = False if copy_fn in _NULL_COPY else True if copy_fn in _DUP else copied
    key: int = cls.Create_keyval(chosen, None if delete_fn in _NULL_DELETE else deleted)
    keys.add(key)
    return key


def _check(code: int) -> None:
    if code:
        refusal = Refusal(incoming(code) if incoming(code) in table else error("ERR_OTHER").error_code)
        refusal.detail = f"the attribute's function returned {code}"
        raise refusal


def free_keyval(kind: str, place: Pointer) -> None:
    """Free a key (MPI_Comm_free_keyval)."""
    CLASSES[kind][0].Free_keyval(place[0])
    place[0] = _INVALID


def put(owner: Object, key: int, value: int) -> None:
    """Cache a pointer."""
    if key in _PREDEFINED or key in _OF_WINDOWS:
        raise error("ERR_KEYVAL", f"attribute {key} is predefined and cannot be changed")
    owner.Set_attr(key, value)


def get(owner: Object, key: int, place: int, flag: Pointer) -> None:
    """Write the cached pointer, or the address of a predefined value, to ``place``."""
    ours = _predefined(owner).get(key)
    value = owner.Get_attr(key if ours is None else ours)
    flag[0] = value is not None
    if value is None:
        return
    value = _shown_to_c(value) if ours is None else _address_of(owner, key, ours, value)
    ffi.cast("intptr_t *", place)[0] = value


def get_number(owner: Object, key: int, place: int, flag: Pointer) -> None:
    """Write an attribute as Fortran knows it: an integer.

    In MPICH's family, Fortran's key of a predefined attribute is C's and 1.
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
    """Return the address of an int (MPI_WIN_SIZE: of an MPI_Aint); MPI_WIN_BASE is an address."""
    if ours == MPI.WIN_BASE:
        return int(value if isinstance(value, int) else value.address)
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
