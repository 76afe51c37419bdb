"""The library of this process, for the modules behind it: set once by
:mod:`impi.cabi.calls.connection`.

``ffi`` and ``lib`` are cffi's; ``abi`` is the ABI of the programs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from impi.cabi.tables.abi import Abi

Pointer: TypeAlias = Any
"""A pointer of C: cdata of cffi."""
Object: TypeAlias = Any
"""An object of impi.MPI."""

ffi: Any = None
lib: Any = None
MPI: Any = None
abi: Abi = None  # type: ignore[assignment]  # until the library is connected
front = False
"""Whether this library stands before the vendor's own, which the program was compiled for."""

symbols: dict[str, int] = {}


def know(of_programs: Abi) -> None:
    """Set the ABI, and the addresses of its data in the library."""
    global abi
    abi = of_programs
    symbols.update({name: lib.impi_symbol(number) for number, name in enumerate(abi.symbols)})


def constant(name: str, default: int = 0) -> int:
    """Return the value of an ABI's constant (without ``MPI_``); ``default``: the ABI has none."""
    value = abi.constants.get(name, default)
    return symbols[value] if isinstance(value, str) else value
