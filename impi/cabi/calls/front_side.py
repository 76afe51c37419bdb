"""Front mode in Python: functions for C besides MPI's, and the watch over the vendor's calls.

A stub passes calls inside the client on to the vendor's library, and a rank that blocks there must
still serve its channels to other clients. C counts these calls. A helper thread of Python looks at
the counter every millisecond, and takes turns of the engine while a call lasts.

This module is imported before impi.MPI, whose import needs C's defaults
(:mod:`impi.cabi.calls.connection`). So it imports impi.rank.api inside functions only.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Final

from impi.cabi.objects import link
from impi.rank.vendors import native

_LIBRARY, _EXTENSION = 0, 1


def extension() -> ModuleType:
    """Import mpi4py's module over the vendor's library; C learns where both lie.

    Both call MPI by the names that our stubs have. The stubs know such calls by their return
    addresses, and pass them on.
    """

    _know(_LIBRARY, "libmpi.so")
    module = importlib.import_module("mpi4py.MPI")
    _know(_EXTENSION, os.path.basename(str(module.__file__)))

    return module


def _know(number: int, name: str) -> None:
    """Tell C the address range of the library whose file name starts with ``name``."""
    places = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, _, path = line.partition(" ")
            if path.rpartition("/")[2].startswith(name):
                places += [int(each, 16) for each in span.split("-")]

    # A file is mapped in several pieces side by side, with different rights.
    if places:
        link.lib.impi_library_at(number, min(places), max(places))


class _Passed:
    """The calls that C has passed on to the vendor's library, for the helper thread to watch."""

    def now(self) -> tuple[int, bool]:
        """Return the number of such calls, and whether one is under way."""
        return link.lib.impi_passed(), bool(link.lib.impi_inside())

    def serve(self, serving: bool) -> None:
        link.lib.impi_serve(serving)


def begin() -> None:
    """Start the watch once MPI is initialised, and give MPI_COMM_SELF C's error handler."""

    from impi.rank.api import runtime

    library = native.real_mpi()
    # mpi4py has set another one
    library.COMM_SELF.Set_errhandler(library.ERRORS_ARE_FATAL)
    runtime.progress_thread().watch(link.MPI.COMM_WORLD._state.context, _Passed())


def turn() -> int:
    """Take a turn of the engine: C asks for one every 256 calls.

    A program whose calls all complete at once in the vendor's library never lets the helper see one
    under way, and would starve its channels.
    """
    from impi.rank.api import runtime

    runtime.engine().turns.progress()

    return 0


def adopt_op(function: int, commute: int, large: int, number: int) -> int:
    """Make our operation for one that the vendor has made, under the vendor's handle."""

    from impi.cabi.calls.callbacks import operation
    from impi.cabi.objects.handle_tables import ops

    ops[number] = operation(function, bool(commute), bool(large))

    return 0


def adopt_errhandler(function: int, of_file: int, number: int) -> int:
    """Make our error handler for one that the vendor has made, under the vendor's handle."""

    from impi.cabi.objects.failures import handler
    from impi.cabi.objects.handle_tables import errhandlers

    errhandlers[number] = handler("File" if of_file else "Comm", function)

    return 0


def drop_type(number: int) -> int:
    """Forget a datatype before the vendor frees it and gives its handle to another one."""
    from impi.cabi.objects.handle_tables import datatypes

    if number in datatypes:
        datatypes.drop(number)

    return 0


LENT: Final = {
    "impi_py_turn": turn,
    "impi_py_adopt_op": adopt_op,
    "impi_py_adopt_errhandler": adopt_errhandler,
    "impi_py_drop_type": drop_type,
}
