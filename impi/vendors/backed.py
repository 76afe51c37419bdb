"""A vendor over an MPI library through mpi4py: MPICH, Open MPI, Intel MPI and others."""

from __future__ import annotations

from collections.abc import Mapping

from impi.vendors._native import NativeVendor, describe

__all__ = ["connect", "describe"]


def connect(join: Mapping[str, object]) -> NativeVendor:
    """Initialise the library of the invitation in this proc, which its mpiexec has started.

    Raises:
        LaunchError: see :class:`impi.vendors._native.NativeVendor`.
    """
    return NativeVendor(str(join["vendor"]), str(join["library"]), int(str(join.get("size", 0))))
