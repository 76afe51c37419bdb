"""MPI's environment: initialisation, versions, names, time (MPI chapters 9 and 11)."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import impi
from impi.protocol.semantics.balance import balanced
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.constants import (
    MAX_PROCESSOR_NAME,
    SUBVERSION,
    THREAD_MULTIPLE,
    THREAD_SINGLE,
    VERSION,
)
from impi.rank.api.handles import INFO_NULL, Info, fitting, guarded_function, row
from impi.rank.api.runtime import finalized
from impi.rank.api.types.datatypes import AINT, COUNT, OFFSET

if TYPE_CHECKING:
    from impi.rank.api.types.bufferclass import buffer

__all__ = [
    "Alloc_mem",
    "Compute_dims",
    "Finalize",
    "Free_mem",
    "Get_abi_fortran_info",
    "Get_abi_info",
    "Get_abi_version",
    "Get_hw_resource_info",
    "Get_library_version",
    "Get_processor_name",
    "Get_version",
    "Init",
    "Init_thread",
    "Is_finalized",
    "Is_initialized",
    "Is_thread_main",
    "Pcontrol",
    "Query_thread",
    "Wtick",
    "Wtime",
    "get_vendor",
]


@guarded_function
def Init() -> None:
    """Initialize MPI with THREAD_SINGLE, unless the import did; see :mod:`impi.rank.api.rc`."""
    _initialize(THREAD_SINGLE)


@guarded_function
def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Initialize MPI, unless the import did, and return the provided thread level.

    The provided level is the requested one, with one exception. THREAD_SERIALIZED takes the place
    of THREAD_MULTIPLE if a client has IMPI 0.0 only, or if the client's library provides no more.
    """
    _initialize(required)
    return runtime.thread_level()


def _initialize(required: int) -> None:
    if finalized():
        raise error("ERR_OTHER", "MPI was finalized and cannot be initialized again")

    if not THREAD_SINGLE <= required <= THREAD_MULTIPLE:
        raise error("ERR_ARG", f"there is no thread level {required}")

    runtime.initialize(required)


@guarded_function
def Finalize() -> None:
    """Wait for all procs of the job, then leave it."""
    if finalized():
        raise error("ERR_OTHER", "MPI was finalized already")

    runtime.finalize()


Is_initialized = runtime.initialized
Is_finalized = finalized


@guarded_function
def Query_thread() -> int:
    """Return the provided thread level, which :func:`Init_thread` has returned, too."""
    return runtime.thread_level()


@guarded_function
def Is_thread_main() -> bool:
    """Return whether this thread initialised MPI."""
    return threading.get_ident() == runtime.thread_ident()


def Get_version() -> tuple[int, int]:
    """Return the version of the MPI standard; calls that impi lacks raise NotImplementedError."""
    return (VERSION, SUBVERSION)


@guarded_function
def Get_library_version() -> str:
    """Return the name and version of impi, and of the client's MPI library."""
    return f"impi {impi.__version__} (IMPI 0.0) over {runtime.description()['library']}"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Return "impilab" and the version: programs of mpi4py take "IMPI" for Intel MPI."""
    major, minor, micro = (int(part) for part in impi.__version__.split("."))
    return ("impilab", (major, minor, micro))


def Get_processor_name() -> str:
    """Return the name of this node."""
    import platform

    return platform.node()[: MAX_PROCESSOR_NAME - 1]


def Wtime() -> float:
    """Return seconds since some moment in the past, on this node's clock."""
    return time.perf_counter()


def Wtick() -> float:
    """Return the resolution of :func:`Wtime` in seconds."""
    return time.get_clock_info("perf_counter").resolution


@guarded_function
def Alloc_mem(size: int, info: Info = INFO_NULL) -> buffer:
    """Return new memory of ``size`` octets."""
    from impi.rank.api.types.bufferclass import buffer

    return buffer.allocate(size)


@guarded_function
def Free_mem(mem: buffer) -> None:
    """Free the memory."""
    mem.release()


def Get_hw_resource_info() -> Info:
    """Return empty hints: the hardware is unknown."""
    return Info.Create()


def Get_abi_version() -> tuple[int, int]:
    """Return (-1, -1): the classes of :mod:`impi.MPI` have no ABI."""
    return (-1, -1)


def Get_abi_info() -> Info:
    """Return the sizes of the integer types."""
    sizes = {"aint": AINT, "count": COUNT, "offset": OFFSET}.items()
    return Info.Create(
        {f"mpi_{name}_size": str(datatype.size) for name, datatype in sizes}
    )


def Get_abi_fortran_info() -> Info:
    """Return INFO_NULL: there is no Fortran interface."""
    return Info(INFO_NULL)


@guarded_function
def Pcontrol(level: int) -> None:
    """Do nothing: the classes of :mod:`impi.MPI` have no profiling layer."""


@guarded_function
def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return the most balanced grid of ``nnodes``; dimensions other than 0 stay (MPI 4.1, 8.5.2).

    Raises:
        Exception: ERR_DIMS: the fixed dimensions do not divide ``nnodes``.
    """

    try:
        sizes = [0] * fitting(operator.index(dims))  # type: ignore[arg-type]
    except TypeError:
        sizes = row(dims)  # type: ignore[arg-type]

    fixed = 1
    for size in sizes:
        if size < 0:
            raise error("ERR_DIMS", f"dimension {size} is negative")

        fixed *= size or 1

    free = [i for i, size in enumerate(sizes) if size == 0]
    if nnodes < 1 or nnodes % fixed or (not free and fixed != nnodes):
        raise error("ERR_DIMS", f"{nnodes} processes do not fill a grid of {sizes}")

    for index, size in zip(free, balanced(nnodes // fixed, len(free)), strict=True):
        sizes[index] = size

    return sizes


def _set_abort_status(status: int) -> None:
    """Abort the job with ``status`` at the end of the program (for ``python -m mpi4py``)."""
    runtime.set_abort_status(status)


def _impi_local() -> dict[str, Any]:
    """Return vendor, the library's own number of procs, messages sent by it (for the testbed)."""
    vendor = runtime.engine().vendor
    return {
        "vendor": vendor.name,
        "size": vendor.world.size,
        "messages": vendor.messages,
        **vendor.describe(),
    }
