"""The C library of this process, for all modules of the Python side.

:mod:`impi.cabi.calls.connection` sets ``ffi`` and ``lib``, which are cffi's, and ``MPI``. The
generated Python side sets ``abi``. A module that imports these names comes after that.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from impi.cabi.tables.abi import Abi

Pointer: TypeAlias = Any
"""A C pointer: cdata of cffi."""
Object: TypeAlias = Any
"""An object of impi.MPI."""

ffi: Any = None
lib: Any = None
MPI: Any = None
abi: Abi = None  # type: ignore[assignment]  # until the library is connected
front = False
"""Whether this is front mode: the library stands before the vendor's."""

symbols: dict[str, int] = {}


def know(of_programs: Abi) -> None:
    """Set the ABI, and read the addresses of its data from the library."""
    global abi
    abi = of_programs
    symbols.update(
        {name: lib.impi_symbol(number) for number, name in enumerate(abi.symbols)}
    )


def constant(name: str, default: int = 0) -> int:
    """Return the value of a constant, named without ``MPI_``; ``default`` if the ABI lacks it."""
    value = abi.constants.get(name, default)
    return symbols[value] if isinstance(value, str) else value
