"""What Intel MPI's library for Fortran takes from the inside of Intel MPI, besides MPICH's helpers.

``libmpifort.so.12`` is linked so that all of it must be there at the start. Its constants are
variables of common blocks, which a program in Fortran has, too: then the program's are the ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.cabi.abi import Abi

_BLOCKS: Final = {"mpipriv1": 28, "mpipriv2": 24, "mpiprivc": 2, "mpifcmb5": 4, "mpifcmb9": 4, "mpifcmba": 4}
"""Common blocks of Intel's and MPICH's mpif.h, and their octets."""
_PLACES: Final = {
    "MPIR_F_MPI_BOTTOM": "mpipriv1_",
    "MPIR_F_MPI_IN_PLACE": "mpipriv1_ + 4",
    "MPIR_F_MPI_UNWEIGHTED": "mpifcmb5_",
    "MPIR_F_MPI_WEIGHTS_EMPTY": "mpifcmb9_",
    "MPIR_F_MPI_BUFFER_AUTOMATIC": "mpifcmba_",
    "MPI_F_ERRCODES_IGNORE": "mpipriv2_ + 20",
    "MPI_F_ARGVS_NULL": "mpiprivc_",
}
"""Pointers to Fortran's constants in them."""
_ABSENT: Final = (
    *("Comm_agree", "Comm_failure_ack", "Comm_failure_get_acked", "Comm_get_failed", "Comm_revoke", "Comm_shrink"),
    *("Comm_test_threadcomm", "Get_notify", "Get_notify_c", "Put_notify", "Put_notify_c", "Win_create_notify"),
    *("Win_free_notify", "Win_get_notify", "Win_get_notify_request", "Win_set_notify"),
)
"""Extensions of Intel's (``MPIX_``) that impi has not."""
_CODE: Final = """
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
    """Yield the definitions; in front mode, the library behind has them."""
    if abi.name != "mpich" or front:
        return
    for name, octets in _BLOCKS.items():
        yield f"char {name}_[{octets}] __attribute__((aligned(16)));"
    for name, place in _PLACES.items():
        yield f"void *{name} = {place};"
    yield _CODE
    for name in _ABSENT:
        yield f"int MPIX_{name}(void) {{ return IMPI_GONE; }}"
