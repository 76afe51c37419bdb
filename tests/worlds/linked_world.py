"""The Python side of a library without its C side: cffi's memory, and a stand-in for the functions.

Import this before a module of ``impi.cabi.objects`` or ``impi.cabi.calls``: they take the ABI from
:mod:`impi.cabi.objects.link` when they are imported. It is that of the standard.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import cffi

from impi.cabi.objects import link
from impi.cabi.tables import abi_tables
from impi.rank.vendors import native

ABI: Final = abi_tables.abi("standard")
ffi: Final[Any] = cffi.FFI()
ffi.cdef(
    "typedef intptr_t MPI_Aint; typedef int64_t MPI_Count; struct status { int of[4]; int64_t octets; int longs; };"
    + "".join(
        f"typedef {ABI.handle_of(name)} MPI_{name};"
        for name in abi_tables.HANDLES.values()
    )
)


class Library:
    """A stand-in for C: it notes the calls of Python, and keeps statuses."""

    IMPI_STATUS_SIZE = ffi.sizeof("struct status")

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int, int]] = {}

    def impi_know(self, key: int, first: int, second: int, third: int) -> None:
        self.known[key] = (first, second, third)

    def impi_symbol(self, number: int) -> int:
        return 1000 + number

    def impi_handle_later(
        self, function: int, handle: int, wide: bool, code: int
    ) -> None:
        """Call at once what C calls when Python has returned."""
        cell = ffi.new("intptr_t *" if wide else "int *", handle)
        ffi.cast("void (*)(void *, int *, ...)", function)(
            ffi.cast("void *", cell), ffi.new("int *", code)
        )

    def impi_fortran_number(self, owner: int, handle: int) -> int:
        return -handle

    def impi_set_status(
        self,
        at: int,
        source: int,
        tag: int,
        error: int,
        cancelled: int,
        octets: int,
        longs: int,
    ) -> None:
        place = ffi.cast("struct status *", at)
        place.of[0], place.of[1], place.of[3], place.octets, place.longs = (
            source,
            tag,
            cancelled,
            octets,
            longs,
        )
        if error >= 0:
            place.of[2] = error

    def impi_status_source(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).of[0])

    def impi_status_tag(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).of[1])

    def impi_status_error(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).of[2])

    def impi_status_cancelled(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).of[3])

    def impi_status_octets(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).octets)

    def impi_status_longs(self, at: int) -> int:
        return int(ffi.cast("struct status *", at).longs)


library: Final = Library()


def _impi_mpi() -> Any:
    if "impi.MPI" in sys.modules:
        return sys.modules["impi.MPI"]
    with native.other_options(initialize=False, finalize=False):
        return importlib.import_module("impi.MPI")


link.ffi, link.lib, link.MPI = ffi, library, _impi_mpi()
link.know(ABI)
MPI: Final[Any] = link.MPI


def number(name: str) -> int:
    """The value of a constant in programs."""
    return link.constant(name)


def address(pointer: Any) -> int:
    return int(ffi.cast("intptr_t", pointer))
