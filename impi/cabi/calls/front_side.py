"""Front mode's side of Python: what C lends besides the functions of MPI, and the helper's watch.

It is here before impi.MPI, whose import needs C's defaults: so it imports nothing of impi.rank.api.
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
    """Return mpi4py's module over the library behind; its calls go there, not to us."""
    _know(_LIBRARY, "libmpi.so")
    module = importlib.import_module("mpi4py.MPI")
    _know(_EXTENSION, os.path.basename(str(module.__file__)))
    return module


def _know(number: int, name: str) -> None:
    """Tell C where a library lies whose file begins with a name."""
    places = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, _, path = line.partition(" ")
            if path.rpartition("/")[2].startswith(name):
                places += [int(each, 16) for each in span.split("-")]
    if places:
        link.lib.impi_library_at(number, min(places), max(places))


class _Passed:
    """Calls that C passes on to the library."""

    def now(self) -> tuple[int, bool]:
        """Return how many there have been, and whether one is under way."""
        return link.lib.impi_passed(), bool(link.lib.impi_inside())

    def serve(self, serving: bool) -> None:
        link.lib.impi_serve(serving)


def begin() -> None:
    """Watch the program's calls, once MPI is initialised, and give MPI_COMM_SELF C's handler."""
    from impi.rank.api import runtime

    library = native.real_mpi()
    library.COMM_SELF.Set_errhandler(library.ERRORS_ARE_FATAL)  # mpi4py has set another one
    runtime.progress_thread().watch(link.MPI.COMM_WORLD._state.context, _Passed())


def turn() -> int:
    """Take a turn of the engine, amid calls that all go to the library."""
    from impi.rank.api import runtime

    runtime.engine().turns.progress()
    return 0


def adopt_op(function: int, commute: int, large: int, number: int) -> int:
    """Know a user's operation that the library has made."""
    from impi.cabi.calls.callbacks import operation
    from impi.cabi.objects.handle_tables import ops

    ops[number] = operation(function, bool(commute), bool(large))
    return 0


def adopt_errhandler(function: int, of_file: int, number: int) -> int:
    """Know an error handler that the library has made."""
    from impi.cabi.objects.failures import handler
    from impi.cabi.objects.handle_tables import errhandlers

    errhandlers[number] = handler("File" if of_file else "Comm", function)
    return 0


def drop_type(number: int) -> int:
    """Forget a datatype that the library frees."""
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
