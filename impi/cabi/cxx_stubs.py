"""What Open MPI's library for C++ takes from the inside of Open MPI, besides MPI's C functions.

Programs in C++ need that library, ``libmpi_cxx.so.40``, even where they call the C functions alone:
the header has classes. So its data are there, and a call of its functions ends the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.cabi.abi import Abi

DATA: Final = (
    *("ompi_mpi_errors_throw_exceptions", "ompi_errcode_intern_lastused", "ompi_errcodes_intern"),
    "ompi_registered_datareps",
)
FUNCTIONS: Final = (
    *("ompi_attr_create_keyval", "ompi_errhandler_create", "ompi_errhandler_invoke"),
    "ompi_op_set_cxx_callback",
)
_WORDS: Final = 64
"""More than any of them has."""


def stubs(abi: Abi, *, front: bool) -> Iterator[str]:
    """Yield the definitions; in front mode, the library behind has them."""
    if abi.name != "openmpi" or front:
        return
    for name in DATA:
        yield f"long {name}[{_WORDS}];"
    for name in FUNCTIONS:
        yield f"int {name}(void)\n{{\n    fflush(NULL);"
        yield f'    fprintf(stderr, "impi: Open MPI\'s library for C++ calls {name}, which Open MPI alone has: "'
        yield '        "use the C functions for functions that MPI calls\\n");'
        yield "    _exit(1);\n}"
