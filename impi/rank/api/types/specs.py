"""The types of buffer arguments, for type checkers only: MPI never inspects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Buffer

    from impi.rank.api.constants import BottomType, InPlaceType


class _OfNumpy(Protocol):
    @property
    def __array_interface__(self) -> Mapping[str, object]: ...


class _OfCuda(Protocol):
    @property
    def __cuda_array_interface__(self) -> Mapping[str, object]: ...


class _OfDlpack(Protocol):
    def __dlpack_device__(self) -> tuple[int, int]: ...


if TYPE_CHECKING:
    Memory: TypeAlias = Buffer | _OfNumpy | _OfCuda | _OfDlpack | BottomType | None
    """An object with the octets of a message."""
    BufferSpec: TypeAlias = Memory | InPlaceType | Sequence[object]
    """An argument: memory, or a sequence of memory, counts, displacements, datatype (MPI 3.2.2)."""
    TargetSpec: TypeAlias = int | Sequence[object] | None
    """A place in a window: a displacement, or displacement, count and datatype (MPI 12.3)."""
    FileName: TypeAlias = PathLike[str] | PathLike[bytes] | str | bytes
    """The name of a file (MPI 14.2.1)."""
