"""Datatypes in C: packing by address, and a constructor's arguments as C arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from impi.cabi.objects.abi_constants import DISTRIBUTIONS, ORDERS
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.link import MPI, Object, Pointer
from impi.cabi.objects.program_memory import at, fill
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.types.datatypes import check_datarep

# By combiner: the arguments that are integers, and those that are addresses, in the order of
# MPI_Type_get_contents (MPI 4.1, 5.1.13). "#name" is the length of a list.
_ADDRESSES: Final = {
    "HVECTOR": (("count", "blocklength"), ("stride",)),
    "HINDEXED": (("#blocklengths", "blocklengths"), ("displacements",)),
    "HINDEXED_BLOCK": (("#displacements", "blocklength"), ("displacements",)),
    "STRUCT": (("#blocklengths", "blocklengths"), ("displacements",)),
    "RESIZED": ((), ("lb", "extent")),
    "SUBARRAY": (("#sizes", "sizes", "subsizes", "starts", "order"), ()),
    "DARRAY": (
        ("size", "rank", "#gsizes", "gsizes", "distribs", "dargs", "psizes", "order"),
        (),
    ),
    "VECTOR": (("count", "blocklength", "stride"), ()),
    "INDEXED": (("#blocklengths", "blocklengths", "displacements"), ()),
    "INDEXED_BLOCK": (("#displacements", "blocklength", "displacements"), ()),
    "CONTIGUOUS": (("count",), ()),
    "F90_INTEGER": (("r",), ()),
    "F90_REAL": (("p", "r"), ()),
    "F90_COMPLEX": (("p", "r"), ()),
}


def name(datatype: Object) -> str:
    """Return a datatype's name; ``MPI_LONG_LONG`` is a synonym (MPI 4.1, 3.2.2)."""
    found: str = datatype.Get_name()
    return (
        "MPI_LONG_LONG_INT"
        if found == "MPI_LONG_LONG" and datatype._predefined()
        else found
    )


def free(place: Pointer) -> None:
    """Free a datatype (MPI_Type_free); pending requests keep a handle of their own."""

    number = place[0]
    datatype = datatypes[number]
    datatype._wrap(datatype._state).Free()
    datatypes.drop(number)
    place[0] = datatypes.null


# ---- packing

_LONG: Final = 8


def _place(position: Pointer, room: int, nbytes: int) -> int:
    first = int(position[0])
    if first < 0 or first + nbytes > room:
        raise error(
            "ERR_TRUNCATE",
            f"{nbytes} octets at position {first} do not fit into {room}",
        )

    return first


def _form(datarep: str) -> dict[str, Any]:
    """Return the form of packed values: external32 if named, else the job's form (IMPI 4.1)."""
    if not datarep:
        return {"external": runtime.external(), "long_size": _LONG}

    check_datarep(datarep)

    # A long of external32 has 4 octets (MPI 4.1, 14.5.2).
    return {"external": True, "long_size": 4}


def pack(
    message: Object, out: Pointer, room: int, position: Pointer, datarep: str = ""
) -> None:
    """Pack elements at ``position``, and advance it; ERR_TRUNCATE: no room."""

    typemap = message.datatype.typemap
    octets = typemap.pack(message.view, message.offset, message.count, **_form(datarep))
    first = _place(position, room, octets.nbytes)
    at(out + first, octets.nbytes)[:] = octets
    position[0] = first + octets.nbytes


def unpack(
    inbuf: Pointer, room: int, position: Pointer, message: Object, datarep: str = ""
) -> None:
    """Unpack elements from ``position``, and advance it; ERR_TRUNCATE: too few octets."""

    typemap, form = message.datatype.typemap, _form(datarep)
    nbytes = typemap.packed_size(message.count, **form)
    first = _place(position, room, nbytes)
    typemap.unpack(
        at(inbuf + first, nbytes), message.view, message.offset, message.count, **form
    )
    position[0] = first + nbytes


def pack_size(count: int, datatype: Object) -> int:
    """Return the number of octets that packed elements take."""
    return int(datatype.Pack_size(count, MPI.COMM_SELF))


# ---- decoding


def _arguments(datatype: Object) -> tuple[list[int], list[int], list[Object]]:
    """Return integers, addresses and datatypes as MPI_Type_get_contents has them."""

    recipe = datatype._live().recipe
    values = {
        key: list(v) if isinstance(v, list | tuple) else [v]
        for key, v in recipe.params.items()
    }

    table = {**values, **{f"#{key}": [len(row)] for key, row in values.items()}}
    if "order" in table:
        table["order"] = [ORDERS.reverse.get(table["order"][0], table["order"][0])]

    for name in ("distribs", "dargs"):
        if name in table:
            table[name] = [
                DISTRIBUTIONS.reverse.get(value, value) for value in table[name]
            ]

    integers, addresses = _ADDRESSES.get(recipe.combiner, ((), ()))
    row = [value for key in integers for value in table[key]]

    return (
        row,
        [v for key in addresses for v in table[key]],
        [datatype._found(base) for base in recipe.bases],
    )


def envelope(datatype: Object) -> tuple[int, int, int, int]:
    """Return the numbers of integers, addresses and datatypes, and the combiner."""
    integers, addresses, bases = _arguments(datatype)
    # The generated code makes the combiner a number of the ABI.
    return len(integers), len(addresses), len(bases), datatype._live().recipe.number


def large_envelope(datatype: Object) -> tuple[int, int, int, int, int]:
    """Return the numbers of integers, addresses, counts and datatypes, and the combiner."""
    integers, addresses, counts, bases, _ = datatype.Get_envelope()
    return integers, addresses, counts, bases, datatype._live().recipe.number


def contents(
    datatype: Object,
    integers: Pointer,
    addresses: Pointer,
    types: Pointer,
    most: tuple[int, int, int],
) -> None:
    """Write the arguments of the constructor; ERR_ARG: too little room, ERR_TYPE: predefined."""
    _write_contents(datatype, _arguments(datatype), (integers, addresses), types, most)


def large_contents(
    datatype: Object,
    integers: Pointer,
    addresses: Pointer,
    counts: Pointer,
    types: Pointer,
    most: tuple[int, int, int, int],
) -> None:
    """Write the arguments of the constructor, with large counts in an array of their own."""
    _write_contents(
        datatype, datatype.Get_contents(), (integers, addresses, counts), types, most
    )


def _write_contents(
    datatype: Object,
    found: Sequence[list[Any]],
    places: Sequence[Pointer],
    types: Pointer,
    most: tuple[int, ...],
) -> None:
    if datatype._live().recipe.combiner == "NAMED":
        raise error("ERR_TYPE", "a named datatype has no contents")

    lengths = [len(row) for row in found]
    if any(length > room for length, room in zip(lengths, most, strict=True)):
        raise error(
            "ERR_ARG",
            f"the constructor has {lengths} arguments, and there is room for {list(most)}",
        )

    for place, row in zip(places, found[:-1], strict=True):
        fill(place, row)

    fill(types, [datatypes.put(base) for base in found[-1]])
