"""Buffer specifications for the mpi4py of the client's MPI library.

One block with a predefined datatype goes through, with the library's datatype instead of ours; the
library's mpi4py reads it and reports its errors. All others become octets: in place if elements
have no gaps, else packed and unpacked after the call. Each member may choose for itself, because
the octets are equal. Blocks of several lengths are always octets: Open MPI 5.0 computes lengths
from the counts of one argument and the datatype of the other, and hangs where members differ in
these.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Any, Final

from impi.protocol.semantics.lazynumpy import loaded, np
from impi.rank.api.constants import BOTTOM, IN_PLACE
from impi.rank.api.types import datatypes, marshalling
from impi.rank.api.types.buffers import UserBlocks, UserBuffer, read_blocks, read_buffer
from impi.rank.api.types.datatypes import Datatype
from impi.rank.api.types.typestate import TypeState
from impi.rank.vendors.base import NativeComm

Spec = Any
"""mpi4py's form: memory with counts, displacements, datatypes. None: MPI_IN_PLACE or nothing."""

# numpy's array class, once an array has come: numpy loads slowly
_ARRAYS: Final[set[type]] = set()
# Codes of numpy arrays that every mpi4py reads
_CODES: Final = frozenset("?bBhHiIlLqQfdFD")


class NativeSpecs:
    """Specifications for the collectives of one communicator.

    Args:
        native: the library's communicator.
        size: number of its procs.
    """

    def __init__(self, native: NativeComm, size: int) -> None:
        self._byte = native.byte
        self._size = size
        self._types = _library_types(native)
        self.unpacking: list[Callable[[], None]] = []
        """Calls that :meth:`unpack` makes after the collective."""
        self._discovered: dict[Any, object] = {}  # Datatypes by numpy dtype

    def one(
        self, spec: Any, receiving: bool, element: Any = None, blocks: int = 1
    ) -> Spec:
        """Translate one block: ``buf``, ``[buf, type]``, ``[buf, count, type]`` and so on.

        ``element``: a datatype of the library for values to reduce; None: octets will do. A count
        in ``spec`` is that of one of ``blocks`` blocks.
        """
        kind = type(spec)
        if kind is list or kind is tuple:
            if (length := len(spec)) == 3:
                buf, count, datatype = spec
            elif length == 2:
                buf, datatype = spec

            if 1 < length < 4 and type(datatype) is Datatype and buf is not BOTTOM:
                theirs = self._types.get(datatype._state)
                if theirs is not None:
                    return [buf, theirs] if length == 2 else [buf, count, theirs]
        elif kind in _ARRAYS or _is_array(kind):
            if spec.dtype.char in _CODES:
                return spec
        elif spec is None or spec is IN_PLACE:
            return None

        return self._octets_of(
            read_buffer(spec, readonly=not receiving, blocks=blocks),
            blocks,
            receiving,
            element,
        )

    def each(self, spec: Any, receiving: bool) -> Spec:
        """Translate one block for each proc, of one length; a count in ``spec`` is per block."""
        if type(spec) is UserBuffer:
            return self._octets_of(spec, self._size, receiving)

        if type(spec) in (list, tuple) and (
            type(spec[-1]) is not Datatype or spec[-1]._state not in self._types
        ):
            buffer = read_buffer(spec, readonly=not receiving, blocks=self._size)
            return self._octets_of(buffer, self._size, receiving)

        return self.one(spec, receiving)

    def several(self, spec: Any, receiving: bool, typed: bool = False) -> Spec:
        """Translate blocks of their own length and displacement; ``typed``: and datatype."""

        if spec is None or spec is IN_PLACE:
            return None

        if not typed and type(spec) is list and len(spec) == 4:
            buf, counts, displs, datatype = spec
            if (
                type(counts) is list
                and type(displs) is list
                and type(datatype) is Datatype
            ):
                size = _SIZES.get(datatype._state, 0)
                # Only if the memory holds all blocks. Otherwise read_blocks() below finds the
                # sentence for the error.
                if size and max(map(add, counts, displs)) * size <= _nbytes(buf):
                    return [
                        buf,
                        [size * count for count in counts],
                        [size * at for at in displs],
                        self._byte,
                    ]

        blocks = read_blocks(
            spec, readonly=not receiving, blocks=self._size, typed=typed
        )

        return self._octets_of_blocks(blocks, receiving, typed)

    def datatype_of(self, spec: Any) -> object:
        """Return the state of the datatype of a one-block specification; None: null."""

        kind = type(spec)
        if (
            (kind is list or kind is tuple)
            and len(spec) > 1
            and type(spec[-1]) is Datatype
        ):
            return spec[-1]._state

        if kind in _ARRAYS and (known := self._discovered.get(spec.dtype)) is not None:
            return known

        state = read_buffer(spec, readonly=True).datatype._state
        if _is_array(kind):
            self._discovered[spec.dtype] = state

        return state

    def unpack(self) -> None:
        """Unpack received octets into user buffers; errors of that go through."""
        unpacking = self.unpacking[:]

        self.unpacking.clear()
        for unpack in unpacking:
            unpack()

    def _octets_of(
        self, elements: UserBuffer, blocks: int, receiving: bool, element: Any = None
    ) -> Spec:
        whole = UserBuffer(
            elements.view,
            elements.offset,
            elements.count * blocks,
            elements.datatype,
            elements.discovered,
        )

        octets = whole.octets()
        if element is not None:
            # mpi4py wants one datatype for sending and receiving, even of two with the same values.
            return [octets, self._types.get(elements.datatype._state, element)]

        # Elements with gaps: the library gets packed octets.
        if octets is None:
            octets = memoryview(bytearray(marshalling.packed(whole, external=False)))
            if receiving:
                self.unpacking.append(
                    lambda: marshalling.unpack(whole, octets, external=False)
                )

        return [octets, self._byte]

    def _octets_of_blocks(
        self, blocks: UserBlocks, receiving: bool, typed: bool
    ) -> Spec:
        each = [blocks.block(rank) for rank in range(self._size)]
        packed = [marshalling.packed(block, external=False) for block in each]
        counts = [piece.nbytes for piece in packed]
        displs = [sum(counts[:rank]) for rank in range(self._size)]

        whole = memoryview(bytearray(b"".join(packed)))
        if receiving:

            def unpack() -> None:
                for block, at, count in zip(each, displs, counts, strict=True):
                    marshalling.unpack(block, whole[at : at + count], external=False)

            self.unpacking.append(unpack)

        return [
            whole,
            counts,
            displs,
            [self._byte] * self._size if typed else self._byte,
        ]


