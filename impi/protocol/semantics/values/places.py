"""Elements in the memory of a window, and accumulations into them (MPI 4.1, 12.3.4)."""

from __future__ import annotations

from typing import Final

from impi.base.records import record
from impi.protocol.semantics.errors import error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values import op as predefined
from impi.protocol.semantics.values.basic import Kind
from impi.protocol.semantics.values.datatype import NAMED, Array, TypeMap

# Types of MPI 4.1, 12.3.4.4, and characters: mpi4py programs swap them as 1-octet integers.
_COMPARABLE: Final = frozenset(
    {
        Kind.C_INTEGER,
        Kind.FORTRAN_INTEGER,
        Kind.LOGICAL,
        Kind.MULTI_LANGUAGE,
        Kind.BYTE,
        Kind.CHARACTER,
    }
)


@record
class Place:
    """``count`` elements in the memory of a window, the first at octet ``offset`` of ``view``."""

    view: memoryview
    offset: int
    count: int
    typemap: TypeMap

    @property
    def nbytes(self) -> int:
        return self.typemap.packed_size(self.count, external=False)

    def load(self) -> bytes:
        return bytes(
            self.typemap.pack(self.view, self.offset, self.count, external=False)
        )

    def store(self, octets: bytes) -> None:
        self.typemap.unpack(octets, self.view, self.offset, self.count, external=False)

    def values(self) -> Array:
        """Return a copy of the values; Exception ``ERR_TYPE`` unless they have one type."""
        return values_of(self.load(), element_of(self.typemap))

    def combine(self, name: str, operand: Array | tuple[()]) -> None:
        """Replace each value by ``operand op value``; Exception ``ERR_OP``: not for this type."""

        if name == "NO_OP" or isinstance(operand, tuple) or not len(operand):
            return

        # A window's elements may have gaps: so they are combined as a plain array,
        # between a load and a store.
        element = element_of(self.typemap)
        inoutvec = self.values()
        predefined.apply(name, operand, inoutvec, element)
        self.store(
            bytes(
                element.pack(
                    inoutvec.view(np.uint8).data, 0, len(inoutvec), external=False
                )
            )
        )


def element_of(typemap: TypeMap) -> TypeMap:
    """Return the one predefined datatype of all elements (MPI 4.1, 12.3.4); ``ERR_TYPE``."""

    if typemap.name:
        return typemap

    names = {run.basic.name for run in typemap.runs}
    if len(names) != 1:
        raise error(
            "ERR_TYPE",
            "only elements of one predefined datatype can be accumulated: this one mixes several",
        )

    return NAMED[names.pop()]


def values_of(
    octets: bytes | bytearray | memoryview,
    element: TypeMap,
    *,
    external: bool = False,
    long_size: int = 8,
) -> Array:
    """Return a writable array of packed elements, with their gaps."""

    count = len(octets) // element.packed_size(
        1, external=external, long_size=long_size
    )
    memory = memoryview(bytearray(count * element.extent))
    element.unpack(octets, memory, 0, count, external=external, long_size=long_size)

    return np.ndarray((count,), element.dtype, memory)


def check_accumulation(name: str, origin: TypeMap, target: TypeMap) -> None:
    """Check an accumulation that does not ignore its origin.

    Raises:
        Exception: ``ERR_TYPE``: several types, or different ones; ``ERR_OP``: not for this type.
    """
    element, other = element_of(target), element_of(origin)
    if element.dtype != other.dtype:
        raise error(
            "ERR_TYPE",
            f"origin and target have different elements: MPI_{other.name} and MPI_{element.name}",
        )

    predefined.check(name, element)


def check_comparable(typemap: TypeMap) -> None:
    """Check the type of Compare_and_swap; Exception ``ERR_TYPE``."""
    if any(run.basic.kind not in _COMPARABLE for run in typemap.runs):
        raise error(
            "ERR_TYPE",
            f"MPI_{typemap.name} cannot be compared: use an integer, logical or byte",
        )
