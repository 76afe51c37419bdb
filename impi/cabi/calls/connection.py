"""Connect the C side of a library with the Python side, when Python starts behind it.

The first stub that needs Python starts it (``start.c``), and cffi runs the text in
:mod:`impi.cabi.library.compilation`, which calls :func:`connect`. The order there is fixed:

1. :mod:`impi.cabi.objects.link` gets ffi and lib, which all other modules take from it on import;
2. the importer of the vendor's library is chosen, before impi.MPI loads a vendor;
3. impi.MPI is imported, with C's defaults in place of a Python program's;
4. the generated Python side is executed; it sets the ABI first;
5. each of its functions is lent to C. Until then cffi answers a stub with 0, so ``start.c`` asks
   ``impi_py_hello`` last.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys

from impi.base.variables import STANDS_IN
from impi.cabi.calls import front_side
from impi.cabi.library import vendor_library
from impi.cabi.objects import link
from impi.cabi.objects.link import Object, Pointer
from impi.rank.vendors import native


def connect(
    ffi: Pointer, lib: Pointer, name: str, side: str, *, front: bool = False
) -> None:
    """Load the Python side and lend its functions to C.

    Args:
        ffi, lib: the embedded module's, from cffi.
        name: the ABI.
        side: path of the module that :mod:`impi.cabi.text.marshal` has written.
        front: whether the library stands before the vendor's.
    """
    collects = gc.isenabled()

    # Nothing that is loaded here becomes garbage, and looking for it costs 5 ms
    # (docs/decisions/lazy-imports-and-records.md). freeze() spares it later collections, too.
    gc.disable()
    try:
        _connect(ffi, lib, name, side, front=front)
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def _connect(ffi: Pointer, lib: Pointer, name: str, side: str, *, front: bool) -> None:
    link.ffi, link.lib, link.front = ffi, lib, front
    if front:
        native.importer = front_side.extension
    elif STANDS_IN in os.environ:
        native.importer = vendor_library.extension

    link.MPI = _import_mpi()
    spec = importlib.util.spec_from_file_location(f"impi_side_{name}", side)
    assert spec is not None and spec.loader is not None, f"{side} cannot be imported"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from impi.cabi.calls import fortran_calls, program_life

    lent = {
        **module.FUNCTIONS,
        **fortran_calls.LENT,
        **(front_side.LENT if front else {}),
    }
    # Without onerror cffi prints an exception and returns 0, which C takes for MPI_SUCCESS.
    for function, implementation in lent.items():
        ffi.def_extern(name=function, onerror=_ended)(implementation)

    ffi.def_extern(name="impi_py_left", onerror=_ended)(program_life.left)
    ffi.def_extern(name="impi_py_hello")(lambda: 1)


def _import_mpi() -> Object:
    """Import impi.MPI with C's defaults: MPI_Init initialises it, and errors are fatal.

    The options in ``mpi4py.rc`` are for mpi4py's extension, which stands above this library.
    """
    if "impi.MPI" in sys.modules:
        return sys.modules["impi.MPI"]

    with native.other_options(initialize=False, finalize=False, errors="default"):
        return importlib.import_module("impi.MPI")


def _ended(kind: type[BaseException], failure: BaseException, trace: Pointer) -> int:
    """End the job after an error in the library itself: no code of MPI tells C that."""
    from impi.rank.api import runtime

    runtime._abort_on_exception(kind, failure, trace)
    runtime.abort(1)
