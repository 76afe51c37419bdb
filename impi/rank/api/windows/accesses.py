"""Accesses of memory that this proc can load and store; :mod:`.spread` has those by messages."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.values.datatype import Array, TypeMap
from impi.protocol.semantics.values.places import (
    Place,
    check_accumulation,
    check_comparable,
    element_of,
    values_of,
)
from impi.rank.api.types.buffers import UserBuffer

if TYPE_CHECKING:
    from impi.rank.engine.operations import Operation


@record
class Aim:
    """The target of an access: ``count`` elements of ``rank`` at a displacement."""

    rank: int
    disp: int
    count: int
    typemap: TypeMap

    @property
    def nbytes(self) -> int:
        return self.typemap.packed_size(self.count, external=False)

    def span(self, disp_unit: int, nbytes: int | None) -> tuple[int, int]:
        """Return the first octet, and the one behind the last, in a window of ``nbytes`` octets.

        Both are equal if there is no data; ``nbytes`` None: the window is dynamic.

        Raises:
            Exception: ``ERR_RMA_RANGE``: not all elements are in the window.
        """
        first, last = self.typemap.span(self.disp * disp_unit, self.count)
        if nbytes is not None and first != last and not 0 <= first <= last <= nbytes:
            raise outside(self.count, first, last, f"window of {nbytes} octets")

        return first, last


def outside(count: int, first: int, last: int, where: str) -> MPIException:
    """Return the error ``ERR_RMA_RANGE``."""
    return error(
        "ERR_RMA_RANGE",
        f"{count} elements at octets {first} to {last} are not in the {where}",
    )


class Direct:
    """Accesses of a window whose memory is here; base of all states.

    Each call returns an operation of the engine, or None: the access is complete. Raises Exception:
    ``ERR_RMA_RANGE``, ``ERR_DISP``, ``ERR_COUNT``; ``ERR_TYPE``, ``ERR_OP``: not possible.
    """

    __slots__ = ()

    def place(self, aim: Aim) -> Place:
        raise NotImplementedError

    def exclusively(self, rank: int) -> AbstractContextManager[object]:
        """Return a context in which no other proc accumulates into the memory of a rank."""
        raise NotImplementedError

    def put(self, message: UserBuffer, aim: Aim) -> Operation | None:
        self.place(aim).store(octets_of(message))
        return None

    def get(self, message: UserBuffer, aim: Aim) -> Operation | None:
        write(message, self.place(aim).load())
        return None

    def accumulate(self, name: str, message: UserBuffer, aim: Aim) -> Operation | None:
        place, values = self.place(aim), operand(name, message, aim)
        with self.exclusively(aim.rank):
            place.combine(name, values)

        return None

    def get_accumulate(
        self, name: str, message: UserBuffer, answer: UserBuffer, aim: Aim
    ) -> Operation | None:
        place, values = self.place(aim), operand(name, message, aim)
        with self.exclusively(aim.rank):
            # Loaded and combined in one context: accumulations are atomic for each element (MPI
            # 4.1, 12.7.1).
            old = place.load()
            place.combine(name, values)

        write(answer, old)

        return None

    def swap(
        self, message: UserBuffer, expected: UserBuffer, answer: UserBuffer, aim: Aim
    ) -> Operation | None:
        check_comparable(aim.typemap)

        place = self.place(aim)
        with self.exclusively(aim.rank):
            old = place.load()
            if old == octets_of(expected):
                place.store(octets_of(message))

        write(answer, old)

        return None


def operand(name: str, message: UserBuffer, aim: Aim) -> Array | tuple[()]:
    """Return a copy of the origin's values, as an array; of NO_OP none."""
    if name == "NO_OP" or aim.nbytes == 0:
        return ()

    check_accumulation(name, message.datatype.typemap, aim.typemap)

    return values_of(octets_of(message), element_of(aim.typemap))


def octets_of(message: UserBuffer) -> bytes:
    """Return a copy of the elements: the buffer may be memory of the window."""
    typemap = message.datatype.typemap
    return bytes(
        typemap.pack(message.view, message.offset, message.count, external=False)
    )


def write(message: UserBuffer, octets: bytes) -> None:
    """Store elements in the program's buffer."""
    message.datatype.typemap.unpack(
        octets, message.view, message.offset, message.count, external=False
    )
