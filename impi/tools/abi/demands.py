"""The demands of MPI 5.0's standard ABI on a library and on its header.

Functions are those of the standard's own table, without conversions from and to Fortran's integers
(their type is not in the ABI) and without what MPI 3.1 and earlier have deprecated (MPI 5.0,
20.2.1). Values are those of its appendix A.1.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Final

from impi.cabi.tables import abi_tables

ABI: Final = "standard"
SONAME: Final = "libmpi_abi.so.1"
"""By the conventions of Linux, as 20.2.1 asks: its number is that of MPI_ABI_VERSION."""
STEM: Final = "libmpi_abi.so"

_CONVERSIONS: Final = re.compile(r"MPI_\w+_(c2f|f2c|c2f08|f082c|f082f|f2f08)")
# MPI_Type_struct and others of MPI 1 that MPI 3.0 removed, and those that MPI 2.0 deprecated.
_REMOVED: Final = frozenset(
    (
        *(
            f"MPI_{name}"
            for name in (
                "Address",
                "Errhandler_create",
                "Errhandler_get",
                "Errhandler_set",
            )
        ),
        *(
            f"MPI_Type_{name}"
            for name in ("extent", "hindexed", "hvector", "lb", "struct", "ub")
        ),
        *(
            f"MPI_{name}"
            for name in (
                "Attr_delete",
                "Attr_get",
                "Attr_put",
                "Keyval_create",
                "Keyval_free",
            )
        ),
    )
)
_DEPRECATED: Final = frozenset(("MPI_NULL_COPY_FN", "MPI_NULL_DELETE_FN", "MPI_DUP_FN"))
_VERSIONS: Final = (
    "MPI_VERSION",
    "MPI_SUBVERSION",
    "MPI_ABI_VERSION",
    "MPI_ABI_SUBVERSION",
)


@functools.cache
def functions() -> frozenset[str]:
    """Return the names ``MPI_*`` that a library exports, each with ``PMPI_*`` beside it."""
    names = {
        f"{each.name}{end}"
        for each in abi_tables.functions()
        for end in ("", "_c")[: 1 + each.large]
    }
    return frozenset(
        name for name in names - _REMOVED if not _CONVERSIONS.fullmatch(name)
    )


@functools.cache
def handles() -> Mapping[str, int]:
    """Return the values of the predefined handles."""
    kinds = {f"MPI_{name}" for name in abi_tables.HANDLES.values()}
    return {
        name: value for name, value in _values().items() if _types().get(name) in kinds
    }


@functools.cache
def constants() -> Mapping[str, int]:
    """Return the values of all other constants."""
    apart = handles().keys() | set(_VERSIONS)
    return {name: value for name, value in _values().items() if name not in apart}


@functools.cache
def versions() -> Mapping[str, int]:
    """Return the version of the ABI that the header says.

    The version of MPI may be a later one, with the same ABI.
    """
    return {name: value for name, value in _values().items() if name in _VERSIONS[2:]}


def layout() -> Mapping[str, int]:
    """Return sizes and places by the expressions in C, in octets, where pointers have eight."""
    sizes = {"sizeof(MPI_Status)": 32} | {
        f"offsetof(MPI_Status, MPI_{name})": 4 * place
        for place, name in enumerate(("SOURCE", "TAG", "ERROR"))
    }
    return sizes | {
        f"sizeof(MPI_{name})": 8
        for name in ("Aint", "Count", "Offset", *abi_tables.HANDLES.values())
    }


@functools.cache
def _values() -> Mapping[str, int]:
    values = abi_tables.abi(ABI).constants
    named = {f"MPI_{name}": value for name, value in values.items()}
    return {
        name: value
        for name, value in named.items()
        if isinstance(value, int) and name not in _DEPRECATED
    }


@functools.cache
def _types() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(
        (abi_tables.FOLDER / "header.json").read_text("utf-8")
    )["types"]
    return found
