"""What the text of a library and each rank behind it both need: every start of a rank loads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from impi.base.records import record


@record(kw_only=True)
class Abi:
    """The binary interface that a program was compiled for."""

    name: str
    title: str
    handle: str  # C type of handles; handle_of() has the exception
    sonames: tuple[str, ...]  # names of its libraries in programs; the first is built, the others need it
    status: str  # members of MPI_Status; see start.c for their use
    constants: Mapping[str, int | str]  # values by name without MPI_; text: the symbol whose address it is

    def handle_of(self, kind: str) -> str:
        """Return the C type of a kind of handles: files of MPICH's family are pointers."""
        return "intptr_t" if kind == "File" else self.handle

    @property
    def symbols(self) -> list[str]:
        """The names of the data and functions whose addresses are constants."""
        return sorted({value for value in self.constants.values() if isinstance(value, str)})


FIRST: Final = {"mpich": (0x10000, 1), "openmpi": (0x10001, 2)}
"""By ABI: the first number of ours in front mode, and the step to the next one.

They differ from the library's handles by their value: :data:`impi.cabi.text.front_stubs.OURS`.
"""
IMPI_KEYS: Final = {
    "IMPI_CLIENT_SIZE": 0x494D5001,
    "IMPI_CLIENT_COLOR": 0x494D5002,
    "IMPI_HOST_SIZE": 0x494D5003,
    "IMPI_HOST_COLOR": 0x494D5004,
}
"""The attributes of IMPI 2.5, with the keys of :mod:`impi.rank.api.handles.attributes`."""
OWNERS: Final = {"Comm": "MPI_Comm", "Type": "MPI_Datatype", "Win": "MPI_Win"}
"""Objects with attributes by their names in functions, and their C types."""
