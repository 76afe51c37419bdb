"""The description of an ABI, for the text of a library and for each rank behind it.

Every rank of a compiled program loads this module, so it reads no file: the rank's Python side has
its ABI as a literal. :mod:`.abi_tables` reads the tables, and only compiling needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from impi.base.records import record


@record(kw_only=True)
class Abi:
    """The binary interface that a program was compiled for."""

    name: str
    title: str
    handle: str  # C type of handles; handle_of() knows the exception
    # Library names that programs need; the first is built, the others need it
    sonames: tuple[str, ...]
    status: str  # members of MPI_Status; start.c uses them
    # Values by name without MPI_; a str: the symbol that has this address
    constants: Mapping[str, int | str]

    def handle_of(self, kind: str) -> str:
        """Return the C type of a kind of handles: files of MPICH's family are pointers."""
        return "intptr_t" if kind == "File" else self.handle

    @property
    def symbols(self) -> list[str]:
        """Sorted names of the data and functions whose addresses are constants."""
        return sorted(
            {value for value in self.constants.values() if isinstance(value, str)}
        )


FIRST: Final = {"mpich": (0x10000, 1), "openmpi": (0x10001, 2)}
"""By ABI: our first handle in front mode, and the step to the next one.

A stub tells our handles from the vendor's by value: :data:`impi.cabi.text.front_stubs.OURS`. Open
MPI's are addresses of structures and so even, ours odd. MPICH's have their kind in the upper bits.
"""
IMPI_KEYS: Final = {
    "IMPI_CLIENT_SIZE": 0x494D5001,
    "IMPI_CLIENT_COLOR": 0x494D5002,
    "IMPI_HOST_SIZE": 0x494D5003,
    "IMPI_HOST_COLOR": 0x494D5004,
}
"""Attributes of IMPI 2.5 and their keys, the same as in :mod:`impi.rank.api.handles.attributes`."""
OWNERS: Final = {"Comm": "MPI_Comm", "Type": "MPI_Datatype", "Win": "MPI_Win"}
"""Kinds of objects with attributes, as in the names of functions, and their C types."""
