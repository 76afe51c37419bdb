"""Write the internal functions and data that libraries for Fortran and C++ take from a C library.

* *Fortran, MPICH's family*: attributes are integers in Fortran, and callbacks of keyvals and of
  generalized requests have other parameters than in C. The Fortran library says so by calling
  internal functions of the C library, ``MPII_Name``.
* *Fortran, Intel MPI*: ``libmpifort.so.12`` is linked such that every internal symbol of Intel's C
  library must exist at the start. Its constants are variables in common blocks. A program in
  Fortran defines these, too, and then the program's addresses are the constants.
* *C++, Open MPI*: programs need ``libmpi_cxx.so.40`` even if they call C functions only, because
  the header has classes. So its data exist here, and a call of its functions ends the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.cabi.tables.abi import OWNERS, Abi

DECLARED: Final = """
extern "Python" int impi_py_fortran_put(int owner, intptr_t object, int key, intptr_t value, int type);
extern "Python" int impi_py_fortran_get(int owner, intptr_t object, int key, intptr_t place, int *flag, int type);
extern "Python" int impi_py_fortran_functions(int key, intptr_t copy, intptr_t delete_fn);
extern "Python" int impi_py_fortran_request(intptr_t request);
extern "Python" int impi_py_fortran_op(intptr_t op);
extern "Python" int impi_py_fortran_errhandler(intptr_t errhandler);
"""
"""Python functions for C; ``owner`` is an index into :data:`impi.cabi.tables.abi.OWNERS`."""
# In front mode the vendor's library calls these functions of its own, and the loader gives it ours.
_BEHIND: Final = (
    "if (IMPI_FROM_LIBRARY) {{ "
    'int (*behind)({types}) = dlsym(RTLD_NEXT, "{name}"); return behind{call}; '
    "}}"
)
# Callbacks in Fortran get the number of an object, not its handle; `owner` is an index into OWNERS.
_NUMBERS: Final = """
static int impi_fortran_number(int owner, intptr_t object)
{
    if (owner == 0) return PMPI_Comm_c2f((MPI_Comm)object);
    return owner == 1 ? PMPI_Type_c2f((MPI_Datatype)object) : PMPI_Win_c2f((MPI_Win)object);
}
"""
_CXX_DATA: Final = (
    *(
        "ompi_mpi_errors_throw_exceptions",
        "ompi_errcode_intern_lastused",
        "ompi_errcodes_intern",
    ),
    "ompi_registered_datareps",
)
_CXX_FUNCTIONS: Final = (
    *("ompi_attr_create_keyval", "ompi_errhandler_create", "ompi_errhandler_invoke"),
    "ompi_op_set_cxx_callback",
)
_WORDS: Final = 64  # at least the size of each of these data
# Common blocks of Intel's and MPICH's mpif.h, and their sizes in octets.
_BLOCKS: Final = {
    "mpipriv1": 28,
    "mpipriv2": 24,
    "mpiprivc": 2,
    "mpifcmb5": 4,
    "mpifcmb9": 4,
    "mpifcmba": 4,
}
# Pointers to Fortran's constants, with the offset of each in its common block.
_PLACES: Final = {
    "MPIR_F_MPI_BOTTOM": "mpipriv1_",
    "MPIR_F_MPI_IN_PLACE": "mpipriv1_ + 4",
    "MPIR_F_MPI_UNWEIGHTED": "mpifcmb5_",
    "MPIR_F_MPI_WEIGHTS_EMPTY": "mpifcmb9_",
    "MPIR_F_MPI_BUFFER_AUTOMATIC": "mpifcmba_",
    "MPI_F_ERRCODES_IGNORE": "mpipriv2_ + 20",
    "MPI_F_ARGVS_NULL": "mpiprivc_",
}
# Functions of Intel MPI that impi lacks. The loader demands them at the start, so they exist and
# return an error.
_ABSENT: Final = (
    *(
        "Comm_agree",
        "Comm_failure_ack",
        "Comm_failure_get_acked",
        "Comm_get_failed",
        "Comm_revoke",
        "Comm_shrink",
    ),
    *(
        "Comm_test_threadcomm",
        "Get_notify",
        "Get_notify_c",
        "Put_notify",
        "Put_notify_c",
        "Win_create_notify",
    ),
    *("Win_free_notify", "Win_get_notify", "Win_get_notify_request", "Win_set_notify"),
)
_INTEL_CODE: Final = """
const int MPII_F_TRUE = 1, MPII_F_FALSE = 0;
int MPII_Comm_get_attr_fort(MPI_Comm object, int key, void *value, int *flag, int type)
{ return MPII_Comm_get_attr(object, key, value, flag, type); }
void MPII_Op_set_f08(MPI_Op op) {}
int MPIR_Err_create_code(int last, int fatal, const char *name, int line, int kind, const char *text, ...)
{ return kind; }
int MPIR_Err_return_comm(void *comm, const char *name, int code) { return code; }
void *impi_malloc(size_t octets) { return malloc(octets); }
void *impi_realloc(void *given, size_t octets) { return realloc(given, octets); }
void impi_free(void *given) { free(given); }
int MPIX_Query_cuda_support(void) { return 0; }
int MPIX_Query_ze_support(void) { return 0; }
/* MPICH's library for Fortran has one of its own. */
void mpirinitf_(void)
{
    void (*own)(void) = dlsym(RTLD_NEXT, "mpirinitf_");
    if (own) { own(); return; }
    MPI_F_STATUS_IGNORE = (int *)(mpipriv1_ + 8);
    MPI_F_STATUSES_IGNORE = (int *)mpipriv2_;
}
"""


def stubs(abi: Abi, *, front: bool) -> Iterator[str]:
    """Yield the C text; in front mode the vendor's library has most of it."""

    # For Open MPI's ABI, fortran_library calls them
    if abi.name != "openmpi" or not front:
        yield from _helpers(front)

    yield _NUMBERS
    if abi.name == "openmpi" and not front:
        yield from _of_cxx()

    if abi.name == "mpich" and not front:
        yield from _of_intel()


