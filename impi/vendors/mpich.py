"""The vendor ``mpich``: MPICH through mpi4py."""

from __future__ import annotations

from collections.abc import Mapping

from impi.vendors._native import NativeVendor, describe

__all__ = ["connect", "describe"]


class MpichVendor(NativeVendor):
    """The vendor over MPICH."""

    def __init__(self, size: int = 0) -> None:
        super().__init__("mpich", "MPICH", size)


def connect(join: Mapping[str, object]) -> MpichVendor:
    """Initialise MPICH in this proc, which its mpiexec has started.

    Raises:
        LaunchError: see :class:`impi.vendors._native.NativeVendor`.
    """
    return MpichVendor(int(str(join.get("size", 0))))
