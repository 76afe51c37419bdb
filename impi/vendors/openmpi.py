"""The vendor ``openmpi``: Open MPI through mpi4py."""

from __future__ import annotations

from collections.abc import Mapping

from impi.vendors._native import NativeVendor, describe

__all__ = ["connect", "describe"]


class OpenmpiVendor(NativeVendor):
    """The vendor over Open MPI."""

    def __init__(self, size: int = 0) -> None:
        super().__init__("openmpi", "Open MPI", size)


def connect(join: Mapping[str, object]) -> OpenmpiVendor:
    """Initialise Open MPI in this proc, which its mpiexec has started.

    Raises:
        LaunchError: see :class:`impi.vendors._native.NativeVendor`.
    """
    return OpenmpiVendor(int(str(join.get("size", 0))))
