"""List the functions that a library exports, and the calls that C answers without Python.

A call of Python costs about a microsecond. C answers what programs ask in inner loops: rank and
size, sizes of datatypes, counts and fields of statuses, the time. ``KNOWN`` looks in the table of
``start.c``, which Python fills as it hands out handles, and falls through to Python for a handle
that it lacks: Python then reports the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from impi.base.records import record
from impi.cabi.tables.abi_tables import Function

_FORMS: Final = (
    ("c2f", "c_status", "f_status"),
    ("f2c", "f_status", "c_status"),
    ("c2f08", "c_status", "f08_status"),
    ("f082c", "f08_status", "c_status"),
    ("f2f08", "f_status", "f08_status"),
    ("f082f", "f08_status", "f_status"),
)
ANSWERS: Final = {
    "Initialized": "*flag = impi_state > 0; return 0;",
    "Finalized": "*flag = impi_state > 1; return 0;",
    "Query_thread": "if (impi_state == 1) { *provided = impi_level; return 0; }",
    "Get_version": "*version = 5; *subversion = 0; return 0;",
    "Wtime": "return impi_seconds();",
    "Wtick": "return 1e-9;",
    "Aint_add": "return (MPI_Aint)((char *)base + disp);",
    "Aint_diff": "return (MPI_Aint)((char *)addr1 - (char *)addr2);",
    "Comm_rank": "KNOWN(comm, rank, first)",
    "Comm_size": "KNOWN(comm, size, second)",
    "Comm_test_inter": "KNOWN(comm, flag, third)",
    "Type_size": "KNOWN(datatype, size, first)",
    "Get_count": (
        "const impi_entry *known = impi_known((intptr_t)datatype); uint64_t octets = IMPI_PACKED(status);\n"
        "    if (known && known->second && !(octets >> 31)) {\n"
        "        if (!octets) { *count = 0; return 0; }\n"
        "        if (known->first && octets % known->first == 0) { *count = octets / known->first; return 0; }\n    }"
    ),
    "Status_get_source": "*source = status->MPI_SOURCE; return 0;",
    "Status_get_tag": "*tag = status->MPI_TAG; return 0;",
    "Status_get_error": "*err = status->MPI_ERROR; return 0;",
    "Status_set_source": "status->MPI_SOURCE = source; return 0;",
    "Status_set_tag": "status->MPI_TAG = tag; return 0;",
    "Status_set_error": "status->MPI_ERROR = err; return 0;",
    "Status_set_cancelled": "impi_cancel_status((intptr_t)status, flag); return 0;",
    "Test_cancelled": "*flag = impi_status_cancelled((intptr_t)status); return 0;",
    "Pcontrol": "return 0;",
    # C's, Fortran's and Fortran 2008's form of a status have the same octets in each ABI.
    **{
        f"Status_{verb}": f"memcpy({to}, {given}, sizeof(MPI_Status)); return 0;"
        for verb, given, to in _FORMS
    },
}
"""C statements of functions that need no Python, or need it only if the statements do not return.

Text that ends with ``;`` always returns: :func:`needs_python` relies on that.
"""


@record(kw_only=True)
class Stub:
    """One exported function."""

    name: str  # with MPI_, and _c for large counts
    function: Function
    large: bool

    @property
    def texts(self) -> list[str]:
        return [
            each.large if self.large else each.text for each in self.function.parameters
        ]

    @property
    def python(self) -> str:
        return f"impi_py_{self.name[4:]}"


def stubs(functions: Iterable[Function]) -> Iterator[Stub]:
    """Yield a stub for every function, and one for its large-count form."""
    for function in functions:
        yield Stub(name=function.name, function=function, large=False)
        if function.large:
            yield Stub(name=f"{function.name}_c", function=function, large=True)


def needs_python(stub: Stub) -> bool:
    """Return whether a stub may call Python."""
    if conversion(stub.function) is not None or is_tool(stub):
        return False

    return not answer(stub).endswith(";")  # see ANSWERS


def answer(stub: Stub) -> str:
    """Return C statements that answer all or some calls of a stub; empty: Python answers all."""
    return "" if stub.large else ANSWERS.get(stub.name.removeprefix("MPI_"), "")


def is_tool(stub: Stub) -> bool:
    """Return whether a function belongs to MPI's tool interface, which impi lacks."""
    return stub.name.startswith("MPI_T_")


def conversion(function: Function) -> str | None:
    """Return the parameter of a function that converts handles and numbers; None: another one."""
    last = function.name.rpartition("_")[2]
    if last in ("toint", "fromint", "c2f", "f2c") and len(function.parameters) == 1:
        return function.parameters[0].name

    return None