def _helpers(front: bool) -> Iterator[str]:
    """Yield the functions that Fortran libraries of MPICH's family call.

    In front mode datatypes and their keyvals are the vendor's, so these need no functions here.
    Programs in Fortran have no front mode, but the vendor's library calls the functions itself.
    """

    yield DECLARED.replace('extern "Python"', "static")

    behind = _BEHIND if front else ""
    for number, (name, kind) in enumerate(OWNERS.items()):
        if front and name == "Type":
            continue

        given = f"{number}, (intptr_t)object, key"
        head, call = f"{kind} object, int key, void *value", "(object, key, value"
        yield f"int MPII_{name}_set_attr({head}, int type) {{"
        yield behind.format(
            name=f"MPII_{name}_set_attr",
            types=f"{kind}, int, void *, int",
            call=f"{call}, type)",
        )
        yield f"impi_start(); return impi_py_fortran_put({given}, (intptr_t)value, type); }}"
        yield f"int MPII_{name}_get_attr({head}, int *flag, int type) {{"
        types = f"{kind}, int, void *, int *, int"
        yield behind.format(
            name=f"MPII_{name}_get_attr", types=types, call=f"{call}, flag, type)"
        )
        yield f"impi_start(); return impi_py_fortran_get({given}, (intptr_t)value, flag, type); }}"

    # In front mode a key of datatypes is the vendor's: Python does not know it, and
    # the vendor's function follows.
    yield "void MPII_Keyval_set_proxy(int key, void *copy, void *delete_fn) {"
    yield "impi_start(); if (impi_py_fortran_functions(key, (intptr_t)copy, (intptr_t)delete_fn)) return;"
    yield 'void (*behind)(int, void *, void *) = dlsym(RTLD_NEXT, "MPII_Keyval_set_proxy");'
    yield "if (behind) behind(key, copy, delete_fn); }"
    yield "void MPII_Grequest_set_lang_f77(MPI_Request request)"
    yield "{ impi_start(); impi_py_fortran_request((intptr_t)request); }"
    yield "void MPII_Op_set_fc(MPI_Op op) { impi_start(); impi_py_fortran_op((intptr_t)op); }"
    yield "void MPII_Errhandler_set_fc(MPI_Errhandler errhandler)"
    yield "{ impi_start(); impi_py_fortran_errhandler((intptr_t)errhandler); }"


def _of_cxx() -> Iterator[str]:
    for name in _CXX_DATA:
        yield f"long {name}[{_WORDS}];"

    for name in _CXX_FUNCTIONS:
        # _exit() drops what C has buffered, so that is written first.
        yield f"int {name}(void)\n{{\n    fflush(NULL);"
        yield f'    fprintf(stderr, "impi: Open MPI\'s library for C++ calls {name}, which Open MPI alone has: "'
        yield '        "use the C functions for functions that MPI calls\\n");'
        yield "    _exit(1);\n}"


def _of_intel() -> Iterator[str]:
    for name, octets in _BLOCKS.items():
        yield f"char {name}_[{octets}] __attribute__((aligned(16)));"

    for name, place in _PLACES.items():
        yield f"void *{name} = {place};"

    yield _INTEL_CODE
    for name in _ABSENT:
        yield f"int MPIX_{name}(void) {{ return IMPI_GONE; }}"
