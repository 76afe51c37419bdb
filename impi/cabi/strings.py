"""Strings of C: in and out, with the lengths that MPI wants."""

from __future__ import annotations

from impi.cabi.link import Object, Pointer, ffi
from impi.semantics.errors import error


def text(place: Pointer) -> str:
    """Return a string of the program; ERR_ARG: it is NULL."""
    if not place:
        raise error("ERR_ARG", "a string is NULL")
    return ffi.string(place).decode(errors="replace")  # type: ignore[no-any-return]


def write(place: Pointer, value: str, length: Pointer) -> None:
    """Write a string, and its length if there is a place for it."""
    octets = value.encode()
    ffi.memmove(place, octets + b"\0", len(octets) + 1)
    if length is not None:
        length[0] = len(octets)


def nth_pset(session: Object, info: Object, n: int, length: Pointer, place: Pointer) -> None:
    """Write the name of a process set, cut to ``length``; a length of 0 asks for it."""
    name = session.Get_nth_pset(n, info).encode()
    if length[0]:
        _cut(place, name, length[0])
    length[0] = len(name) + 1


def _cut(place: Pointer, octets: bytes, room: int) -> None:
    octets = octets[: room - 1]
    ffi.memmove(place, octets + b"\0", len(octets) + 1)


def info_get(info: Object, key: Pointer, room: int, place: Pointer, flag: Pointer) -> None:
    """Write a value cut to ``room`` octets without the final 0 (MPI_Info_get)."""
    value = info.Get(key)
    flag[0] = value is not None
    if value is not None:
        _cut(place, value.encode(), room + 1)


def info_get_string(info: Object, key: Pointer, room: Pointer, place: Pointer, flag: Pointer) -> None:
    """Write a value cut to ``room`` octets, and the room that it needs (MPI_Info_get_string)."""
    value = info.Get(key)
    flag[0] = value is not None
    if value is not None:
        octets = value.encode()
        if room[0]:
            _cut(place, octets, room[0])
        room[0] = len(octets) + 1


def info_get_valuelen(info: Object, key: Pointer, length: Pointer, flag: Pointer) -> None:
    """Write the length of a value (MPI_Info_get_valuelen)."""
    value = info.Get(key)
    flag[0] = value is not None
    if value is not None:
        length[0] = len(value.encode())