def _predefined() -> dict[str, TypeState]:
    """Return the states of our predefined datatypes by name."""
    found = {name: getattr(datatypes, name) for name in datatypes.__all__}
    return {
        name: item._state
        for name, item in found.items()
        if isinstance(item, Datatype) and isinstance(item._state, TypeState)
    }


# Octets of the datatypes with one value and no gaps.
_SIZES: Final[dict[object, int]] = {
    state: state.typemap.size
    for state in _predefined().values()
    if len(state.typemap.runs) == 1 and state.typemap.size == state.typemap.extent
}


def _is_array(kind: type) -> bool:
    """Tell whether a class is numpy's array; from then on :data:`_ARRAYS` has it."""

    if not loaded() or kind is not np.ndarray:
        return False

    _ARRAYS.add(kind)

    return True


def _nbytes(buf: Any) -> int:
    """Return the octets of contiguous memory; -1: not contiguous, or no memory."""

    if type(buf) in _ARRAYS or _is_array(type(buf)):
        return buf.nbytes  # type: ignore[no-any-return]  # the library refuses gaps

    try:
        view = memoryview(buf)
    except (TypeError, ValueError, BufferError):
        return -1

    return view.nbytes if view.contiguous else -1


def _library_types(native: NativeComm) -> dict[object, Any]:
    """Return the library's predefined datatypes by the states of ours."""
    types: dict[object, Any] = {}
    for name, state in _predefined().items():
        theirs = None if state in types else native.constant(name)
        if theirs is not None:
            types[state] = theirs

    return types
