"""Status: the data of a received message."""

from __future__ import annotations

from array import array
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import Any, Final, Self

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG, SUCCESS, UNDEFINED
from impi.protocol.semantics.errors import error
from impi.rank.api.constants import F_ERROR, F_SOURCE, F_STATUS_SIZE, F_TAG
from impi.rank.api.handles.failing import guarded
from impi.rank.api.types.datatypes import BYTE, Datatype

__all__ = ["Status"]

# A status is a row of C integers, which mpi4py's tomemory() and py2f() expose.
_CANCELLED: Final = 3
_LOW: Final = 4
_HIGH: Final = 5
# Octets of MPI_LONG if the message is external32, 0 if it is in native form
_LONG_SIZE: Final = 6
_EMPTY: Final = array("i", [ANY_SOURCE, ANY_TAG, SUCCESS, 0, 0, 0, 0, 0])


@guarded
class Status:
    """Status of a communication: empty when new."""

    _row: array[int]
    _unguarded = ("fill", "nbytes")

    def __new__(cls, status: Status | None = None) -> Self:
        if status is not None and not isinstance(status, Status):
            raise TypeError(f"expecting Status or None, got {type(status).__name__}")

        self = super().__new__(cls)
        self._row = (_EMPTY if status is None else status._row)[:]

        return self

    def fill(
        self,
        *,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        nbytes: int = 0,
        error: int = SUCCESS,
        cancelled: bool = False,
        external: bool = False,
        long_size: int = 4,
    ) -> None:
        """Write all fields; ``nbytes`` in external32 with longs of ``long_size``, or native."""

        row = self._row
        row[F_SOURCE], row[F_TAG], row[F_ERROR], row[_CANCELLED] = (
            source,
            tag,
            error,
            cancelled,
        )
        self._set_nbytes(nbytes)
        row[_LONG_SIZE] = long_size if external else 0

    @property
    def nbytes(self) -> int:
        """Octets of the message, in the form of its arrival."""
        return ((self._row[_HIGH] & 0xFFFFFFFF) << 31) | self._row[_LOW]

    def _set_nbytes(self, nbytes: int) -> None:
        # 31 bits in the lower C int, which is signed; the rest in the higher one.
        high = nbytes >> 31
        # A C int has all 32 bits of it
        self._row[_HIGH] = high if high < 1 << 31 else high - (1 << 32)
        self._row[_LOW] = nbytes & 0x7FFFFFFF

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Status):
            return NotImplemented

        return self._row == other._row

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return (__newobj__, (type(self),), self.__getstate__())

    def __getstate__(self) -> dict[str, int]:
        return {
            "source": self.Get_source(),
            "tag": self.Get_tag(),
            "error": self.Get_error(),
            "count": self.Get_elements(BYTE),
            "cancelled": self.Is_cancelled(),
        }

    def __setstate__(self, state: dict[str, int]) -> None:
        self.Set_source(state["source"])
        self.Set_tag(state["tag"])

        self.Set_error(state["error"])
        if "count" in state:
            self.Set_elements(BYTE, state["count"])

        if "cancelled" in state:
            self.Set_cancelled(bool(state["cancelled"]))

    def Get_source(self) -> int:
        return self._row[F_SOURCE]

    def Set_source(self, source: int) -> None:
        self._row[F_SOURCE] = source

    def Get_tag(self) -> int:
        return self._row[F_TAG]

    def Set_tag(self, tag: int) -> None:
        self._row[F_TAG] = tag

    def Get_error(self) -> int:
        return self._row[F_ERROR]

    def Set_error(self, error: int) -> None:
        self._row[F_ERROR] = error

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Return the number of received elements; UNDEFINED if the last is not whole."""
        long_size = self._row[_LONG_SIZE]
        return datatype.typemap.count_of(
            self.nbytes, external=long_size > 0, long_size=long_size
        )

    def Get_elements(self, datatype: Datatype) -> int:
        """Return the number of received basic elements; UNDEFINED if the last is not whole."""
        long_size = self._row[_LONG_SIZE]
        return datatype.typemap.elements_of(
            self.nbytes, external=long_size > 0, long_size=long_size
        )

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        if count < 0 and count != UNDEFINED:
            raise error("ERR_ARG", f"negative number of elements {count}")

        self._set_nbytes(datatype.typemap.size_of_elements(max(count, 0)))
        self._row[_LONG_SIZE] = 0

    def Is_cancelled(self) -> bool:
        return bool(self._row[_CANCELLED])

    def Set_cancelled(self, flag: bool) -> None:
        self._row[_CANCELLED] = bool(flag)

    source = property(Get_source, Set_source, doc="rank of the sender")
    tag = property(Get_tag, Set_tag, doc="tag of the message")
    error = property(Get_error, Set_error, doc="error code")
    cancelled = property(
        Is_cancelled, Set_cancelled, doc="whether the request was cancelled"
    )

    @property
    def count(self) -> int:
        return self.Get_count(BYTE)

    @count.setter
    def count(self, value: int) -> None:
        self.Set_elements(BYTE, value)

    def tomemory(self) -> memoryview:
        return memoryview(self._row)

    def py2f(self) -> list[int]:
        return self._row.tolist()

    @classmethod
    def f2py(cls, arg: list[int]) -> Self:
        if len(arg) < F_STATUS_SIZE:
            raise ValueError(
                f"a Fortran status has {F_STATUS_SIZE} integers, not {len(arg)}"
            )

        self = cls()
        self._row = array("i", arg[:F_STATUS_SIZE])

        return self
