"""What Fortran libraries of MPICH's family call besides MPI: they are other libraries than ours.

Attributes are integers in Fortran, and functions of keyvals and of generalized requests have other
parameters than in C. The Fortran library tells so by functions of its own, ``MPII_Name``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.cabi.abi import OWNERS, Abi

DECLARED: Final = """
extern "Python" int impi_py_fortran_put(int owner, intptr_t object, int key, intptr_t value, int type);
extern "Python" int impi_py_fortran_get(int owner, intptr_t object, int key, intptr_t place, int *flag, int type);
extern "Python" int impi_py_fortran_functions(int key, intptr_t copy, intptr_t delete_fn);
extern "Python" int impi_py_fortran_request(intptr_t request);
extern "Python" int impi_py_fortran_op(intptr_t op);
extern "Python" int impi_py_fortran_errhandler(intptr_t errhandler);
"""
"""What Python lends; ``owner`` is an index into :data:`.abi.OWNERS`."""


def stubs(abi: Abi, *, front: bool) -> Iterator[str]:
    """Yield the C functions; for Open MPI's ABI, :mod:`.fortran_library` calls them.

    In front mode, datatypes are those of the library behind, and so are their keyvals. Programs in
    Fortran have no front mode.
    """
    if abi.name == "openmpi" and front:
        return
    yield DECLARED.replace('extern "Python"', "static")
    behind = _BEHIND if front else ""
    for number, (name, kind) in enumerate(OWNERS.items()):
        if front and name == "Type":
            continue
        given = f"{number}, (intptr_t)object, key"
        head, call = f"{kind} object, int key, void *value", "(object, key, value"
        yield f"int MPII_{name}_set_attr({head}, int type) {{"
        yield behind.format(name=f"MPII_{name}_set_attr", types=f"{kind}, int, void *, int", call=f"{call}, type)")
        yield f"impi_start(); return impi_py_fortran_put({given}, (intptr_t)value, type); }}"
        yield f"int MPII_{name}_get_attr({head}, int *flag, int type) {{"
        types = f"{kind}, int, void *, int *, int"
        yield behind.format(name=f"MPII_{name}_get_attr", types=types, call=f"{call}, flag, type)")
        yield f"impi_start(); return impi_py_fortran_get({given}, (intptr_t)value, flag, type); }}"
    yield "void MPII_Keyval_set_proxy(int key, void *copy, void *delete_fn) {"
    yield "impi_start(); if (impi_py_fortran_functions(key, (intptr_t)copy, (intptr_t)delete_fn)) return;"
    yield 'void (*behind)(int, void *, void *) = dlsym(RTLD_NEXT, "MPII_Keyval_set_proxy");'
    yield "if (behind) behind(key, copy, delete_fn); }"
    yield "void MPII_Grequest_set_lang_f77(MPI_Request request)"
    yield "{ impi_start(); impi_py_fortran_request((intptr_t)request); }"
    yield "void MPII_Op_set_fc(MPI_Op op) { impi_start(); impi_py_fortran_op((intptr_t)op); }"
    yield "void MPII_Errhandler_set_fc(MPI_Errhandler errhandler)"
    yield "{ impi_start(); impi_py_fortran_errhandler((intptr_t)errhandler); }"


NUMBERS: Final = """
static int impi_fortran_number(int owner, intptr_t object)
{
    if (owner == 0) return PMPI_Comm_c2f((MPI_Comm)object);
    return owner == 1 ? PMPI_Type_c2f((MPI_Datatype)object) : PMPI_Win_c2f((MPI_Win)object);
}
"""
"""The number of an object in Fortran; ``owner`` is an index into :data:`OWNERS`."""


_BEHIND: Final = (
    'if (IMPI_FROM_LIBRARY) {{ int (*behind)({types}) = dlsym(RTLD_NEXT, "{name}"); return behind{call}; }}'
)
"""The library behind calls these functions itself; it means its own."""
