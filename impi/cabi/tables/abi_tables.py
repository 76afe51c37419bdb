"""Read the functions of MPI and the constants of an ABI from their tables.

``functions.json`` has the C functions of MPI 5.0 (from the machine-readable standard, package
pympistandard) and those of MPI 1 that libraries still export. ``constants/ABI.json`` has the values
in programs that were compiled with that ABI's headers: integers, or symbols whose addresses are the
handles. ``ci/cabi_tables.py`` writes both files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.base.records import record
from impi.cabi.tables.abi import Abi

FOLDER: Final = Path(__file__).absolute().parent.parent

HANDLES: Final = {
    "COMMUNICATOR": "Comm",
    "DATATYPE": "Datatype",
    "ERRHANDLER": "Errhandler",
    "FILE": "File",
    "GROUP": "Group",
    "INFO": "Info",
    "MESSAGE": "Message",
    "OPERATION": "Op",
    "REQUEST": "Request",
    "SESSION": "Session",
    "WINDOW": "Win",
}
"""Kinds of parameters that are handles, and their C types without ``MPI_``."""
# C types of numbers, and the plain types that they are to cffi.
_NARROWED: Final = dict.fromkeys(("MPI_Count", "MPI_Aint", "MPI_Offset"), "int64_t") | {
    "MPI_Fint": "int"
}
_WHOLE: Final = ("int", "double", *_NARROWED)
_HANDLE_TYPES: Final = frozenset(f"MPI_{name}" for name in HANDLES.values())


@record(kw_only=True)
class Parameter:
    """A parameter of a C function."""

    name: str
    kind: str  # its kind in the standard's own table, such as RANK
    direction: str  # in, out or inout
    # The parameter with its number of elements; `*`: another object decides; empty: no array
    length: str
    root_only: bool  # significant only at the root
    text: str  # its declaration in C
    large: str  # its declaration in the large-count function; empty: there is none

    @property
    def is_array(self) -> bool:
        return bool(self.length)


@record(kw_only=True)
class Function:
    """A function of MPI's C interface."""

    name: str
    result: str
    parameters: tuple[Parameter, ...]
    large: bool  # whether there is a _c function with MPI_Count

    def parameter(self, name: str) -> Parameter:
        return {each.name: each for each in self.parameters}[name]


_STATUS: Final = {
    "standard": "int MPI_SOURCE, MPI_TAG, MPI_ERROR; int cancelled; unsigned low, high; int reserved[2];",
    "mpich": "unsigned low, high_and_cancelled; int MPI_SOURCE, MPI_TAG, MPI_ERROR;",
    "openmpi": "int MPI_SOURCE, MPI_TAG, MPI_ERROR; int cancelled; unsigned long count;",
}
_ABIS: Final = {
    "standard": (
        "the standard ABI of MPI 5",
        "intptr_t",
        ("libmpi_abi.so.1", "libmpi_abi.so.0"),
    ),
    "mpich": ("MPICH's ABI", "int", ("libmpi.so.12", "libmpich.so.12")),
    "openmpi": ("Open MPI's ABI", "intptr_t", ("libmpi.so.40",)),
}
NAMES: Final = tuple(_ABIS)


def sonames(name: str) -> tuple[str, ...]:
    """Return the library names that programs of an ABI need; KeyError: unknown ABI."""
    return _ABIS[name][2]


def fortran(name: str) -> str:
    """Return the name of the Fortran library that is made for an ABI; empty: none is.

    MPICH's own Fortran library calls MPI's C functions, so it works over ours. Open MPI's reads the
    structures behind Open MPI's handles, and needs a replacement.
    """
    return "libmpi_mpifh.so.40" if name == "openmpi" else ""


def abi(name: str) -> Abi:
    """Read an ABI with its constants; KeyError: unknown ABI."""
    title, handle, sonames = _ABIS[name]
    constants = json.loads((FOLDER / "constants" / f"{name}.json").read_text())

    return Abi(
        name=name,
        title=title,
        handle=handle,
        sonames=sonames,
        status=_STATUS[name],
        constants={key.removeprefix("MPI_"): value for key, value in constants.items()},
    )


def functions() -> tuple[Function, ...]:
    """Read all functions, ordered by name."""
    return tuple(
        _function(row) for row in json.loads((FOLDER / "functions.json").read_text())
    )


def _function(row: Mapping[str, object]) -> Function:
    result, _, _ = str(row["c"]).partition(f" {row['name']}(")
    small, large = _arguments(str(row["c"])), _arguments(str(row["large"]))
    described = list(row["parameters"])  # type: ignore[call-overload]
    parameters = tuple(
        Parameter(
            name=each["name"],
            kind=each["kind"],
            direction=each["direction"],
            length=_length(each.get("length")),
            root_only=bool(each.get("root_only")),
            text=small[i],
            large=large[i] if large else "",
        )
        for i, each in enumerate(described)
    )

    return Function(
        name=str(row["name"]), result=result, parameters=parameters, large=bool(large)
    )


def _length(value: object) -> str:
    return "*" if isinstance(value, list) else str(value or "")


def _arguments(prototype: str) -> list[str]:
    inside = (
        prototype[prototype.index("(") + 1 : prototype.rindex(")")] if prototype else ""
    )
    return (
        [] if inside in ("", "void") else [text.strip() for text in inside.split(",")]
    )


def wire_type(parameter: Parameter, *, large: bool) -> str:
    """Return the C type in which a parameter reaches Python: a number, a handle, or a pointer.

    Addresses that Python does not follow (statuses, functions, attributes) are ``intptr_t``.
    """

    text = parameter.large if large else parameter.text

    match = re.match(r"(?:const )?(?:struct )?(\w+)\s*(.*)$", text)
    if match is None or text == "...":
        return "intptr_t"

    base, rest = match.groups()

    depth = rest.count("*") + rest.count("[")
    if base in _WHOLE or base in _HANDLE_TYPES:
        base = _NARROWED.get(base, base)
        return f"{base} *" if depth else base

    # With char * Python can add displacements in octets to an address.
    octets = base == "char" or (base == "void" and parameter.kind in _BUFFERS)

    return "char *" if octets and depth == 1 else "intptr_t"


_BUFFERS: Final = frozenset(
    {"BUFFER", "C_BUFFER", "C_BUFFER2", "C_BUFFER3", "C_BUFFER4", "STRING"}
)
